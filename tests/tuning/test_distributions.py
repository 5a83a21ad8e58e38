"""Distributions: what is told of quantiles and rates is true whatever the samples that were cut would have needed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tuning.bucketed import Bin, Bucketed
from proxy.tuning.distribution import Between, Distribution, Rate, rank, rate_over
from proxy.tuning.sketched import ACCURACY, Sketched
from proxy.tuning.union import MOST, Union

QUANTILES = (0.01, 0.5, 0.95, 0.99, 1.0)


@pytest.mark.parametrize(
    ("q", "total", "expected"),
    [(0.5, 1, 1), (0.5, 3, 2), (0.5, 4, 2), (0.99, 100, 99), (0.99, 99, 99), (0.07, 100, 7), (1.0, 5, 5), (0.001, 5, 1)],
)  # fmt: skip
def test_rank(q: float, total: int, expected: int) -> None:
    """The smallest sample that so many are not above."""
    assert rank(q, total) == expected


def true_quantile(needs: Sequence[int], q: float) -> int:
    return sorted(needs)[rank(q, len(needs)) - 1]


def holds(distribution: Distribution, needs: Sequence[int], spans: Sequence[int]) -> None:
    """What is told is true of these needs, of which some were seen to be larger than something only."""
    assert distribution.total == len(needs)
    for q in QUANTILES:
        low, high = distribution.quantile(q)
        truth = true_quantile(needs, q)
        assert low <= truth
        assert high is None or truth <= high
    for span in spans:
        least, most = distribution.over(span)
        over = sum(need > span for need in needs)
        assert 0 <= least <= over <= most <= len(needs), span
        rate = rate_over(distribution, span)
        assert 0 <= rate.least <= rate.most <= 1


# A need, and what was used of it: less where it was cut.
SAMPLE = st.tuples(st.integers(0, 10**10), st.none() | st.floats(0, 0.999))
SHARE = 3 * 10**9
SPANS = st.lists(st.integers(1, 10**10), max_size=4)


@given(st.lists(SAMPLE, min_size=1, max_size=60), SPANS, st.booleans())
def test_sketches_tell_the_truth(
    samples: list[tuple[int, float | None]], spans: list[int], has_share: bool
) -> None:
    """Whatever the cut ones needed: it was more than they used, and that is all that is taken for granted."""
    sketched = Sketched(SHARE if has_share else None)
    needs = []
    for need, part in samples:
        used = need if part is None else int(need * part)
        sketched.add(used, cut=part is not None)
        needs.append(max(need, used + 1) if part is not None else need)
    assert sketched.censored == sum(part is not None for _, part in samples)
    holds(sketched, needs, [*spans, SHARE])


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=80), SPANS)
def test_what_is_whole_is_known_to_the_accuracy(needs: list[int], spans: list[int]) -> None:
    """Without cut ones a quantile is one figure, to a hundredth."""
    sketched = Sketched()
    for need in needs:
        sketched.add(need)
    for q in QUANTILES:
        low, high = sketched.quantile(q)
        assert high is not None
        truth = true_quantile(needs, q)
        assert low >= truth * (1 - 4 * ACCURACY) - 2
        assert high <= truth * (1 + 4 * ACCURACY) + 2
    for span in spans:
        least, most = sketched.over(span)
        assert most - least <= sum(abs(need - span) <= 3 * ACCURACY * span + 2 for need in needs)


def test_at_its_own_share_everything_is_known() -> None:
    """A cut at the share is seen a little after it; 7 of 100 jobs were cut there, and no other needs more."""
    sketched = Sketched(SHARE)
    for number in range(93):
        sketched.add(SHARE - number)
    for number in range(7):
        sketched.add(SHARE + 1000 * number, cut=True)
    assert rate_over(sketched, SHARE) == Rate(0.07, 0.07)
    assert sketched.quantile(0.93).high == SHARE
    assert sketched.quantile(0.94) == Between(SHARE, None)
    assert sketched.quantile(0.99) == Between(SHARE, None)
    least, most = sketched.over(2 * SHARE)
    assert (least, most) == (0, 7)


def test_one_that_was_cut_early_makes_a_quantile_a_range() -> None:
    """It may be any of those above it."""
    sketched = Sketched()
    for need in range(1, 100):
        sketched.add(need * 1000)
    sketched.add(0, cut=True)
    low, high = sketched.quantile(0.5)
    assert high is not None
    assert low <= 49_000 < 50_000 <= high
    assert sketched.quantile(1.0).high is None


# -- buckets -----------------------------------------------------------------------------------------------------------

EDGES = (0, 100, 250, 500, 1000, 2000)


def bins_of(used: Sequence[int]) -> list[Bin]:
    """The buckets that samples fall into: above one edge, and not above the next."""
    bins = [
        Bin(low, high, sum(low < each <= high or (low == 0 and each == 0) for each in used))
        for low, high in pairwise(EDGES)
    ]
    return [*bins, Bin(EDGES[-1], None, sum(each > EDGES[-1] for each in used))]


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1001, 2500), st.integers(1, 3000)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 3000)), max_size=12),
    st.lists(st.integers(1, 4000), max_size=4),
)
def test_buckets_tell_the_truth(
    whole: list[int], cut: list[tuple[int, int]], stray: list[tuple[int, int]], spans: list[int]
) -> None:
    """Those that were cut past an edge needed more than they used there, those anywhere more than they used anywhere."""
    used = [*whole, *(at for at, _ in cut), *(at for at, _ in stray)]
    needs = [*whole, *(at + more for at, more in (*cut, *stray))]
    bucketed = Bucketed(bins_of(used), past=1000, cut=len(cut), stray=len(stray))
    assert bucketed.censored == len(cut) + len(stray)
    holds(bucketed, needs, [*spans, *EDGES[1:]])


def test_a_quantile_is_the_bucket_that_it_falls_into() -> None:
    """And nothing finer is said."""
    bucketed = Bucketed(bins_of([50] * 90 + [300] * 9 + [5000]))
    assert bucketed.quantile(0.5) == Between(0, 100)
    assert bucketed.quantile(0.99) == Between(250, 500)
    assert bucketed.quantile(1.0) == Between(2000, None)
    assert bucketed.over(500) == (1, 1)
    assert bucketed.over(400) == (1, 10)


def test_no_more_are_cut_than_there_are() -> None:
    """A metric that counts steps may have more than there are jobs."""
    bucketed = Bucketed(bins_of([50, 1500]), past=1000, cut=7, stray=90)
    assert bucketed.censored == 2
    assert bucketed.quantile(0.5) == Between(0, None)
    assert Bucketed([], stray=3).total == 0


# -- the union of spans ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=40))
def test_the_union_is_what_is_covered(spans: list[tuple[int, int]]) -> None:
    """Moment by moment, whatever the order."""
    union = Union()
    for begin, length in spans:
        union.add(begin, begin + length)
    assert union.length == len({at for begin, length in spans for at in range(begin, begin + length)})


def test_the_union_of_many_spans_stays_small() -> None:
    """In order, as a log has them: nothing is lost, and little is kept."""
    union = Union()
    for number in range(10 * MOST):
        union.add(10 * number, 10 * number + 4)
    assert union.length == 40 * MOST
    assert len(union._begins) <= MOST
