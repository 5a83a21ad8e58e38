"""What the chart tells the injector: one YAML file, read as strictly as the policy (`docs/kubernetes.md` has its keys).

Its keys are in camelCase, as in Kubernetes manifests; the policy beside it keeps its own names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import yaml

from proxy import __version__
from proxy.config.document import compose
from proxy.config.faults import ConfigError, Refusal, quoted
from proxy.config.reading import INLINE, ListOf, Report, Section, Value, scalar
from proxy.config.scalars import boolean, duration, member
from proxy.core.units import HOUR, SECOND


class Intercept(StrEnum):
    """How a pod's calls reach its sidecar, when the pod does not say."""

    ENVIRONMENT = "environment"
    REDIRECT = "redirect"


class OldClusters(StrEnum):
    """What a cluster without native sidecars (before 1.29) gets: an ordinary container, or a refusal of the pod."""

    CONTAINER = "container"
    REFUSE = "refuse"


class CertificateMode(StrEnum):
    """Who makes the webhook's certificate."""

    SELF = "self"
    CERT_MANAGER = "certManager"
    SECRET = "secret"


Quantities = Mapping[str, Mapping[str, str]]
"""`requests` and `limits` of a container, each a mapping of resource to quantity (Kubernetes API reference)."""

SIDECAR_RESOURCES: Final[Quantities] = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "1", "memory": "256Mi"},
}
REDIRECT_RESOURCES: Final[Quantities] = {
    "requests": {"cpu": "10m", "memory": "48Mi"},
    "limits": {"cpu": "1", "memory": "128Mi"},
}


@dataclass(frozen=True, slots=True)
class Certificates:
    """The webhook's certificate. `lifetime`: of one that the injector makes, in nanoseconds; it is renewed after two thirds.

    `secret_name`: where it is kept, in the injector's own namespace, in every mode. `authority_lifetime`: of the
    authority that signs it in mode `self`.
    """

    mode: CertificateMode = CertificateMode.SELF
    secret_name: str = "waterclock-injector-tls"
    lifetime: int = 90 * 24 * HOUR
    authority_lifetime: int = 3650 * 24 * HOUR


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the injector can be told. Every value has a default, so that `waterclock inject` works alone.

    `no_proxy`: names and networks, beside the standard ones, that calls go to past the sidecar. `cluster_ranges`: the
    networks of Services and pods. `excluded_namespaces`: never injected, whatever their labels say. `webhook_name`: the
    MutatingWebhookConfiguration, whose caBundle the injector owns unless cert-manager does. `service_name` and
    `namespace`: where the injector's own Service is.
    """

    image: str = f"waterclock/waterclock:{__version__}"
    image_pull_policy: str = "IfNotPresent"
    intercept: Intercept = Intercept.ENVIRONMENT
    old_clusters: OldClusters = OldClusters.CONTAINER
    prometheus_annotations: bool = True
    resources: Quantities = field(default_factory=lambda: SIDECAR_RESOURCES)
    redirect_resources: Quantities = field(default_factory=lambda: REDIRECT_RESOURCES)
    journal_size: str = "256Mi"
    no_proxy: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    cluster_ranges: tuple[str, ...] = ()
    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public", "kube-node-lease")
    webhook_name: str = "waterclock-injector"
    service_name: str = "waterclock-injector"
    namespace: str = "waterclock-system"
    certificates: Certificates = Certificates()
    events: bool = True


def _word(text: str) -> str:
    if not text or len(text) > 253 or not text.isprintable() or " " in text:
        raise Refusal(f"{quoted(text)} cannot stand here", "write one word")
    return text


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise Refusal(f"{quoted(text)} is no network", "write one like 10.96.0.0/16") from None


def _pull_policy(text: str) -> str:
    if text not in ("Always", "IfNotPresent", "Never"):
        raise Refusal(f"{quoted(text)} is not known here", "write Always, IfNotPresent or Never")
    return text


word: Final = scalar(_word)
network: Final = scalar(_network)


def _quantities(value: Value) -> dict[str, dict[str, str]]:
    """Read `requests` and `limits` as they stand; what a quantity may be is the API server's to say."""
    return {
        name: {resource: one.read(word) for resource, one in entry.entries()}
        for name, entry in value.entries()
    }


CERTIFICATES: Final = Section(
    Certificates,
    {
        "mode": (member(CertificateMode), "mode"),
        "secretName": (word, "secret_name"),
        "lifetime": (duration(10 * SECOND), "lifetime"),
        "authorityLifetime": (duration(10 * SECOND, 20 * 365 * 24 * HOUR), "authority_lifetime"),
    },
)

SETTINGS: Final = Section(
    Settings,
    {
        "image": (word, "image"),
        "imagePullPolicy": (scalar(_pull_policy), "image_pull_policy"),
        "intercept": (member(Intercept), "intercept"),
        "oldClusters": (member(OldClusters), "old_clusters"),
        "prometheusAnnotations": (boolean, "prometheus_annotations"),
        "sidecar": (
            Section(dict, {"resources": (_quantities, "resources"), "journalSize": (word, "journal_size")}),
            INLINE,
        ),
        "redirect": (Section(dict, {"resources": (_quantities, "redirect_resources")}), INLINE),
        "noProxy": (ListOf(word), "no_proxy"),
        "cluster": (
            Section(
                dict, {"domain": (word, "cluster_domain"), "ranges": (ListOf(network), "cluster_ranges")}
            ),
            INLINE,
        ),
        "excludedNamespaces": (ListOf(word), "excluded_namespaces"),
        "webhookName": (word, "webhook_name"),
        "serviceName": (word, "service_name"),
        "namespace": (word, "namespace"),
        "certificates": (CERTIFICATES, "certificates"),
        "events": (boolean, "events"),
    },
)


def parse_settings(text: str, source: str = "injector.yaml") -> Settings:
    """Return the settings that a YAML text states; an empty one is the built-in settings. Raises ConfigError."""
    root: yaml.Node | None = compose(text, source)
    if root is None:
        return Settings()
    report = Report(source)
    settings: Settings = SETTINGS(Value(root, "", root.start_mark.line + 1, report))
    if report.faults:
        raise ConfigError(report.faults)
    return settings
