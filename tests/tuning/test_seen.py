"""Records that anybody may have written: read, or refused, and nothing in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MILLISECOND
from proxy.tuning.seen import Seen, Unreadable, seen
from tests.tuning.telling import record, step


def test_a_step() -> None:
    """What tuning needs of it, in nanoseconds."""
    degraded = {"level": 1, "rung": "fast", "reason": "time", "stage": "llm"}
    found = step(record="4d3c-8d-1a", started_ms=1.5, rung="fast", degraded=degraded)
    assert (found.process, found.budget_id, found.number) == ("4d3c-8d", "run-1", 1)
    assert (found.started, found.elapsed) == (1_500_000, 400 * MILLISECOND)
    assert (found.rung, found.level, found.why) == ("fast", 1, "time")


@pytest.mark.parametrize("name", ["budget_id", "remaining_ms"])
def test_a_step_that_no_budget_held(name: str) -> None:
    """It is none of a job's, and none of a fault."""
    assert seen(record(**{name: None})) is None


def test_a_record_of_an_older_version() -> None:
    """What it did not have yet counts as null."""
    old = {
        key: value for key, value in record().items() if key not in ("rung", "tries", "queued_ms", "would")
    }
    assert seen(old) == step(tries=0)


WRONG: list[Any] = [
    None,
    True,
    -1,
    1e300,
    float("nan"),
    float("inf"),
    10**30,
    "x" * 5000,
    "1",
    [],
    {},
    [["x"]],
]


@pytest.mark.parametrize("name", sorted(record()))
@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:12])
def test_wrong_values(name: str, value: Any) -> None:
    """Each member, with what it cannot be: refused, or not looked at."""
    try:
        found = seen(record() | {name: value})
    except Unreadable:
        return
    assert found is None or isinstance(found, Seen)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(record())), ANYTHING))
def test_any_values(changes: dict[str, Any]) -> None:
    """Nothing else than a step, nothing, or a refusal."""
    try:
        found = seen(record() | changes)
    except Unreadable:
        return
    if found is not None:
        assert all(isinstance(part, (int, str, type(None))) for part in found)
        assert min(found.started, found.elapsed, found.queued, found.level, found.tries) >= 0
