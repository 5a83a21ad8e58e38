"""Every object that the chart can render is one that the API server takes, and is made as the project promises."""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

import jsonschema
import kubernetes_validate
import pytest
import yaml
from packaging.version import Version

from tests.chart.foreign import FOREIGN
from tests.chart.rendering import NAMESPACE, ROOT, Object, Render, Values, called, objects_in, pods

# What changes which objects there are, or their form. All of their combinations are rendered.
CHOICES: Final[dict[str, list[Values]]] = {
    "certificates": [
        {"mode": "self"},
        {"mode": "certManager"},
        {"mode": "certManager", "certManager": {"issuerRef": {"name": "internal", "kind": "ClusterIssuer"}}},
        {"mode": "secret", "secretName": "brought"},
    ],
    "injector": [
        {"replicas": 1},
        {"replicas": 2},
        {"failurePolicy": "Fail", "priorityClassName": "system-cluster-critical", "podLabels": {"team": "a"}},
    ],
    "crds": [{}, {"keep": True}, {"install": False}],
    "networkPolicy": [{}, {"restrictEgress": True}, {"enabled": False}],
    "monitoring": [
        {},
        {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "rules": {"enabled": True},
            "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Agents"}},
        },
    ],
}
MATRIX: Final = [dict(zip(CHOICES, choice, strict=True)) for choice in itertools.product(*CHOICES.values())]
VERSIONS: Final = sorted(
    {version for version in kubernetes_validate.utils.all_versions() if Version(version) >= Version("1.29")},
    key=Version,
)
RECOMMENDED: Final = {
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}


@pytest.fixture(scope="module")
def everything(render: Render) -> list[Object]:
    """Every object that a combination of the choices gives. Files that are the same are read once."""
    texts = {text for values in MATRIX for text in render.texts(values).values()}
    return [one for text in sorted(texts) for one in objects_in(text)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_server_would_take_it(everything: list[Object], version: str) -> None:
    """Nothing is misspelt, of a wrong type or not there yet, from the first version with native sidecars to the newest."""
    for one in everything:
        if one["apiVersion"] not in FOREIGN:
            kubernetes_validate.validate(one, version, strict=True)


def test_the_schemas_find_mistakes() -> None:
    """The test above would fail for a field that does not exist."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": [], "prots": []},
    }
    with pytest.raises(kubernetes_validate.ValidationError, match="prots"):
        kubernetes_validate.validate(service, VERSIONS[-1], strict=True)


def test_objects_of_operators_have_known_fields_only(everything: list[Object]) -> None:
    """Those of cert-manager and of the Prometheus operator too."""
    foreign = [one for one in everything if one["apiVersion"] in FOREIGN]
    assert {one["kind"] for one in foreign} == {"Issuer", "Certificate", "PodMonitor", "PrometheusRule"}
    for one in foreign:
        jsonschema.validate(one["spec"], FOREIGN[one["apiVersion"]][one["kind"]])


def test_rendering_twice_gives_the_same_bytes(render: Render) -> None:
    """Nothing is made while rendering: no certificate, no random name, no time."""
    for values in MATRIX[::7]:
        assert render.texts(values) == render.texts(values)


def test_every_object_has_the_recommended_labels(everything: list[Object]) -> None:
    """One can select everything that belongs to an installation."""
    for one in everything:
        assert one["metadata"]["labels"].keys() >= RECOMMENDED, called(one)
    for one in everything:
        if one["kind"] == "Deployment":
            assert one["spec"]["template"]["metadata"]["labels"].keys() >= RECOMMENDED


def test_a_label_of_the_pods_never_takes_the_place_of_an_own_one(render: Render) -> None:
    """The selector has to go on finding the pods."""
    labels = {"app.kubernetes.io/name": "other", "team": "agents"}
    deployment = render.one("Deployment", values={"injector": {"podLabels": labels}})
    found = deployment["spec"]["template"]["metadata"]["labels"]
    assert found["team"] == "agents"
    assert found.items() >= deployment["spec"]["selector"]["matchLabels"].items()


def test_names_are_fixed(everything: list[Object]) -> None:
    """A cluster has one installation; what others rely on are these names."""
    assert {(one["kind"], one["metadata"]["name"]) for one in everything} == {
        *((kind, "waterclock-injector") for kind in CORE),
        ("ConfigMap", "waterclock-injector-policy"),
        ("ConfigMap", "waterclock-dashboards"),
        ("CustomResourceDefinition", "budgetpolicies.waterclock.dev"),
        ("Issuer", "waterclock-injector"),
        ("Issuer", "waterclock-injector-self-signed"),
        ("Certificate", "waterclock-injector"),
        ("Certificate", "waterclock-injector-authority"),
        ("PodMonitor", "waterclock-injector"),
        ("PodMonitor", "waterclock-sidecars"),
        ("PrometheusRule", "waterclock"),
        ("Namespace", "waterclock-test"),
        ("Pod", "waterclock-test"),
    }


CORE: Final = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Service",
    "Deployment",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "MutatingWebhookConfiguration",
)


def test_everything_namespaced_is_in_the_release_namespace(everything: list[Object]) -> None:
    """Applied by kubectl, nothing lands in `default`; the test has a namespace of its own."""
    clusterwide = {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "Namespace",
    }
    for one in everything:
        if one["kind"] in clusterwide:
            assert "namespace" not in one["metadata"], called(one)
        elif one["kind"] == "Pod":
            assert one["metadata"]["namespace"] == "waterclock-test"
        else:
            assert one["metadata"]["namespace"] == NAMESPACE, called(one)


def test_every_container_asks_and_is_limited(everything: list[Object]) -> None:
    """Autoscalers and quotas look at both."""
    for spec in pods(everything):
        for container in spec["containers"]:
            for kind in ("requests", "limits"):
                assert container["resources"][kind].keys() == {"cpu", "memory"}


def test_every_pod_is_restricted(everything: list[Object]) -> None:
    """All of them would run in a namespace that enforces the restricted standard."""
    for spec in pods(everything):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def rules_of(objects: list[Object]) -> list[dict[str, Any]]:
    """Return all rules of all roles."""
    return [rule for one in objects if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]


def test_no_role_has_a_wildcard(everything: list[Object]) -> None:
    """What may be done is said word by word."""
    for rule in rules_of(everything):
        for words in rule.values():
            assert "*" not in words, rule


def test_what_may_be_changed_is_named(everything: list[Object]) -> None:
    """But for what a name cannot narrow: creation, events and a status, no verb that changes is without a name."""
    for rule in rules_of(everything):
        changing = set(rule["verbs"]) - {"get", "list", "watch", "create"}
        if changing and rule["resources"] not in (["events"], ["budgetpolicies/status"]):
            assert rule.get("resourceNames"), rule


def test_secrets_are_read_in_one_namespace_by_name(render: Render) -> None:
    """The injector sees no other Secret, and writes its own only where it makes the certificate."""
    for mode, changes in (("self", {"create", "update"}), ("certManager", set()), ("secret", set())):
        objects = render({"certificates": {"mode": mode, "secretName": "brought"}})
        clusterwide = [rule for one in objects if one["kind"] == "ClusterRole" for rule in one["rules"]]
        assert not any("secrets" in rule["resources"] for rule in clusterwide)
        of_secrets = [rule for rule in rules_of(objects) if "secrets" in rule["resources"]]
        assert {verb for rule in of_secrets for verb in rule["verbs"]} == {"list", "watch"} | changes
        assert all(
            rule.get("resourceNames") == ["brought"] for rule in of_secrets if rule["verbs"] != ["create"]
        )


def test_ca_bundle_has_one_owner(render: Render) -> None:
    """The chart never writes it; with cert-manager, the injector may not either."""
    for mode in ("self", "certManager", "secret"):
        objects = render({"certificates": {"mode": mode}})
        [webhook] = [one for one in objects if one["kind"] == "MutatingWebhookConfiguration"]
        assert "caBundle" not in json.dumps(webhook)
        verbs = {
            verb
            for rule in rules_of(objects)
            if "mutatingwebhookconfigurations" in rule["resources"]
            for verb in rule["verbs"]
        }
        by_cert_manager = "cert-manager.io/inject-ca-from" in webhook["metadata"].get("annotations", {})
        assert by_cert_manager == (mode == "certManager") == ("patch" not in verbs)


def test_one_replica_has_no_disruption_budget(render: Render) -> None:
    """It would keep a node from being drained for ever."""
    for replicas, there in ((0, False), (1, False), (2, True), (5, True)):
        kinds = {one["kind"] for one in render({"injector": {"replicas": replicas}})}
        assert ("PodDisruptionBudget" in kinds) == there


def test_crd_goes_with_the_chart_unless_it_is_kept(render: Render) -> None:
    """It is rendered like everything else, so that uninstalling removes it."""
    name = "budgetpolicies.waterclock.dev"
    kind = "CustomResourceDefinition"
    assert "annotations" not in render.one(kind, name)["metadata"]
    kept = render.one(kind, name, {"crds": {"keep": True}})
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_dashboards_and_rules_are_those_of_the_files(render: Render) -> None:
    """What is included comes out as it is."""
    values = {"monitoring": {part: {"enabled": True} for part in ("rules", "dashboards")}}
    rule = render.one("PrometheusRule", "waterclock", values)
    assert rule["spec"] == yaml.safe_load((ROOT / "charts/waterclock/files/rules.yaml").read_text())
    dashboards = render.one("ConfigMap", "waterclock-dashboards", values)
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = {path.name: path.read_text() for path in (ROOT / "charts/waterclock/files/dashboards").iterdir()}
    assert files
    assert {name: json.loads(text) for name, text in dashboards["data"].items()} == {
        name: json.loads(text) for name, text in files.items()
    }
