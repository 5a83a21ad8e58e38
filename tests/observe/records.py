"""Step records for the tests: a plain one to vary, and arbitrary ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from proxy.core.budget import Limit
from proxy.core.calls import Effect, Kind, Outcome, Phase, Retry, Would
from proxy.core.degrading import Degraded, Why
from proxy.core.reasons import Reason
from proxy.core.step import StepRecord

PLAIN = StepRecord(
    record="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    budget_id="run-42",
    step=3,
    stage=None,
    route="orders",
    method="GET",
    target="http://orders.internal/v1/orders/7?expand=…",
    kind=Kind.READ,
    unit=None,
    attempt=1,
    depth=0,
    started_ms=1234.567,
    remaining_ms=8765.433,
    allowed_ms=4000.0,
    waited_ms=0.123,
    elapsed_ms=12.345,
    late_ms=None,
    outcome=Outcome.COMPLETED,
    effect=Effect.NONE,
    phase=Phase.COMPLETE,
    reason=None,
    retry=None,
    would=None,
    status=200,
    bytes=512,
)


LESS = Degraded(2, "minimal", Why.TIME, "llm")


def plain(**changes: Any) -> StepRecord:
    return PLAIN._replace(**changes)


def less(**changes: Any) -> StepRecord:
    """A step that was answered by a lower rung."""
    return plain(**({"route": "chat", "stage": "llm", "rung": "minimal", "degraded": LESS} | changes))


_text = st.text(
    st.characters(codec=None), max_size=30
)  # lone surrogates too: nothing keeps them out of a header
_spans = st.integers(min_value=0, max_value=10**10).map(lambda us: us / 1000)
_counts = st.integers(min_value=0, max_value=10**12)
_routes = st.sampled_from(["orders", "search", "fallback"])
_reasons = st.sampled_from([*Reason, *Limit])
_STAGES = ["retrieval", "llm", "formatting"]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def degrees() -> st.SearchStrategy[Degraded]:
    """By how much an answer is less, whoever has named rung and stage."""
    return st.builds(
        Degraded, st.integers(1, 20), _text, st.sampled_from(Why), optional(st.sampled_from(_STAGES))
    )


def records(routes: st.SearchStrategy[str] = _routes) -> st.SearchStrategy[StepRecord]:
    return st.builds(
        StepRecord,
        record=_text,
        budget_id=optional(_text),
        step=_counts,
        stage=optional(_text | st.sampled_from(_STAGES)),
        route=routes,
        method=_text,
        target=_text,
        kind=st.sampled_from(Kind),
        unit=optional(_text),
        attempt=st.integers(0, 5),
        depth=st.integers(0, 5),
        started_ms=_spans,
        remaining_ms=optional(_spans | _spans.map(lambda span: -span)),
        allowed_ms=optional(_spans | _spans.map(lambda span: -span)),
        waited_ms=_spans,
        elapsed_ms=_spans,
        late_ms=optional(_spans),
        outcome=st.sampled_from(Outcome),
        effect=st.sampled_from(Effect),
        phase=st.sampled_from(Phase),
        reason=optional(_reasons),
        retry=optional(st.sampled_from(Retry)),
        would=optional(st.sampled_from(Would)),
        status=optional(st.integers(100, 599)),
        bytes=_counts,
        degraded=optional(degrees()),
        queued_ms=_spans,
        overhead_ms=optional(_spans),
        tries=st.integers(0, 5),
        fresh=st.integers(0, 1),
        partial=st.booleans(),
        rung=optional(_text),
        cache=optional(st.sampled_from(["hit", "stale", "semantic", "miss"])),
        carried_ms=optional(_spans),
    )
