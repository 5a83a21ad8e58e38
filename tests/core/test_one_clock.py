"""Promise 5: one clock is read, and only by its differences. Nothing in the core knows what time it is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proxy.core
from proxy.core.budget import CallPhase
from proxy.core.decision import Decision, decide
from proxy.core.ledger import Ledger
from proxy.core.limits import Limits
from proxy.core.opaque import Bursts
from proxy.core.policy import BudgetDefaults, LedgerBounds, Policy, Route, Share
from proxy.core.units import MINUTE, SECOND
from proxy.core.verdict import Verdict, verdict_of
from tests.observe.records import plain

FILES = sorted(Path(proxy.core.__path__[0]).glob("*.py"))
TREES = {file.stem: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}
SHIFT = st.integers(-(2**63), 2**63)


@pytest.mark.parametrize("name", TREES)
def test_no_clock_is_within_reach(name: str) -> None:
    """No module of the core imports a clock, a source of chance, or a way to the outside."""
    imported = {
        imports.partition(".")[0]
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imports in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    forbidden = {
        "asyncio",
        "datetime",
        "logging",
        "os",
        "random",
        "secrets",
        "socket",
        "threading",
        "time",
        "uuid",
    }
    assert imported & forbidden == set()


def test_the_wall_clock_is_only_written_down() -> None:
    """Unix time comes in at one place, the record of a write, which has to outlive the process and its clock."""
    named = {
        (name, arg.arg if isinstance(arg, ast.arg) else ast.unparse(arg.target).removeprefix("self."))
        for name, tree in TREES.items()
        for arg in ast.walk(tree)
        if isinstance(arg, ast.arg | ast.AnnAssign)
    }
    words = {"wall", "unix", "epoch", "date", "utc", "since", "at", "when", "today"}
    own_clock = {("budget", "closed_at"), ("history", "at"), ("ledger", "at")}
    assert {(name, word) for name, word in named if words & set(word.split("_"))} - own_clock == {
        ("writes", "opened_at"),
        ("writes", "settled_at"),
        ("writes", "at"),
        ("writes", "since"),
    }


class Heard(NamedTuple):
    """A call that arrives some time after the one before, with what it says of itself."""

    passed: int
    id: str | None
    remaining: int | None
    timer: int | None
    entry: bool


CALLS = st.lists(
    st.builds(
        Heard,
        st.integers(0, 5 * MINUTE),
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(0, 2 * MINUTE)),
        st.one_of(st.none(), st.integers(0, MINUTE)),
        st.booleans(),
    ),
    max_size=30,
)
STAGED = BudgetDefaults(default=MINUTE, reserve=SECOND, stages=(Share("llm", 20 * SECOND),))


def decisions(calls: list[Heard], start: int) -> list[tuple[Decision, list[Verdict], int]]:
    """What is decided on these calls, and said of budgets, by a process whose clock says `start` at first."""
    ledger, policy = Ledger(LedgerBounds(retention=3 * MINUTE, budgets=1)), Policy(budget=STAGED)
    decided, now = [], start
    for call in calls:
        now += call.passed
        limits = Limits(budget_id=call.id, remaining=call.remaining, client_timer=call.timer, stage="llm")
        budget = ledger.find(limits, policy.budget, now, "fresh", entry=call.entry).budget
        decision = decide(policy, Route("tool", cap=10 * SECOND, min_start=SECOND), limits, budget, now)
        if budget is not None:
            ledger.begin(budget, "llm", CallPhase.WORK, now)
            now += SECOND
            ledger.finish(budget, "llm", CallPhase.WORK, plain(), now)
            if call.entry:
                ledger.enter(budget, limits)
                ledger.leave(budget, now)
        verdicts = [verdict_of(budget, now) for budget in ledger.run_out()]
        decided.append((decision, verdicts, ledger.open))
    return decided


@given(CALLS, SHIFT)
def test_another_clock_changes_no_decision(calls: list[Heard], shift: int) -> None:
    """Two machines whose clocks are years apart decide alike: budgets, retention, allowances, stages and verdicts."""
    assert decisions(calls, 0) == decisions(calls, shift)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=40), SHIFT)
def test_another_clock_changes_no_burst(words: list[tuple[int, bool]], shift: int) -> None:
    """Nor does it change when an opaque connection is in use."""

    def heard(start: int) -> list[tuple[bool, int]]:
        bursts, now, states = Bursts(quiet=10), start, []
        for passed, client in words:
            now += passed
            if client:
                bursts.client_spoke(now)
            else:
                bursts.server_spoke(now, 1)
            states.append((bursts.active(now), bursts.count))
        return states

    assert heard(0) == heard(shift)
