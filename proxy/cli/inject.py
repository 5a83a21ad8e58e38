"""`waterclock inject`: what the injector does to a pod, without a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from proxy.cli.output import print_json
from proxy.cli.policy_file import complain
from proxy.config import ConfigError, Fault, parse
from proxy.config import read as read_text
from proxy.config.faults import visible

if TYPE_CHECKING:
    from proxy.cli.manifests import Document
    from proxy.kube.injection.decision import Decision, Operation, Surroundings
    from proxy.kube.settings import Settings
    from proxy.kube.templates import Found

_NATIVE_SINCE: Final = (1, 29)
_VERSION: Final = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,4})(?:[.+-].*)?")


class Version(click.ParamType[tuple[int, int]]):
    """A Kubernetes version; what stands behind its minor is not looked at."""

    name = "version"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Read one. Fails with the remedy."""
        if isinstance(value, tuple):
            return value
        match = _VERSION.fullmatch(value)
        if match is None:
            self.fail(f'"{value}" is no version; write one like 1.34', param, ctx)
        return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True)
class Judged:
    """An object that holds a pod, where it stands, and what was decided."""

    document: Document
    line: int
    found: Found
    decision: Decision

    @property
    def place(self) -> str:
        """Where it stands, and which it is."""
        return f"{self.document.source}:{self.line}: {_name(self.found)}"

    @property
    def patch(self) -> list[Operation]:
        """The patch of the document: the pod's, with the way to the pod in front."""
        from proxy.kube.injection.decision import Operation
        from proxy.kube.injection.patch import pointer

        way = pointer(self.found.pod_path)
        return [Operation(each.op, way + each.path, each.value) for each in self.decision.patch]


def _name(found: Found) -> str:
    name = found.name or "(no name)"
    return visible(
        f"{found.kind} {found.namespace}/{name}" if found.namespace else f"{found.kind} {name}", 300
    )


@click.command(short_help="Inject the sidecar into manifests, without a cluster.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="A file of manifests, of any number of documents; - is standard input. Repeatable.",
)
@click.option("--explain", is_flag=True, help="Print what was decided and why, instead of manifests.")
@click.option(
    "--patch", "as_patch", is_flag=True, help="Print a JSON patch (RFC 6902) for each object instead."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How --explain prints it.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The injector's settings (injector.yaml), as its ConfigMap holds them. Without it: the built-in ones.",
)
@click.option("--namespace", default="", metavar="NAME", help="The namespace of objects that name none.")
@click.option(
    "--namespace-label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="A label of the namespace; repeatable. waterclock.dev/inject=enabled is there without being named.",
)
@click.option(
    "--kubernetes-version",
    type=Version(),
    default="1.34",
    show_default=True,
    help="The cluster's version: from 1.29 on, sidecars are native.",
)
@click.option("--image", metavar="IMAGE", help="The sidecar's image, instead of the settings'.")
@click.option(
    "--with-policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Check this policy, and print it as the ConfigMap waterclock-policy in front of the manifests.",
)
def inject(
    files: tuple[Path, ...],
    explain: bool,
    as_patch: bool,
    output: str,
    config: Path | None,
    namespace: str,
    labels: tuple[str, ...],
    kubernetes_version: tuple[int, int],
    image: str | None,
    with_policy: Path | None,
) -> None:
    """Print manifests with the sidecar in their pods, as the injector would make them.

    Pods are looked for in Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob and in lists of them;
    everything else is printed as it is. Asked for here, a pod gets the sidecar unless it opts out
    (waterclock.dev/inject: disabled), or cannot have one. What was decided for each is said on standard error.

    In the cluster an injected pod needs the ConfigMap that holds its policy: the injector keeps one in every namespace that
    is labelled; without an injector, --with-policy makes it. What waterclock.dev/policy names is taken for a ConfigMap:
    BudgetPolicies are known in the cluster only.

    Ends with status 0; 1 when a pod is refused, and then no manifest is printed; 2 when a file cannot be read as what it
    should be, with the line.

    \b
    Examples:
      waterclock inject -f deployment.yaml | kubectl apply -f -
      waterclock inject -f deployment.yaml --explain
      kubectl kustomize . | waterclock inject -f - --with-policy waterclock.yaml
      waterclock inject -f pod.yaml --namespace-label pod-security.kubernetes.io/enforce=restricted
    """
    if explain and as_patch:
        raise click.UsageError("--explain and --patch exclude each other.")
    try:
        settings = _settings(config, image)
        policy = _checked_policy(with_policy)
        around = _surroundings(labels, kubernetes_version)
        documents = [document for file in files for document in _documents(file)]
        judged = [each for document in documents for each in _judged(document, namespace, around, settings)]
    except ConfigError as error:
        complain(error)
    refused = any(each.decision.verdict == "refused" for each in judged)
    if explain:
        _print_decisions(judged, as_json=output == "json")
        sys.exit(1 if refused else 0)
    for each in judged:
        _tell(each)
    if refused:
        sys.exit(1)
    if as_patch:
        _print_patches(judged)
    else:
        _print_manifests(documents, judged, _config_maps(policy, judged, namespace))


# -- what is given ---------------------------------------------------------------------------------------------------


def _settings(config: Path | None, image: str | None) -> Settings:
    from proxy.kube.settings import Settings, parse_settings

    settings = parse_settings(read_text(config), str(config)) if config is not None else Settings()
    return replace(settings, image=image) if image is not None else settings


def _checked_policy(path: Path | None) -> str | None:
    """Return the text of a policy without faults. Raises ConfigError."""
    if path is None:
        return None
    text = read_text(path)
    parse(text, str(path))
    return text


def _surroundings(labels: tuple[str, ...], version: tuple[int, int]) -> Surroundings:
    from proxy.kube import names
    from proxy.kube.injection.decision import Surroundings

    said = {names.INJECT: names.ENABLED}
    for label in labels:
        key, equals, value = label.partition("=")
        if not key or not equals:
            raise click.BadParameter(
                f'"{label}" is no label; write KEY=VALUE', param_hint="'--namespace-label'"
            )
        said[key] = value
    return Surroundings("", said, native_sidecars=version >= _NATIVE_SINCE)


def _documents(path: Path) -> list[Document]:
    from proxy.cli.manifests import split

    source = "standard input" if str(path) == "-" else str(path)
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror or error}"
        raise ConfigError([Fault(source, None, "", problem, "check the path and its permissions")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"byte {error.start + 1} is not UTF-8"
        raise ConfigError([Fault(source, line, "", problem, "save the file as UTF-8")]) from None
    return split(text, source)


def _judged(document: Document, namespace: str, around: Surroundings, settings: Settings) -> Iterator[Judged]:
    """Yield what was decided for each pod of a document. Raises ConfigError for what is no pod."""
    from proxy.cli.manifests import read
    from proxy.kube.injection.decision import Reason
    from proxy.kube.injection.rule import decide

    if not document.may_hold_pods:
        return
    for found, line in read(document)[1]:
        place = found.namespace or namespace or "default"
        decision = decide(found.pod, replace(around, namespace=place), settings)
        if decision.reason == Reason.NOT_A_POD:
            problem = f"{_name(found)}: {decision.message}"
            raise ConfigError([Fault(document.source, line, "", problem, "correct its template")])
        yield Judged(document, line, found, decision)


# -- what is printed -------------------------------------------------------------------------------------------------


def _tell(judged: Judged) -> None:
    """Say on standard error what was decided for a pod."""
    decision = judged.decision
    click.echo(f"{judged.place}: {decision.verdict} ({decision.reason}). {decision.message}", err=True)
    for warning in decision.warnings:
        click.echo(f"  warning: {warning}", err=True)


def _print_decisions(judged: list[Judged], *, as_json: bool) -> None:
    from proxy.kube.injection import explain

    if as_json:
        print_json([_as_object(each) for each in judged])
        return
    for each in judged:
        click.echo(f"{each.place}: {explain.as_text(each.decision)}")


def _as_object(judged: Judged) -> dict[str, Any]:
    from proxy.kube.injection import explain

    found = judged.found
    where = {"file": judged.document.source, "line": judged.line}
    what = {"kind": found.kind, "namespace": found.namespace, "name": found.name}
    return where | what | explain.as_object(judged.decision)


def _print_patches(judged: list[Judged]) -> None:
    from proxy.kube.injection.patch import as_json

    for each in judged:
        print_json(as_json(each.patch))


def _print_manifests(documents: list[Document], judged: list[Judged], first: list[Any]) -> None:
    """Print all documents in their order: what was not changed as it was, with its comments."""
    from proxy.cli.manifests import read, write
    from proxy.kube.injection.patch import apply

    texts = [write(each) for each in first]
    for document in documents:
        patch = [operation for each in judged if each.document is document for operation in each.patch]
        texts.append(write(apply(patch, read(document)[0])) if patch else document.text)
    for index, text in enumerate(texts):
        if index and not text.startswith(("---", "%")):
            click.echo("---")
        click.echo(text, nl=not text.endswith("\n"))


def _config_maps(policy: str | None, judged: list[Judged], namespace: str) -> list[dict[str, Any]]:
    """Return the policy as a ConfigMap for each namespace in which a pod was injected."""
    from proxy.kube import names

    if policy is None:
        return []
    injected = [each.found.namespace or namespace for each in judged if each.decision.patch]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.POLICY_CONFIG_MAP} | ({"namespace": place} if place else {}),
            "data": {names.POLICY_FILE: policy},
        }
        for place in dict.fromkeys(injected)
    ]
