"""The policies of one namespace: from the chart's and its BudgetPolicies to the data of its ConfigMap.

The rules:

- `waterclock.yaml` holds the chart's policy, or that of the oldest BudgetPolicy without a selector that can be used. The
  others without one are in conflict with it, and wait for it to go.
- Each BudgetPolicy with a selector has a key of its own.
- One that has become invalid leaves its last good text where it stands, so that a slip of the pen takes no policy from
  pods that run. It is recognised by its first line; a text that somebody has changed by hand is not it.
- What does not fit into a ConfigMap any more, the oldest first, is left out.

Nothing here knows the cluster, or the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy.kube.names import POLICY_FILE
from proxy.kube.policies.budget_policy import BudgetPolicy, is_intact

LARGEST: Final = 1024 * 1024
"""Bytes of a ConfigMap's values together (Kubernetes API reference, ConfigMap)."""


class Use(StrEnum):
    """What becomes of a BudgetPolicy."""

    USED = "used"
    INVALID = "invalid"
    CONFLICT = "conflict"
    TOO_LARGE = "too large"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one BudgetPolicy.

    `text`: what stands for it under its key, None when nothing does; for an invalid one, its last good text. `rival`: the
    BudgetPolicy that it is in conflict with.
    """

    policy: BudgetPolicy
    use: Use
    text: str | None = None
    rival: str = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a namespace's ConfigMap holds, and what became of each of its BudgetPolicies, the oldest first."""

    data: Mapping[str, str]
    verdicts: Sequence[Verdict]


def compile_policies(chart: str, policies: Iterable[BudgetPolicy], before: Mapping[str, str]) -> Compiled:
    """Return what holds in a namespace. `chart`: the text of the chart's policy; `before`: what the ConfigMap holds now."""
    oldest_first = sorted(policies, key=lambda policy: policy.age)
    verdicts = _rivals(_judged(policy, before) for policy in oldest_first)
    data = {POLICY_FILE: chart}
    size = _bytes(chart)
    settled = []
    # The default goes first, whatever its age: every pod may need it.
    for verdict in sorted(verdicts, key=lambda verdict: verdict.policy.selector is not None):
        key, text = verdict.policy.key, verdict.text
        if text is not None:
            grown = size + _bytes(text) - _bytes(data.get(key, ""))
            if grown <= LARGEST:
                data[key], size = text, grown
            else:
                verdict = Verdict(verdict.policy, Use.TOO_LARGE)
        settled.append(verdict)
    return Compiled(data, sorted(settled, key=lambda verdict: verdict.policy.age))


def _judged(policy: BudgetPolicy, before: Mapping[str, str]) -> Verdict:
    if not policy.faults:
        return Verdict(policy, Use.USED, policy.text)
    last = before.get(policy.key)
    good = last if last is not None and is_intact(last, policy.name) else None
    return Verdict(policy, Use.INVALID, good)


def _rivals(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Let the first without a selector that has a text be the default, and the others wait for it."""
    found: list[Verdict] = []
    first = ""
    for verdict in verdicts:
        if verdict.policy.selector is None and verdict.text is not None:
            if first and verdict.use is Use.USED:
                verdict = Verdict(verdict.policy, Use.CONFLICT, rival=first)
            elif first:
                verdict = Verdict(verdict.policy, Use.INVALID)
            else:
                first = verdict.policy.name
        found.append(verdict)
    return found


def _bytes(text: str) -> int:
    return len(text.encode())
