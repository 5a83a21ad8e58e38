"""What is said of a BudgetPolicy: conditions, as Kubernetes has them, written only when they change."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.kube.names import POLICY_FILE
from proxy.kube.policies.compiled import LARGEST, Use, Verdict, compile_policies
from proxy.kube.policies.controller import refs
from proxy.kube.policies.status import Place, Reason, is_usable, new_status, telling_reason
from tests.kube.policies.objects import budget_policy, read

NOW = "2030-02-03T04:05:06Z"
LATER = "2030-02-03T04:05:07Z"
GOOD = {"budget": {"default": "3s"}}
WRONG = {"budget": {"default": "soon", "max": "later"}}
SOME = {"matchLabels": {"app": "a"}}


def conditions(verdict: Verdict, place: Place) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition."""
    status = new_status(budget_policy(verdict.policy.name, GOOD), verdict, place, NOW)
    assert status is not None
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}


def test_used() -> None:
    """It can be used, and stands where it belongs."""
    policy = read("a", GOOD, SOME)
    verdict = Verdict(policy, Use.USED, policy.text)
    assert conditions(verdict, Place({policy.key: policy.text})) == {
        "Accepted": ("True", "Valid", "The policy can be used."),
        "Ready": ("True", "Compiled", "Key a.budgetpolicy.yaml of ConfigMap waterclock-policy holds it."),
    }


def test_invalid() -> None:
    """Every fault is in the message, a line each."""
    verdict = Verdict(read("a", WRONG, SOME), Use.INVALID)
    said = conditions(verdict, Place({POLICY_FILE: ""}))
    assert said["Accepted"][:2] == ("False", "Invalid")
    assert said["Accepted"][2].splitlines() == [
        'spec.policy.budget.default: "soon" is not one number with one unit; write one like 250ms, 5m or 1h',
        'spec.policy.budget.max: "later" is not one number with one unit; write one like 250ms, 5m or 1h',
    ]
    assert said["Ready"] == ("False", "NotAccepted", "It is not accepted.")
    assert telling_reason(verdict, Place({})) is Reason.INVALID


def test_the_last_good_one() -> None:
    """What was accepted before is still what pods get."""
    before = compile_policies("", [read("a", GOOD, SOME)], {}).data
    [verdict] = compile_policies("", [read("a", WRONG, SOME)], before).verdicts
    said = conditions(verdict, Place(before))
    assert said["Accepted"][:2] == ("False", "Invalid")
    assert said["Ready"] == (
        "False",
        "LastGood",
        "Key a.budgetpolicy.yaml of ConfigMap waterclock-policy holds what was accepted last.",
    )


def test_conflict() -> None:
    """It names the one that it is in conflict with."""
    verdict = Verdict(read("b", GOOD), Use.CONFLICT, rival="a")
    said = conditions(verdict, Place({POLICY_FILE: ""}))
    assert said["Accepted"] == (
        "False",
        "Conflict",
        "BudgetPolicy a has no selector either, and is older; add a selector, or delete one of the two.",
    )
    assert said["Ready"][1] == "NotAccepted"
    assert telling_reason(verdict, Place({})) is Reason.CONFLICT


@pytest.mark.parametrize(
    ("place", "reason", "message"),
    [
        (Place(None, wanted=False), "NotOptedIn", "Nobody here asks for a sidecar; label the namespace waterclock.dev/inject=enabled, or annotate pods so."),
        (Place(None, foreign=True), "ForeignConfigMap", "ConfigMap waterclock-policy was made by somebody else and is left as it is; rename or delete it."),
        (Place(None), "Pending", "ConfigMap waterclock-policy does not hold it yet: it is under way."),
        (Place({POLICY_FILE: ""}, problem="no"), "Pending", "ConfigMap waterclock-policy does not hold it yet: no."),
        (Place({"a.budgetpolicy.yaml": "older"}), "Pending", "ConfigMap waterclock-policy does not hold it yet: it is under way."),
    ],
)  # fmt: skip
def test_not_there(place: Place, reason: str, message: str) -> None:
    """It can be used, but does not stand where it belongs, for a reason that somebody can do something about."""
    policy = read("a", GOOD, SOME)
    said = conditions(Verdict(policy, Use.USED, policy.text), place)
    assert said["Accepted"][0] == "True"
    assert said["Ready"] == ("False", reason, message)


def test_too_large() -> None:
    """There is no room for it."""
    said = conditions(Verdict(read("a", GOOD, SOME), Use.TOO_LARGE), Place({}))
    assert said["Accepted"][0] == "True"
    assert said["Ready"][:2] == ("False", "TooLarge")
    assert str(LARGEST) in said["Ready"][2]


def test_many_faults() -> None:
    """As many as a condition takes, whole."""
    policy = {"tunnel": {"deny": [f"a b {number} {'x' * 50}" for number in range(1000)]}}
    verdict = Verdict(read("a", policy), Use.INVALID)
    message = conditions(verdict, Place({}))["Accepted"][2]
    assert 30_000 < len(message) <= 32_768
    *lines, last = message.splitlines()
    assert last == "…"
    assert all(line in verdict.policy.faults for line in lines)


def test_the_generation_is_that_of_the_conditions() -> None:
    """So that `kubectl wait` does not take an old answer for a new one."""
    policy = read("a", GOOD, SOME, generation=7)
    status = new_status(
        budget_policy("a", GOOD),
        Verdict(policy, Use.USED, policy.text),
        Place({policy.key: policy.text}),
        NOW,
    )
    assert status is not None
    assert status["observedGeneration"] == 7
    assert {each["observedGeneration"] for each in status["conditions"]} == {7}


def test_written_only_when_it_changes() -> None:
    """A look that finds nothing new writes nothing; a transition has its time, and the rest keeps theirs."""
    policy = read("a", GOOD, SOME)
    verdict, place = Verdict(policy, Use.USED, policy.text), Place({policy.key: policy.text})
    first = new_status(budget_policy("a", GOOD, SOME), verdict, Place(None), NOW)
    second = new_status(budget_policy("a", GOOD, SOME, status=first), verdict, place, LATER)
    assert second is not None
    assert {each["type"]: each["lastTransitionTime"] for each in second["conditions"]} == {
        "Accepted": NOW,
        "Ready": LATER,
    }
    assert new_status(budget_policy("a", GOOD, SOME, status=second), verdict, place, "never") is None


def test_a_message_is_no_transition() -> None:
    """Still not ready, for another reason."""
    policy = read("a", GOOD, SOME)
    verdict = Verdict(policy, Use.USED, policy.text)
    first = new_status(budget_policy("a", GOOD, SOME), verdict, Place(None), NOW)
    second = new_status(
        budget_policy("a", GOOD, SOME, status=first), verdict, Place(None, foreign=True), LATER
    )
    assert second is not None
    assert [each["lastTransitionTime"] for each in second["conditions"]] == [NOW, NOW]


def ready(status: str, reason: str) -> dict[str, Any]:
    """A status with that condition."""
    return {
        "conditions": [
            {"type": "Accepted", "status": "True"},
            {"type": "Ready", "status": status, "reason": reason},
        ]
    }


def test_which_a_pod_can_have() -> None:
    """Those whose text, or last good text, stands in the ConfigMap."""
    there = [
        budget_policy("a", GOOD, SOME, age=3, status=ready("True", "Compiled")),
        budget_policy("b", GOOD, status=ready("False", "LastGood")),
        budget_policy("c", GOOD, status=ready("False", "Pending")),
        budget_policy("d", GOOD, status={}),
        budget_policy("e", GOOD),
    ]
    found = refs(there)
    assert [(ref.name, ref.selector, ref.created) for ref in found] == [
        ("a", SOME, "2030-01-01T00:00:03Z"),
        ("b", None, "2030-01-01T00:00:00Z"),
    ]
    assert [is_usable(item) for item in there] == [True, True, False, False, False]
