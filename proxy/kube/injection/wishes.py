"""What a pod and its namespace ask for, in labels and annotations, read once into a value. What is wrong is said."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from proxy.config.faults import Refusal, listed, quoted, visible
from proxy.config.pod import longest_budget, networks, port, port_ranges
from proxy.kube import names
from proxy.kube.injection.decision import Surroundings
from proxy.kube.injection.pod import Pod
from proxy.kube.settings import Intercept

OWN_PORTS: Final = range(names.OUTBOUND_PORT, names.METRICS_PORT + 1)
"""The ports that the sidecar takes in the pod."""

# RFC 1123, as the API server holds the names of ConfigMaps to it.
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z"
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for. None and empty: nothing was said.

    `inject`: whether the sidecar is wanted, and `said_by` whose word that is. `inbound_port`: the app's port, 1 to
    65535. `policy`: a BudgetPolicy or a ConfigMap. `budget_max`, `exclude_ports` and `exclude_cidrs` are texts that have
    been read, as the options of `waterclock run` take them. `faults`: values that are wrong, each a sentence with the
    remedy. `warnings`: names that mean nothing.
    """

    inject: bool | None = None
    said_by: str = ""
    intercept: Intercept | None = None
    inbound_port: int | None = None
    policy: str | None = None
    observe: bool = False
    budget_max: str | None = None
    exclude_ports: str = ""
    exclude_cidrs: str = ""
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_wishes(pod: Pod, around: Surroundings) -> Wishes:
    """Return what the pod and its namespace ask for."""
    found: dict[str, Any] = {}
    faults: list[str] = []
    for name, (attribute, read) in _ANNOTATIONS.items():
        if name in pod.annotations:
            try:
                found[attribute] = read(pod.annotations[name])
            except Refusal as refusal:
                faults.append(f"annotation {name}: {refusal.problem}; {refusal.remedy}")
    wishes = Wishes(**found, faults=tuple(faults), warnings=tuple(_unknown(pod)))
    return _with_policy_of_namespace(_with_request(wishes, pod, around), around)


def _with_request(wishes: Wishes, pod: Pod, around: Surroundings) -> Wishes:
    """Add whether the sidecar is wanted: the pod's annotation says so, else its label, else the namespace's label."""
    places = (
        ("the pod's annotation", pod.annotations),
        ("the pod's label", pod.labels),
        ("the namespace's label", around.labels),
    )
    for said_by, said in places:
        if names.INJECT not in said:
            continue
        word = said[names.INJECT]
        wanted = {names.ENABLED: True, names.DISABLED: False}.get(word)
        if wanted is not None:
            return replace(wishes, inject=wanted, said_by=said_by)
        problem = f"{said_by} {names.INJECT}: {quoted(word)} is not known; write enabled or disabled"
        if said is around.labels:
            return replace(wishes, warnings=(*wishes.warnings, problem))
        return replace(wishes, inject=True, said_by=said_by, faults=(problem, *wishes.faults))
    return wishes


def _with_policy_of_namespace(wishes: Wishes, around: Surroundings) -> Wishes:
    """Add the policy that the namespace names, where the pod names none."""
    name = around.annotations.get(names.POLICY, around.labels.get(names.POLICY))
    if wishes.policy is not None or name is None:
        return wishes
    try:
        return replace(wishes, policy=_object_name(name))
    except Refusal as refusal:
        fault = f"namespace {around.namespace}, {names.POLICY}: {refusal.problem}; {refusal.remedy}"
        return replace(wishes, faults=(*wishes.faults, fault))


def _unknown(pod: Pod) -> list[str]:
    """Return a sentence for each name of ours that means nothing where it stands."""
    found = []
    for name in pod.annotations:
        if name.startswith(_PREFIX) and name not in _ON_PODS:
            close = difflib.get_close_matches(name[:100].lower(), _ON_PODS, n=1, cutoff=0.5)
            remedy = f"did you mean {close[0]}?" if close else f"the names are {listed(_SHORT, 'and')}"
            found.append(f"annotation {visible(name)} means nothing; {remedy}")
    for name in pod.labels:
        if name.startswith(_PREFIX) and name != names.INJECT:
            remedy = "write it as an annotation" if name in _ON_PODS else "take it out"
            found.append(f"label {visible(name)} means nothing; {remedy}")
    return found


# -- values ----------------------------------------------------------------------------------------------------------


def _one_of(words: type[StrEnum]) -> Callable[[str], StrEnum]:
    def read(text: str) -> StrEnum:
        if text not in set(words):
            raise Refusal(f"{quoted(text)} is not known", f"write {listed([*words])}")
        return words(text)

    return read


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise Refusal(f"{quoted(text)} is neither true nor false", 'write "true" or "false"')
    return text == "true"


def _app_port(text: str) -> int:
    number = port(text)
    if number in OWN_PORTS:
        raise Refusal(f"{number} is a port of the sidecar itself", "write the port that the app listens on")
    return number


def _object_name(text: str) -> str:
    if not _NAME.match(text):
        remedy = "write the name of a BudgetPolicy or of a ConfigMap in this namespace"
        raise Refusal(f"{quoted(text)} is no name of an object", remedy)
    return text


def _span(text: str) -> str:
    longest_budget(text)
    return text


def _ports(text: str) -> str:
    ranges = port_ranges(text)
    return ",".join(f"{first}-{last}" if first != last else f"{first}" for first, last in ranges)


def _networks(text: str) -> str:
    return ",".join(networks(text))


_ANNOTATIONS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    names.INTERCEPT: ("intercept", _one_of(Intercept)),
    names.INBOUND_PORT: ("inbound_port", _app_port),
    names.POLICY: ("policy", _object_name),
    names.OBSERVE: ("observe", _truth),
    names.BUDGET_MAX: ("budget_max", _span),
    names.EXCLUDE_PORTS: ("exclude_ports", _ports),
    names.EXCLUDE_CIDRS: ("exclude_cidrs", _networks),
}
"""Each annotation of a pod, the attribute that it becomes, and what reads it."""

_PREFIX: Final = f"{names.GROUP}/"
_ON_PODS: Final = (names.INJECT, *_ANNOTATIONS, names.STATUS)
_SHORT: Final = [name.removeprefix(_PREFIX) for name in (names.INJECT, *_ANNOTATIONS)]
