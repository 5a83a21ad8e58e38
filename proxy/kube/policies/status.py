"""What a BudgetPolicy's status says: two conditions, each with a reason that tools can test and a message for people.

`Accepted`: whether the policy can be used. `Ready`: whether it stands in the namespace's ConfigMap, so that pods which are
created now get it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from proxy.kube.cluster import Object
from proxy.kube.names import ENABLED, INJECT, POLICY_CONFIG_MAP
from proxy.kube.policies.compiled import LARGEST, Use, Verdict

_LONGEST_MESSAGE: Final = 32768  # Kubernetes API reference, Condition


class Reason(StrEnum):
    """The reason of a condition. `VALID`, `INVALID` and `CONFLICT` are those of Accepted, the rest of Ready."""

    VALID = "Valid"
    INVALID = "Invalid"
    CONFLICT = "Conflict"

    COMPILED = "Compiled"
    LAST_GOOD = "LastGood"
    NOT_ACCEPTED = "NotAccepted"
    TOO_LARGE = "TooLarge"
    NOT_OPTED_IN = "NotOptedIn"
    FOREIGN_CONFIG_MAP = "ForeignConfigMap"
    PENDING = "Pending"


@dataclass(frozen=True, slots=True)
class Place:
    """The namespace's ConfigMap, as far as BudgetPolicies have to do with it.

    `data`: what it holds; None where there is none of ours. `wanted`: there should be one. `foreign`: somebody else has
    made one of that name. `problem`: why it could not be written.
    """

    data: Mapping[str, str] | None
    wanted: bool = True
    foreign: bool = False
    problem: str = ""


def readiness(verdict: Verdict, place: Place) -> tuple[bool, Reason, str]:
    """Return the status, reason and message of `Ready`."""
    key = f"Key {verdict.policy.key} of ConfigMap {POLICY_CONFIG_MAP}"
    stands = verdict.text is not None and (place.data or {}).get(verdict.policy.key) == verdict.text
    if stands and verdict.use is Use.USED:
        return True, Reason.COMPILED, f"{key} holds it."
    if stands:
        return False, Reason.LAST_GOOD, f"{key} holds what was accepted last."
    if verdict.use is Use.TOO_LARGE:
        room = f"A ConfigMap has room for {LARGEST} bytes"
        return (
            False,
            Reason.TOO_LARGE,
            f"{room}, and older policies take it; make policies shorter, or fewer.",
        )
    if verdict.text is None:
        return False, Reason.NOT_ACCEPTED, "It is not accepted."
    return False, *_obstacle(place)


def _obstacle(place: Place) -> tuple[Reason, str]:
    if place.foreign:
        return (
            Reason.FOREIGN_CONFIG_MAP,
            f"ConfigMap {POLICY_CONFIG_MAP} was made by somebody else and is left as it is; rename or delete it.",
        )
    if not place.wanted:
        return (
            Reason.NOT_OPTED_IN,
            f"Nobody here asks for a sidecar; label the namespace {INJECT}={ENABLED}, or annotate pods so.",
        )
    problem = place.problem or "it is under way"
    return Reason.PENDING, f"ConfigMap {POLICY_CONFIG_MAP} does not hold it yet: {problem}."


def acceptance(verdict: Verdict) -> tuple[bool, Reason, str]:
    """Return the status, reason and message of `Accepted`."""
    if verdict.policy.faults:
        return False, Reason.INVALID, _listed(verdict.policy.faults)
    if verdict.use is Use.CONFLICT:
        return (
            False,
            Reason.CONFLICT,
            f"BudgetPolicy {verdict.rival} has no selector either, and is older; add a selector, or delete one of the two.",
        )
    return True, Reason.VALID, "The policy can be used."


def telling_reason(verdict: Verdict, place: Place) -> Reason:
    """Return the reason that tells most: that of Ready, or, where it only says that the other is false, of Accepted."""
    _, reason, _ = readiness(verdict, place)
    return acceptance(verdict)[1] if reason is Reason.NOT_ACCEPTED else reason


def _listed(faults: tuple[str, ...]) -> str:
    """Return faults, one a line, as many as a message takes."""
    text = "\n".join(faults)
    if len(text) <= _LONGEST_MESSAGE:
        return text
    return text[: _LONGEST_MESSAGE - 1].rpartition("\n")[0] + "\n…"


def new_status(item: Object, verdict: Verdict, place: Place, now: str) -> Object | None:
    """Return the status that a BudgetPolicy should have, None when it has it. `now`: RFC 3339, for what has changed."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    before = {each.get("type"): each for each in conditions}
    generation = verdict.policy.generation
    status = {
        "observedGeneration": generation,
        "conditions": [
            _condition(type, said, generation, before.get(type), now)
            for type, said in (("Accepted", acceptance(verdict)), ("Ready", readiness(verdict, place)))
        ],
    }
    return status if status != item.get("status") else None


def _condition(
    type: str, said: tuple[bool, Reason, str], generation: int, before: Any, now: str
) -> dict[str, Any]:
    """Return a condition; it has changed when its status has (Kubernetes API conventions, "Typical status properties")."""
    status = "True" if said[0] else "False"
    same = before is not None and before.get("status") == status
    return {
        "type": type,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
        "reason": str(said[1]),
        "message": said[2],
    }


def is_usable(item: Object) -> bool:
    """Say whether a BudgetPolicy's text, or its last good one, stands in the ConfigMap, as its status has it."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type") == "Ready"
        and (each.get("status") == "True" or each.get("reason") == Reason.LAST_GOOD)
        for each in conditions
    )
