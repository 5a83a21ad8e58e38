"""Which policy a namespace has, and what becomes of each BudgetPolicy: the rules, and what holds whatever comes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import parse
from proxy.kube.names import POLICY_FILE, policy_key
from proxy.kube.policies.budget_policy import BudgetPolicy
from proxy.kube.policies.compiled import LARGEST, Compiled, Use, compile_policies
from tests.kube.policies.objects import read

CHART = "mode: observe\n"
GOOD = {"budget": {"default": "3s"}}
BETTER = {"budget": {"default": "4s"}}
WRONG = {"budget": {"default": "soon"}}
SOME = {"matchLabels": {"app": "a"}}


def uses(compiled: Compiled) -> dict[str, Use]:
    """What becomes of each, by name."""
    return {verdict.policy.name: verdict.use for verdict in compiled.verdicts}


def test_the_charts_alone() -> None:
    """Byte for byte as it is written, so that its digest is that of the file."""
    assert compile_policies(CHART, [], {}) == Compiled({POLICY_FILE: CHART}, [])


def test_one_with_a_selector_has_a_key_of_its_own() -> None:
    """Beside the chart's."""
    policy = read("a", GOOD, SOME)
    compiled = compile_policies(CHART, [policy], {})
    assert compiled.data == {POLICY_FILE: CHART, "a.budgetpolicy.yaml": policy.text}
    assert uses(compiled) == {"a": Use.USED}


def test_one_without_a_selector_takes_the_charts_place() -> None:
    """It is for all that have no other."""
    policy = read("a", GOOD)
    assert compile_policies(CHART, [policy], {}).data == {POLICY_FILE: policy.text}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_oldest_without_a_selector_wins(order: tuple[int, ...]) -> None:
    """In whatever order they are listed; the others wait for it."""
    three = [read("c", GOOD, age=1), read("b", BETTER, age=2), read("a", GOOD, age=3)]
    compiled = compile_policies(CHART, [three[index] for index in order], {})
    assert uses(compiled) == {"c": Use.USED, "b": Use.CONFLICT, "a": Use.CONFLICT}
    assert compiled.data == {POLICY_FILE: three[0].text}
    assert {verdict.rival for verdict in compiled.verdicts} == {"", "c"}


def test_of_the_same_age_the_first_by_name() -> None:
    """Somebody has to win."""
    assert uses(compile_policies(CHART, [read("b", GOOD), read("a", GOOD)], {})) == {
        "a": Use.USED,
        "b": Use.CONFLICT,
    }


def test_an_invalid_one_gives_way_to_the_next() -> None:
    """It has nothing to give, and was never in force."""
    policies = [read("a", WRONG, age=1), read("b", GOOD, age=2)]
    compiled = compile_policies(CHART, policies, {})
    assert uses(compiled) == {"a": Use.INVALID, "b": Use.USED}
    assert compiled.data == {POLICY_FILE: policies[1].text}


@pytest.mark.parametrize("selector", [None, SOME])
def test_a_slip_of_the_pen(selector: Any) -> None:
    """One that was good and is invalid leaves its last good text, until it is good again."""
    before = compile_policies(CHART, [read("a", GOOD, selector)], {})
    slipped = compile_policies(CHART, [read("a", WRONG, selector, generation=2)], before.data)
    assert slipped.data == before.data
    [verdict] = slipped.verdicts
    assert (verdict.use, verdict.text) == (Use.INVALID, read("a", GOOD, selector).text)
    mended = read("a", BETTER, selector, generation=3)
    assert compile_policies(CHART, [mended], slipped.data).data[mended.key] == mended.text


def test_the_last_good_default_holds_its_place() -> None:
    """A newer one does not take it."""
    before = compile_policies(CHART, [read("a", GOOD, age=1)], {})
    compiled = compile_policies(CHART, [read("a", WRONG, age=1), read("b", GOOD, age=2)], before.data)
    assert compiled.data == before.data
    assert uses(compiled) == {"a": Use.INVALID, "b": Use.CONFLICT}


def test_what_was_edited_by_hand_is_not_the_last_good_one() -> None:
    """What nobody has accepted is not kept."""
    text = read("a", GOOD, SOME).text
    for edited in (
        text.replace("3s", "9s"),
        "mode: enforce\n",
        text.replace("BudgetPolicy a", "BudgetPolicy b"),
    ):
        compiled = compile_policies(CHART, [read("a", WRONG, SOME)], {policy_key("a"): edited})
        assert compiled.data == {POLICY_FILE: CHART}


def test_what_is_gone_is_gone() -> None:
    """A BudgetPolicy that was deleted leaves nothing, and neither does a stranger's key."""
    before = {policy_key("gone"): read("gone", GOOD, SOME).text, "notes.txt": "x"}
    assert compile_policies(CHART, [], before).data == {POLICY_FILE: CHART}


def large(size: int) -> dict[str, Any]:
    """A policy of about that size."""
    return {"tunnel": {"deny": [f"{number}.{'x' * 60}.{'y' * 60}" for number in range(size // 128)]}}


def test_what_does_not_fit() -> None:
    """The oldest have their place; what does not fit is left out, and what fits beside it is not."""
    names = "abcdefghijkl"
    policies = [read(name, large(120_000), SOME, age=age) for age, name in enumerate(names)]
    policies.append(read("small", GOOD, SOME, age=50))
    compiled = compile_policies(CHART, policies, {})
    left_out = {name for name, use in uses(compiled).items() if use is Use.TOO_LARGE}
    assert left_out == set("ijkl")
    assert uses(compiled)["small"] is Use.USED
    assert sum(len(text.encode()) for text in compiled.data.values()) <= LARGEST


def test_the_default_goes_first() -> None:
    """Though it is younger than what fills the rest."""
    policies = [read(name, large(120_000), SOME, age=age) for age, name in enumerate("abcdefghi")]
    compiled = compile_policies(CHART, [*policies, read("default", large(120_000), age=59)], {})
    assert uses(compiled)["default"] is Use.USED
    assert Use.TOO_LARGE in uses(compiled).values()


def test_a_default_that_does_not_fit_leaves_the_charts() -> None:
    """A namespace is never without a policy."""
    chart = "# " + "x" * (LARGEST - 3) + "\n"
    assert compile_policies(chart, [read("a", GOOD, SOME)], {}).data == {POLICY_FILE: chart}
    small = read("b", GOOD)
    assert compile_policies(chart, [small], {}).data == {POLICY_FILE: small.text}


POLICIES = st.lists(
    st.builds(
        read,
        st.sampled_from("abcdef"),
        st.sampled_from([GOOD, BETTER, WRONG, {}]),
        st.sampled_from([None, SOME, {}, {"matchLabels": []}]),
        age=st.integers(0, 5),
        generation=st.integers(1, 5),
    ),
    unique_by=lambda policy: policy.name,
)


@given(first=POLICIES, second=POLICIES, order=st.randoms())
def test_whatever_comes(first: list[BudgetPolicy], second: list[BudgetPolicy], order: Any) -> None:
    """Every text can be used, everybody is told, and a second look changes nothing."""
    before = compile_policies(CHART, first, {}).data
    compiled = compile_policies(CHART, second, before)
    assert [verdict.policy for verdict in compiled.verdicts] == sorted(second, key=lambda policy: policy.age)
    assert all(parse(text) for text in compiled.data.values())
    assert POLICY_FILE in compiled.data
    stands = {verdict.policy.key: verdict.text for verdict in compiled.verdicts if verdict.text is not None}
    assert compiled.data == {POLICY_FILE: CHART} | stands
    for verdict in compiled.verdicts:
        assert (verdict.use is Use.INVALID) == bool(verdict.policy.faults)
        if verdict.use is Use.USED:
            assert verdict.text == verdict.policy.text
        else:
            assert verdict.text in (None, before.get(verdict.policy.key))
    again = list(second)
    order.shuffle(again)
    assert compile_policies(CHART, again, compiled.data) == compiled
