"""The counters equal the records, and their number is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.budget import Limit
from proxy.core.calls import Outcome
from proxy.core.history import Counts
from proxy.core.step import StepRecord
from proxy.core.verdict import Verdict, of_one_call
from proxy.core.verification import Found
from proxy.observe import families, ladders, metrics
from proxy.observe.families import Family, Type
from proxy.observe.metrics import Metrics
from proxy.observe.sampled import Labels
from proxy.observe.tally import OTHER, Histogram
from tests.observe.records import LESS, less, plain, records


def values(counted: Metrics, family: Family) -> dict[Labels, Any]:
    (found,) = [sampled for sampled in counted.collect() if sampled.family == family]
    return dict(found.values)


def numbers(counted: Metrics, family: Family) -> Mapping[Labels, float]:
    return values(counted, family)


def counted(taken: list[StepRecord]) -> Metrics:
    made = Metrics()
    for record in taken:
        made.step(record)
    return made


@given(taken=st.lists(records(), max_size=30))
def test_counters_equal_the_records(taken: list[StepRecord]) -> None:
    """What is counted is what a reader of the log would count."""
    made = counted(taken)
    by_reason = {
        families.REFUSALS: {Outcome.REFUSED},
        families.SHEDS: {Outcome.SHED},
        families.CUTS: {Outcome.DEADLINE_EXCEEDED},
        families.FAILURES: {Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED},
    }
    assert numbers(made, families.STEPS) == Counter((r.route, r.kind, r.outcome, r.effect) for r in taken)
    for family, outcomes in by_reason.items():
        expected = Counter((r.route, r.reason or "unknown") for r in taken if r.outcome in outcomes)
        assert numbers(made, family) == expected
    assert numbers(made, families.WOULD) == Counter((r.route, r.would) for r in taken if r.would is not None)
    routes = {record.route for record in taken}
    sums = {families.RESPONSE_BYTES: "bytes", families.ATTEMPTS: "tries", families.UNITS: "fresh"}
    for family, field in sums.items():
        assert numbers(made, family) == {
            (route,): sum(getattr(r, field) for r in taken if r.route == route) for route in routes
        }
    attempts, units = numbers(made, families.ATTEMPTS), numbers(made, families.UNITS)
    assert numbers(made, families.AMPLIFICATION) == {
        route: attempts[route] / count for route, count in units.items() if count
    }


@given(taken=st.lists(records(), max_size=30))
def test_what_is_less_is_counted_as_the_records_say(taken: list[StepRecord]) -> None:
    """Rungs, degraded steps, what the cache had, and cuts by a stage's share: each from a field of its own."""
    made = counted(taken)
    rungs = Counter((r.route, r.rung) for r in taken if r.rung is not None)
    assert numbers(made, families.RUNGS) == rungs
    degraded = Counter((r.route, r.degraded.rung, r.degraded.why) for r in taken if r.degraded is not None)
    assert numbers(made, families.DEGRADED) == degraded
    lookups = Counter((r.route, r.cache) for r in taken if r.cache is not None)
    assert numbers(made, families.CACHE_LOOKUPS) == lookups
    cut = [r for r in taken if r.outcome == Outcome.DEADLINE_EXCEEDED and r.reason == Limit.STAGE]
    assert numbers(made, families.STAGE_CUTS) == Counter((r.stage or "unknown",) for r in cut)


@given(taken=st.lists(records(), max_size=30))
def test_histograms_equal_the_records(taken: list[StepRecord]) -> None:
    """A value is counted under the first bound that it does not exceed, as `le` says."""
    made = counted(taken)
    spans: dict[Family, Callable[[StepRecord], float | None]] = {
        families.DURATION: lambda r: r.elapsed_ms,
        families.WAIT: lambda r: r.waited_ms,
        families.QUEUE_WAIT: lambda r: r.queued_ms if r.tries else None,
        families.RUN: lambda r: r.elapsed_ms - r.queued_ms if r.tries else None,
        families.ALLOWANCE: lambda r: r.allowed_ms,
        families.LATENESS: lambda r: r.late_ms,
        families.OVERHEAD: lambda r: r.overhead_ms,
    }
    routes = {record.route for record in taken}
    for family, span in spans.items():
        found = values(made, family)
        assert found.keys() == ({(route,) for route in routes} if family.labels else {()})
        for labels, histogram in found.items():
            own = [value for r in taken if labels in ((), (r.route,)) and (value := span(r)) is not None]
            bounds = family.bounds
            below = [sum(value <= bound for value in own) for bound in bounds]
            assert [sum(histogram.counts[: n + 1]) for n in range(len(bounds))] == below
            assert sum(histogram.counts) == len(own)
            assert histogram.sum == pytest.approx(sum(max(0, value) for value in own))


def test_amplification_is_attempts_for_each_unit() -> None:
    """It counts what the sidecar and the callers repeat, and says nothing before there is a unit."""
    made = Metrics()
    made.step(plain(outcome=Outcome.SHED, tries=0, fresh=0))
    assert numbers(made, families.AMPLIFICATION) == {}
    made.step(plain(tries=3, fresh=1))
    made.step(plain(tries=1, fresh=0))
    assert numbers(made, families.AMPLIFICATION) == {("orders",): 4.0}


def test_time_in_the_queue_is_apart_from_the_run() -> None:
    """Who never got a slot has not run; who got one at once waited for nothing."""
    made = Metrics()
    made.step(plain(elapsed_ms=3.0))
    made.step(plain(elapsed_ms=70.0, queued_ms=60.0))
    made.step(plain(elapsed_ms=40.0, queued_ms=40.0, outcome=Outcome.SHED, tries=0, fresh=0))

    def sums(family: Family) -> tuple[int, float]:
        histogram: Histogram = values(made, family)["orders",]
        return sum(histogram.counts), histogram.sum

    assert sums(families.DURATION) == (3, 113.0)
    assert sums(families.QUEUE_WAIT) == (2, 60.0)
    assert sums(families.RUN) == (2, 13.0)


@given(st.data())
def test_sums_never_shrink(data: st.DataObject) -> None:
    """An overdrawn allowance is a value below the first bound, and takes nothing from the sum: rates stay right."""
    histogram = Histogram((1, 2))
    before = 0.0
    for value in data.draw(st.lists(st.floats(-1e6, 1e6))):
        histogram.add(value)
        assert histogram.sum >= before
        before = histogram.sum


def test_series_are_bounded_by_the_policy() -> None:
    """5,000 hosts, paths, ids and stages: as many series as for one of each."""
    one, many = Metrics(), Metrics()
    one.step(plain())
    for number in range(5000):
        many.step(
            plain(
                record=f"r{number}",
                budget_id=f"b{number}",
                unit=f"u{number}",
                stage=f"s{number}",
                target=f"http://h{number}.example/p{number}",
                method=f"M{number}",
            )
        )
    shapes = [[(s.family.name, s.values.keys()) for s in made.collect()] for made in (one, many)]
    assert shapes[0] == shapes[1]
    assert numbers(many, families.STEPS) == {("orders", "read", "completed", "none"): 5000}


def test_routes_beyond_the_cap_are_other() -> None:
    """Reload after reload with new names of routes: the first ones stay, the rest are counted together."""
    made = Metrics()
    for number in range(5000):
        made.retry_withheld(f"route-{number}", "no_time")
        made.step(plain(route=f"route-{number}", outcome=Outcome.REFUSED, reason="budget_exhausted", bytes=1))
        made.step(plain(route="route-0", bytes=1))
    made.watch("waterclock_queue_depth", lambda: {f"route-{number}": 1 for number in range(5000)})
    queue_depth = families.WATCHED["waterclock_queue_depth"]
    for family in (
        families.REFUSALS,
        families.RESPONSE_BYTES,
        families.DURATION,
        families.WITHHELD,
        families.AMPLIFICATION,
        queue_depth,
    ):
        found = values(made, family)
        assert len(found) == metrics.MOST_ROUTES + 1
    assert numbers(made, families.REFUSALS)[OTHER, "budget_exhausted"] == 5000 - metrics.MOST_ROUTES
    assert numbers(made, families.RESPONSE_BYTES)[OTHER,] == 5000 - metrics.MOST_ROUTES
    assert numbers(made, families.RESPONSE_BYTES)["route-0",] == 5001
    assert numbers(made, families.WITHHELD)[OTHER, "no_time"] == 5000 - metrics.MOST_ROUTES
    assert numbers(made, queue_depth)[OTHER,] == 5000 - metrics.MOST_ROUTES


def test_reasons_beyond_the_cap_are_other() -> None:
    """Reasons are a vocabulary of ours; were one ever made from what a peer sent, the series stay bounded."""
    made = Metrics()
    for number in range(1000):
        made.step(plain(outcome=Outcome.UPSTREAM_FAILED, reason=f"invented {number}"))
        made.malformed(f"invented {number}")
        made.opaque(f"invented {number}")
        made.retry_withheld("orders", f"invented {number}")
        made.verified("orders", f"invented {number}")
    for family in (
        families.FAILURES,
        families.MALFORMED,
        families.OPAQUE,
        families.WITHHELD,
        families.VERIFICATIONS,
    ):
        found = numbers(made, family)
        assert len(found) == 65
        assert sum(found.values()) == 1000


def test_what_no_step_stands_for() -> None:
    """Malformed bytes, opaque connections and ignored extensions are counted where they happen."""
    made = Metrics()
    made.malformed("bad_framing")
    made.opaque("connect")
    made.opaque("connect")
    made.opaque("redirect")
    made.extension_ignored()
    assert numbers(made, families.MALFORMED) == {("bad_framing",): 1}
    assert numbers(made, families.OPAQUE) == {("connect",): 2, ("redirect",): 1}
    assert numbers(made, families.EXTENSIONS) == {(): 1}


def test_what_becomes_of_attempts() -> None:
    """Retries, joined calls and questions are counted by route, with why and with what was found."""
    made = Metrics()
    made.retried("orders")
    made.retried("orders")
    made.retry_withheld("orders", "no_time")
    made.retry_withheld("search", "no_time")
    made.joined("orders")
    made.verified("orders", Found.ABSENT)
    assert numbers(made, families.RETRIES) == {("orders",): 2}
    assert numbers(made, families.WITHHELD) == {("orders", "no_time"): 1, ("search", "no_time"): 1}
    assert numbers(made, families.JOINED) == {("orders",): 1}
    assert numbers(made, families.VERIFICATIONS) == {("orders", "absent"): 1}


def test_tries_of_rungs_and_what_is_shared_of_the_cache() -> None:
    """A try is no step: of one step there can be several, and some end without an answer."""
    made = Metrics()
    made.rung_tried("chat", "full", 1_500_000_000)
    made.rung_tried("chat", "full", 2_000_000)
    made.rung_tried("chat", "fast", 1)
    for part in ("store", "store", "service"):
        made.cache_failed(part)
    found = values(made, families.RUNG_DURATION)
    assert {labels: (sum(each.counts), each.sum) for labels, each in found.items()} == {
        ("chat", "full"): (2, 1502.0),
        ("chat", "fast"): (1, 0.000001),
    }
    assert numbers(made, families.CACHE_FAILURES) == {("store",): 2, ("service",): 1}


def test_what_a_stage_has_used_is_counted_beside_its_share() -> None:
    """More than its share where earlier stages had left something; a stage that was given nothing has no ratio."""
    made = Metrics()
    made.stage_used("llm", 2_000_000_000, 1_000_000_000)
    made.stage_used("llm", 1_000_000_000, 1_200_000_000)
    made.stage_used("slim", 0, 5_000_000)

    def sums(family: Family) -> dict[Labels, Any]:
        found = values(made, family).items()
        return {labels: (sum(each.counts), pytest.approx(each.sum)) for labels, each in found}

    assert sums(families.STAGE_USED) == {("llm",): (2, 2200.0), ("slim",): (1, 5.0)}
    assert sums(families.STAGE_RATIO) == {("llm",): (2, 1.7)}
    ratios: Histogram = values(made, families.STAGE_RATIO)["llm",]
    assert ratios.counts[families.STAGE_RATIO.bounds.index(0.5)] == 1
    assert ratios.counts[families.STAGE_RATIO.bounds.index(1.25)] == 1


def test_rungs_and_stages_beyond_the_cap_are_other() -> None:
    """Reload after reload with new ladders and new stages: what is kept of them is bounded, and nothing is lost."""
    made = Metrics()
    names = [f"n{number}" for number in range(1000)]
    for name in names:
        made.step(less(rung=name, degraded=LESS._replace(rung=name)))
        made.step(plain(outcome=Outcome.DEADLINE_EXCEEDED, reason=Limit.STAGE, stage=name))
        made.rung_tried("chat", name, 1)
        made.stage_used(name, 2, 1)
        made.cache_failed(name)
    rest = 1000 - ladders.MOST_NAMES
    assert numbers(made, families.RUNGS)["chat", OTHER] == rest
    assert numbers(made, families.DEGRADED)["chat", OTHER, "time"] == rest
    assert numbers(made, families.STAGE_CUTS)[OTHER,] == rest
    for family in (families.RUNGS, families.DEGRADED, families.STAGE_CUTS):
        assert len(numbers(made, family)) == ladders.MOST_NAMES + 1
        assert sum(numbers(made, family).values()) == 1000
    for family in (families.RUNG_DURATION, families.STAGE_USED, families.STAGE_RATIO):
        found = values(made, family)
        assert len(found) == ladders.MOST_NAMES + 1
        assert sum(sum(each.counts) for each in found.values()) == 1000
    assert len(numbers(made, families.CACHE_FAILURES)) == 65


def test_budgets_are_counted_by_both_verdicts() -> None:
    """A job that ran out of time with one of two steps done is incomplete, and nobody can say whether it was on time."""
    made = Metrics()
    for _ in range(5):
        made.budget_opened()
    made.budget_closed(Verdict(complete=True, on_time=True), Counts(total=2, completed=2))
    made.budget_closed(Verdict(complete=True, on_time=False), Counts(total=1, completed=1))
    made.budget_closed(Verdict(complete=False, on_time=None), Counts(total=2, completed=1, refused=1))
    made.budget_closed(Verdict(complete=True, on_time=True), Counts())
    assert numbers(made, families.BUDGETS_OPENED) == {(): 5}
    assert numbers(made, families.BUDGETS_DEGRADED) == {}
    assert numbers(made, families.BUDGETS_CLOSED) == {
        ("true", "true"): 2,
        ("true", "false"): 1,
        ("false", "unknown"): 1,
    }
    completion: Histogram = values(made, families.COMPLETION)[()]
    assert sum(completion.counts) == 3
    assert completion.sum == 2.5
    assert completion.counts[families.COMPLETION.bounds.index(0.5)] == 1
    assert completion.counts[families.COMPLETION.bounds.index(1)] == 2


@given(
    st.lists(
        st.tuples(st.sampled_from([True, False]), st.sampled_from([True, False, None]), st.integers(0, 3))
    )
)
def test_a_budget_with_less_counts_as_one_of_its_verdicts(
    closed: list[tuple[bool, bool | None, int]],
) -> None:
    """Those of whole answers are the difference, by the same labels: however many of its steps had less."""
    made, said = Metrics(), {True: "true", False: "false", None: "unknown"}
    for complete, on_time, degraded in closed:
        counts = Counts(total=4, completed=4, degraded=degraded)
        made.budget_closed(Verdict(complete, on_time, degraded), counts)
    assert numbers(made, families.BUDGETS_CLOSED) == Counter((said[c], said[t]) for c, t, _ in closed)
    assert numbers(made, families.BUDGETS_DEGRADED) == Counter(
        (said[c], said[t]) for c, t, degraded in closed if degraded
    )


@given(st.lists(records(), max_size=20), st.sampled_from([True, False]))
def test_budgets_of_one_call_are_counted_like_all_others(taken: list[StepRecord], on_time: bool) -> None:
    """The short way that nearly all of them take counts the same as the long one; none with less goes that way."""
    short, long = Metrics(), Metrics()
    for record in taken:
        verdict, counts = of_one_call(record, on_time=on_time)
        assert verdict.degraded == counts.degraded == (record.degraded is not None)
        short.budget_closed(verdict, counts)
        long.budget_closed(Verdict(*verdict), Counts(*counts))
    for family in (families.BUDGETS_CLOSED, families.BUDGETS_DEGRADED):
        assert numbers(short, family) == numbers(long, family)
    assert sum(numbers(short, families.BUDGETS_CLOSED).values()) == len(taken)


def test_sources_are_read_at_each_scrape() -> None:
    """A gauge shows the moment of the scrape, with or without labels."""
    made = Metrics()
    open_budgets = 3
    connections = {"idle": 1, "busy": 2}
    made.watch("waterclock_budgets_open", lambda: open_budgets)
    made.watch("waterclock_upstream_connections", lambda: connections)
    made.inform("waterclock_policy_info", lambda: {"digest": "abc", "mode": "observe"})
    assert numbers(made, families.WATCHED["waterclock_budgets_open"]) == {(): 3}
    assert numbers(made, families.WATCHED["waterclock_upstream_connections"]) == {("idle",): 1, ("busy",): 2}
    (info,) = [s for s in made.collect() if s.family.type is Type.INFO]
    assert (info.labels, info.values) == (("digest", "mode"), {("abc", "observe"): 1})
    open_budgets = 4
    assert numbers(made, families.WATCHED["waterclock_budgets_open"]) == {(): 4}


def test_failing_source_hides_no_other() -> None:
    """One source at fault costs its own family, and is counted."""
    made = Metrics()

    def fail() -> int:
        raise RuntimeError("not now")

    made.watch("waterclock_budgets_open", fail)
    made.watch("waterclock_steps_in_flight", lambda: 7)
    names = {sampled.family.name for sampled in made.collect()}
    assert "waterclock_budgets_open" not in names
    assert numbers(made, families.WATCHED["waterclock_steps_in_flight"]) == {(): 7}
    assert numbers(made, families.SOURCE_FAILURES) == {(): 3}  # this is the third scrape


def test_only_known_families_can_be_watched() -> None:
    """A family that is not in the table has no words, so it cannot be shown."""
    with pytest.raises(KeyError):
        Metrics().watch("waterclock_invented", lambda: 1)
    with pytest.raises(ValueError, match="waterclock_budgets_open is a gauge"):
        Metrics().inform("waterclock_budgets_open", dict)


def test_table_of_families_keeps_the_conventions() -> None:
    """Counters end in _total, histograms and sizes in a base unit, infos in _info, and every one has its words."""
    for name, family in (families.COUNTED | families.WATCHED).items():
        assert name == family.name
        assert name.startswith("waterclock_")
        assert name.endswith("_total") == (family.type is Type.COUNTER)
        assert name.endswith("_info") == (family.type is Type.INFO)
        assert (family.bounds != ()) == (family.type is Type.HISTOGRAM)
        if family.type is Type.HISTOGRAM:
            assert name.endswith({1000: "_seconds", 1: "_ratio"}[family.scale])
        assert list(family.bounds) == sorted(set(family.bounds))
        assert family.help.endswith(".")
        assert not {"host", "path", "id", "target", "method"} & set(family.labels)
