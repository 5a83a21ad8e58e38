"""Skip, refuse or inject: the words in which it is said what becomes of one pod, and why. `rule` has the rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Object = Mapping[str, Any]
"""A Kubernetes object or a part of one, as JSON has it."""


class Verdict(StrEnum):
    """What becomes of the pod. The words are those of metrics and of `POST /explain`."""

    INJECTED = "injected"
    SKIPPED = "skipped"
    REFUSED = "refused"


class Reason(StrEnum):
    """Why, in one word, as Events and metrics carry it. `rule` says when each holds."""

    INJECTED = "Injected"
    # skipped
    NOT_REQUESTED = "NotRequested"
    EXCLUDED_NAMESPACE = "ExcludedNamespace"
    OPTED_OUT = "OptedOut"
    ALREADY_INJECTED = "AlreadyInjected"
    MIRROR_POD = "MirrorPod"
    HOST_NETWORK = "HostNetwork"
    WINDOWS_POD = "WindowsPod"
    JOB_WOULD_NOT_END = "JobWouldNotEnd"
    NOT_A_POD = "NotAPod"
    NOT_A_CREATION = "NotACreation"
    # refused
    BAD_ANNOTATION = "BadAnnotation"
    OLD_CLUSTER = "OldCluster"
    REDIRECT_FORBIDDEN = "RedirectForbidden"
    USER_ID_CLASH = "UserIdClash"
    NAME_CLASH = "NameClash"
    PORT_CLASH = "PortClash"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a JSON patch (RFC 6902): `add`, `replace` or `remove` at a JSON pointer (RFC 6901)."""

    op: str
    path: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a pod. `reason` is one word in CamelCase, as Events carry it; `message` a sentence with the remedy.

    `patch` is empty unless the pod is injected. `warnings` are shown to whoever creates the pod: sentences, each of
    something that works otherwise than its author may think.
    """

    verdict: Verdict
    reason: str
    message: str
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetPolicyRef:
    """A BudgetPolicy of the pod's namespace that has been compiled: its name and which pods it selects.

    `selector` is a LabelSelector (Kubernetes API reference), None for the namespace's default policy, which every pod
    without another one has. The oldest of those that select a pod wins, then the first by name.
    """

    name: str
    selector: Object | None = None
    created: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around the pod. `namespace` is that of the request: a pod's own may be empty.

    `native_sidecars`: the cluster is 1.29 or newer, or has the feature switched on.
    """

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    policies: Sequence[BudgetPolicyRef] = ()
    native_sidecars: bool = True
