"""The counters equal the records, and their number is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.calls import Outcome
from proxy.core.step import StepRecord
from proxy.observe import families, metrics
from proxy.observe.families import Family, Type
from proxy.observe.metrics import Labels, Metrics
from proxy.observe.tally import OTHER, Histogram
from tests.observe.records import plain, records


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
        families.REFUSALS: {Outcome.REFUSED, Outcome.SHED},
        families.CUTS: {Outcome.DEADLINE_EXCEEDED},
        families.FAILURES: {Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED},
    }
    assert numbers(made, families.STEPS) == Counter((r.route, r.kind, r.outcome, r.effect) for r in taken)
    for family, outcomes in by_reason.items():
        expected = Counter((r.route, r.reason or "unknown") for r in taken if r.outcome in outcomes)
        assert numbers(made, family) == expected
    assert numbers(made, families.WOULD) == Counter((r.route, r.would) for r in taken if r.would is not None)
    routes = {record.route for record in taken}
    for family, field in ((families.RESPONSE_BYTES, "bytes"), (families.ATTEMPTS, "attempt")):
        assert numbers(made, family) == {
            (route,): sum(getattr(r, field) for r in taken if r.route == route) for route in routes
        }


@given(taken=st.lists(records(), max_size=30))
def test_histograms_equal_the_records(taken: list[StepRecord]) -> None:
    """A value is counted under the first bound that it does not exceed, as `le` says."""
    made = counted(taken)
    fields = {
        families.DURATION: "elapsed_ms",
        families.WAIT: "waited_ms",
        families.ALLOWANCE: "allowed_ms",
        families.LATENESS: "late_ms",
    }
    for family, field in fields.items():
        for labels, histogram in values(made, family).items():
            own = [getattr(r, field) for r in taken if not labels or (r.route,) == labels]
            own = [value for value in own if value is not None]
            bounds = family.bounds
            below = [sum(value <= bound for value in own) for bound in bounds]
            assert [sum(histogram.counts[: n + 1]) for n in range(len(bounds))] == below
            assert sum(histogram.counts) == len(own)
            assert histogram.sum == pytest.approx(sum(max(0, value) for value in own))


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
        made.step(plain(route=f"route-{number}", outcome=Outcome.REFUSED, reason="budget_exhausted", bytes=1))
        made.step(plain(route="route-0", bytes=1))
    for family in (families.REFUSALS, families.RESPONSE_BYTES, families.DURATION):
        found = values(made, family)
        assert len(found) == metrics.MOST_ROUTES + 1
    assert numbers(made, families.REFUSALS)[OTHER, "budget_exhausted"] == 5000 - metrics.MOST_ROUTES
    assert numbers(made, families.RESPONSE_BYTES)[OTHER,] == 5000 - metrics.MOST_ROUTES
    assert numbers(made, families.RESPONSE_BYTES)["route-0",] == 5001


def test_reasons_beyond_the_cap_are_other() -> None:
    """Reasons are a vocabulary of ours; were one ever made from what a peer sent, the series stay bounded."""
    made = Metrics()
    for number in range(1000):
        made.step(plain(outcome=Outcome.UPSTREAM_FAILED, reason=f"invented {number}"))
        made.malformed(f"invented {number}")
        made.opaque(f"invented {number}")
    for family in (families.FAILURES, families.MALFORMED, families.OPAQUE):
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
        assert (family.bounds != ()) == (family.type is Type.HISTOGRAM) == name.endswith("_seconds")
        assert list(family.bounds) == sorted(set(family.bounds))
        assert family.help.endswith(".")
        assert not {"host", "path", "id", "target", "method"} & set(family.labels)
