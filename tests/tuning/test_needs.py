"""Needs of rungs: what was measured and a margin, in an order that makes a ladder."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from proxy.config import ConfigError, parse
from proxy.config.scalars import SPANS
from proxy.core.policy import Policy
from proxy.core.units import MILLISECOND, SECOND
from proxy.tuning.measured import Measured, RungName
from proxy.tuning.needs import Finding, Need, needs
from proxy.tuning.sketched import Sketched
from tests.tuning.telling import policy

POLICY = policy()


def times(whole: dict[int, int], cut: dict[int, int] | None = None) -> Sketched:
    """So many tries of so many milliseconds, and so many that were cut."""
    found = Sketched()
    for samples, was_cut in ((whole, False), (cut or {}, True)):
        for took, count in samples.items():
            for _ in range(count):
                found.add(took * MILLISECOND, cut=was_cut)
    return found


def found(rungs: dict[RungName, Sketched], policy: Policy = POLICY, least: int = 100) -> dict[str, Need]:
    return {each.rung: each for each in needs(Measured(rungs=rungs), policy, margin=0.1, least=least)}


def of_chat(**rungs: Sketched) -> dict[str, Need]:
    return found({("chat", name): each for name, each in rungs.items()})


def test_what_is_proposed() -> None:
    """The 95th percentile and a tenth; `auto` is left alone, a fixed answer has no need."""
    made = of_chat(full=times({2000: 190, 3000: 10}), fast=times({800: 100}), auto=times({100: 100}))
    assert list(made) == ["full", "fast", "auto"]
    assert (made["full"].proposed or 0) / SECOND == pytest.approx(2.2, rel=0.02)
    assert (made["fast"].proposed or 0) / SECOND == pytest.approx(0.88, rel=0.02)
    assert [each.finding for each in made.values()] == [Finding.MEASURED, Finding.MEASURED, Finding.AUTO]
    assert (made["auto"].proposed, made["auto"].samples) == (None, 100)
    assert all(each.proposed is None or each.proposed % MILLISECOND == 0 for each in made.values())


def test_too_few_samples() -> None:
    """Said, and nothing proposed."""
    made = of_chat(full=times({2000: 99}))
    assert (made["full"].finding, made["full"].proposed, made["full"].p95) == (Finding.TOO_FEW, None, None)
    assert (made["fast"].finding, made["fast"].samples) == (Finding.TOO_FEW, 0)


def test_a_need_that_is_known_at_least_gets_no_smaller() -> None:
    """One try in ten was cut after 3 s: it needs more than that; the policy says 5 s, which may be right."""
    made = of_chat(full=times({2000: 90}, {3000: 10}))
    assert (made["full"].finding, made["full"].proposed) == (Finding.AT_LEAST, 5 * SECOND)


def test_a_rung_that_is_no_quicker_is_no_rung() -> None:
    """It would never be taken where the one above it is."""
    made = of_chat(full=times({1000: 100}), fast=times({1400: 100}))
    assert made["full"].finding is Finding.MEASURED
    assert (made["fast"].finding, made["fast"].proposed) == (Finding.NO_LESS, None)


def test_no_proposal_falls_below_what_a_rung_further_down_keeps() -> None:
    """Of the second, too little is known, so it keeps its 3 s; the first cannot need less."""
    text = "routes: [{name: chat, match: {path: /a}, effect: read, ladder: [{name: a, needs: 5s}, {name: b, needs: 3s, set: {query: {m: b}}}, {name: c, set: {query: {m: c}}}]}]"
    made = found({("chat", "a"): times({1000: 100})}, policy(text))
    assert made["a"].proposed == 3 * SECOND
    assert (made["b"].proposed, made["c"].finding) == (None, Finding.LAST)


def test_more_than_steps_ever_have_is_not_proposed() -> None:
    """The cap of the route, or the share of its stage in the longest budget."""
    capped = replace(POLICY, routes=tuple(replace(route, cap=2 * SECOND) for route in POLICY.routes))
    made = found({("chat", "full"): times({1900: 100})}, capped)
    assert (made["full"].finding, made["full"].proposed) == (Finding.NEVER, None)
    hour = replace(POLICY, budget=replace(POLICY.budget, max=10 * SECOND))
    made = found({("chat", "full"): times({5400: 100})}, hour)
    assert (made["full"].finding, made["full"].proposed) == (Finding.NEVER, None)


RUNGS = st.lists(
    st.tuples(
        st.sampled_from(["0s", "auto", "50ms", "400ms", "3s", "20s"]),
        st.sampled_from(["ask", "ask", "ask", "answer", "cache"]),
        st.dictionaries(st.integers(0, 30_000), st.integers(0, 80), max_size=3),
        st.dictionaries(st.integers(0, 30_000), st.integers(0, 20), max_size=2),
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip
LOCAL = {"answer": "answer: {text: sorry}", "cache": "cache: {exact: true}", "ask": "set: {query: {m: m%d}}"}


@given(RUNGS, st.sampled_from(["", "cap: 10s, ", "stage: llm, "]), st.booleans())
def test_what_is_proposed_makes_a_policy(
    rungs: list[tuple[str, str, dict[int, int], dict[int, int]]], terms: str, carry: bool
) -> None:
    """Whatever was measured of a ladder that the policy may have: with the proposed needs it may have it too."""
    listed = ", ".join(
        f"{{name: r{level}, needs: {need}, {LOCAL[kind].replace('%d', str(level))}}}"
        for level, (need, kind, _, _) in enumerate(rungs)
    )
    budget = f"budget: {{default: 10s, max: 20s, carry: {str(carry).lower()}, stages: {{llm: 8s}}}}\n"
    text = f"{budget}routes: [{{name: chat, match: {{path: /a}}, effect: read, {terms}ladder: [{listed}]}}]"
    try:
        before = parse(text)
    except ConfigError:
        reject()
    measured = {("chat", f"r{level}"): times(whole, cut) for level, (_, _, whole, cut) in enumerate(rungs)}
    for name, need in found(measured, before, least=1).items():
        if need.proposed is not None:
            old = f"name: {name}, needs: {rungs[int(name[1:])][0]},"
            assert old in text
            text = text.replace(old, f"name: {name}, needs: {SPANS.show(need.proposed)},")
    parse(text)
