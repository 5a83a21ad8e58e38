"""What Prometheus has: the right queries, bins from buckets, and no more known than the metrics tell."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MILLISECOND, SECOND
from proxy.tuning.asking import Series
from proxy.tuning.bucketed import Bin
from proxy.tuning.distribution import Between, Rate, rate_over
from proxy.tuning.faults import Untunable
from proxy.tuning.histograms import binned, over_range, read_histograms, selector
from proxy.tuning.measured import Measured
from tests.tuning.telling import policy

POLICY = policy()
CARRYING = replace(POLICY, budget=replace(POLICY.budget, carry=True))
EDGES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1, 1.1, 1.25, 1.5, 2, float("inf"))
SHARE = 5500 * MILLISECOND


class Metrics:
    """Answers the queries of the reader from counts, as PromQL would."""

    def __init__(self, **counts: dict[Any, float]) -> None:
        self.counts = counts
        self.asked: list[str] = []
        self.builds = self.digests = 1

    def __call__(self, query: str) -> list[Series]:
        self.asked.append(query)
        if "waterclock_build_info" in query:
            return [Series({}, self.builds)] if self.builds else []
        if "waterclock_policy_info" in query:
            return [Series({"digest": str(number)}, 1.0) for number in range(self.digests)]
        found = re.fullmatch(r"sum by \((.*)\) \(increase\(waterclock_(\w+)\{(.*)\}\[24h\]\)\)", query)
        assert found is not None, query
        labels, name, matchers = found[1].split(", "), found[2], found[3]
        chosen = name if name in self.counts else f"{name}_{_word(matchers)}"
        return [
            Series(dict(zip(labels, key if isinstance(key, tuple) else (key,), strict=True)), value)
            for key, value in self.counts.get(chosen, {}).items()
        ]


def _word(matchers: str) -> str:
    return "_".join(re.findall(r"[a-z]+", matchers.partition("=")[2]))


def ratios(stage: str, *counts: int) -> dict[Any, float]:
    """A histogram of a stage: how many samples each bucket has alone."""
    return {(stage, str(edge)): float(up_to) for edge, up_to in zip(EDGES, accumulate(counts), strict=True)}


def read(metrics: Metrics, policy: Any = POLICY) -> Measured:
    return read_histograms(metrics, policy, "24h", "")


LLM = ratios("llm", 0, 10, 40, 30, 10, 4, 1, 5, 0, 0, 0, 0)


def test_what_was_used_beyond_the_share_was_cut() -> None:
    """Of 100 jobs 5 were: the 95th percentile is known, the 99th is more than the share."""
    use = read(Metrics(stage_used_ratio_bucket=LLM, stage_cuts_total={"llm": 5.2})).stages["llm"]
    assert (use.needs.total, use.needs.censored, use.cut) == (100, 5, 5)
    assert use.needs.quantile(0.5) == Between(SHARE // 4, SHARE // 2)
    assert use.needs.quantile(0.95) == Between(95 * SHARE // 100, SHARE)
    assert use.needs.quantile(0.99) == Between(SHARE, None)
    assert rate_over(use.needs, SHARE) == Rate(0.05, 0.05)
    assert rate_over(use.needs, SHARE * 3 // 4) == Rate(0.2, 0.2)


def test_where_nothing_was_cut_what_was_used_was_needed() -> None:
    """`mode: observe`: 5 jobs would have been cut, and how much they needed is known."""
    use = read(Metrics(stage_used_ratio_bucket=LLM)).stages["llm"]
    assert (use.needs.censored, use.cut) == (0, 5)
    assert use.needs.quantile(0.99) == Between(SHARE, SHARE * 11 // 10)


def test_with_carry_a_cut_may_have_been_anywhere() -> None:
    """A stage may use more than its share, or be cut below it."""
    use = read(Metrics(stage_used_ratio_bucket=LLM, stage_cuts_total={"llm": 3}), CARRYING).stages["llm"]
    assert (use.needs.censored, use.cut) == (3, 3)
    assert use.needs.quantile(0.95) == Between(95 * SHARE // 100, SHARE * 11 // 10)
    assert use.needs.quantile(0.99).high is None


def test_what_ended_otherwise_counts_against_all() -> None:
    """Cut by what was left of the budget, or answered with less: of which jobs, nobody knows."""
    metrics = Metrics(
        stage_used_ratio_bucket=LLM,
        step_cuts_total_budget_remaining={"chat": 2, "search": 50},
        degraded_steps_total_time_slow={"chat": 1},
    )
    measured = read(metrics)
    use = measured.stages["llm"]
    assert (use.needs.censored, use.short) == (3, 1)
    assert use.needs.quantile(0.5) == Between(SHARE // 4, SHARE * 3 // 4)
    assert "3 steps of stage llm ended early, or with less" in measured.notes[0]


def test_rungs() -> None:
    """By route and rung; what was given up on that route may have been any of them."""
    buckets: dict[Any, float] = {
        ("chat", "full", "1"): 60,
        ("chat", "full", "2.5"): 96,
        ("chat", "full", "+Inf"): 100,
    }
    counts: dict[str, dict[Any, float]] = {"rung_duration_seconds_bucket": buckets}
    full = read(Metrics(**counts)).rungs["chat", "full"]
    assert (full.total, full.quantile(0.95)) == (100, Between(SECOND, 2500 * MILLISECOND))
    counts |= {"degraded_steps_total_slow": {"chat": 2.0}}
    measured = read(Metrics(**counts))
    assert measured.rungs["chat", "full"].quantile(0.95) == Between(SECOND, None)
    assert measured.notes == (
        "2 tries on route chat ended early; of which rungs, the metrics do not tell, so that counts against each.",
    )
    assert measured.rungs["chat", "fast"].total == 0


def test_stages_of_another_policy_are_told() -> None:
    """Pods of several policies, perhaps."""
    assert "'other'" in read(Metrics(stage_used_ratio_bucket=ratios("other", *[1] * 12))).notes[0]


def test_a_policy_that_was_changed_is_told() -> None:
    """Ratios are of the shares of their time."""
    metrics = Metrics(stage_used_ratio_bucket=LLM)
    metrics.digests = 3
    assert read(metrics).notes[-1].startswith("3 policies were in force in this range")


def test_another_prometheus_is_told_from_an_idle_one() -> None:
    """Sidecars that have finished no job yet are no fault."""
    metrics = Metrics()
    assert read(metrics).stages["llm"].needs.total == 0
    metrics.builds = 0
    with pytest.raises(Untunable, match=r"no series of a sidecar in this range\.\nName the one that scrapes"):
        read(metrics)


def test_pods_are_chosen_in_every_query() -> None:
    """With their labels quoted."""
    chosen = selector(["namespace=agents", 'app=~a|"b\\', "pod!=x", "zone!~y"])
    assert chosen == 'namespace="agents",app=~"a|\\"b\\\\",pod!="x",zone!~"y"'
    asked: list[str] = []

    def ask(query: str) -> list[Series]:
        asked.append(query)
        return [Series({"digest": "a"}, 1.0)]

    read_histograms(ask, POLICY, "24h", chosen)
    assert len(asked) == 9
    assert all(chosen in query for query in asked)


@pytest.mark.parametrize("text", ["", "namespace", "=x", "a-b=c", "1=2", "{}=x"])
def test_no_selector(text: str) -> None:
    """It says how one is written."""
    with pytest.raises(Untunable, match="chooses no pods"):
        selector([text])


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("24h", True),
        ("1h30m", True),
        ("7d", True),
        ("", False),
        ("24", False),
        ("0h", False),
        ("24h]", False),
        ("1.5h", False),
        ("24H", False),
    ],
)
def test_ranges(text: str, good: bool) -> None:
    """As PromQL writes them, and nothing else gets into a query."""
    if good:
        assert over_range(text) == text
    else:
        with pytest.raises(Untunable, match="is no range"):
            over_range(text)


def test_bins() -> None:
    """Growth has fractions, and counts may seem to fall by one: neither makes a bin negative."""
    buckets = [(0.5, 2.4), (float("inf"), 6.0), (1.0, 4.6), (2.0, 4.4), (float("nan"), 9.0)]
    assert binned(buckets, 1000) == [
        Bin(0, 500, 2),
        Bin(500, 1000, 3),
        Bin(1000, 2000, 0),
        Bin(2000, None, 1),
    ]
    assert binned([], 1000) == []


VALUES = st.floats() | st.floats(-10, 10**6)


@given(st.dictionaries(VALUES, VALUES, max_size=8))
def test_any_buckets(buckets: dict[float, float]) -> None:
    """Whatever a server says, bins are bins."""
    bins = binned([*buckets.items()], 1000)
    assert all(each.samples >= 0 and (each.high is None or each.high >= each.low) for each in bins)


@given(
    st.lists(st.tuples(st.text(max_size=3), st.text(max_size=4), VALUES), max_size=12),
    st.dictionaries(st.sampled_from(["llm", "retrieval", "x"]), VALUES),
    st.booleans(),
)
def test_any_answers(series: list[tuple[str, str, float]], cuts: dict[Any, float], carry: bool) -> None:
    """Whatever labels and values there are, figures are figures."""
    named: dict[Any, float] = {(stage or "llm", le): value for stage, le, value in series}
    measured = read(
        Metrics(stage_used_ratio_bucket=named, stage_cuts_total=cuts), CARRYING if carry else POLICY
    )
    for use in measured.stages.values():
        assert 0 <= use.needs.censored <= use.needs.total
        assert 0 <= use.cut <= use.needs.total
