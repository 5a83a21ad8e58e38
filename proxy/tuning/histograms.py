"""What Prometheus has of the metrics of many sidecars: histograms, in which cut samples cannot be told from whole ones.

    waterclock_stage_used_ratio        what a job used of a stage, as a part of its share
    waterclock_stage_cuts_total        steps that were cut because their share was used up
    waterclock_rung_duration_seconds   one try of a rung, whole answers and those given up on

Without carry, what a job has used beyond its share was cut there. Of all else that ended early only the number is known, so it is
counted against any of the samples. `increase` looks over the range; what a pod had counted before Prometheus saw it first is
not in it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from proxy.core.degrading import Why
from proxy.core.policy import Policy
from proxy.core.units import SECOND
from proxy.tuning.asking import Series
from proxy.tuning.bucketed import Bin, Bucketed
from proxy.tuning.faults import Untunable
from proxy.tuning.measured import Measured, RungName, Use, claimed, ladders, routes_of
from proxy.tuning.words import many

Ask = Callable[[str], list[Series]]

_RANGE: Final = re.compile(r"(?:[0-9]{1,6}(?:ms|[smhdwy]))+\Z")
_MATCHER: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(=~|!~|!=|=)(.*)\Z", re.DOTALL)
_MOST_NAMES: Final = 20


def over_range(text: str) -> str:
    """Return a range as PromQL writes it. Raises Untunable."""
    if not _RANGE.match(text) or not re.search("[1-9]", text):
        raise Untunable(f"{text!r} is no range", "write one like 24h, 90m or 7d")
    return text


def selector(matchers: Iterable[str]) -> str:
    """Return the label matchers of PromQL for `name=value` and its like. Raises Untunable."""
    found = []
    for text in matchers:
        match = _MATCHER.match(text)
        if match is None:
            remedy = "write --match namespace=agents; =~ stands before a regular expression"
            raise Untunable(f"{text!r} chooses no pods", remedy)
        name, sign, value = match.groups()
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        found.append(f'{name}{sign}"{quoted}"')
    return ",".join(found)


def read_histograms(ask: Ask, policy: Policy, range_: str, chosen: str) -> Measured:
    """Return what was measured in this range by the pods that are chosen (`selector`). Raises Untunable."""
    reader = _Reader(ask, range_, chosen)
    stages, notes = _stages(reader, policy)
    rungs, more = _rungs(reader, policy)
    if not any(use.needs.total for use in stages.values()) and not any(each.total for each in rungs.values()):
        reader.knows_sidecars()
    digests = len(ask(f"count by (digest) (max_over_time(waterclock_policy_info{{{chosen}}}[{range_}]))"))
    if digests > 1:
        notes.append(
            f"{digests} policies were in force in this range: shares that were different then count as those of now. "
            "Choose a shorter --range, or with --match the pods of one policy."
        )
    return Measured(stages, rungs, (*notes, *more))


class _Reader:
    """Asks how much counters have grown."""

    def __init__(self, ask: Ask, range_: str, chosen: str) -> None:
        self._ask = ask
        self._range = range_
        self._chosen = chosen

    def grown(self, counter: str, by: str, *matchers: str) -> list[Series]:
        """Return the growth of a counter, by labels."""
        inside = ",".join([*matchers, *([self._chosen] if self._chosen else [])])
        return self._ask(f"sum by ({by}) (increase({counter}{{{inside}}}[{self._range}]))")

    def counts(self, counter: str, label: str, *matchers: str) -> dict[str, int]:
        """Return the growth of a counter, by one label."""
        found: defaultdict[str, int] = defaultdict(int)
        for series in self.grown(counter, label, *matchers):
            found[series.labels.get(label, "")] += _whole(series.value)
        return found

    def buckets(self, histogram: str, *labels: str) -> dict[tuple[str, ...], list[tuple[float, float]]]:
        """Return the buckets of a histogram by labels, as edges and how many are below each."""
        found: defaultdict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
        for series in self.grown(f"{histogram}_bucket", ", ".join([*labels, "le"])):
            try:
                edge = float(series.labels.get("le", ""))
            except ValueError:
                continue
            found[tuple(series.labels.get(label, "") for label in labels)].append((edge, series.value))
        return found

    def knows_sidecars(self) -> None:
        """Refuse a Prometheus that has never heard of a sidecar."""
        if not self._ask(f"count(last_over_time(waterclock_build_info{{{self._chosen}}}[{self._range}]))"):
            remedy = "name the one that scrapes these pods (port 10803, docs/metrics.md), and choose them with --match"
            raise Untunable("this Prometheus has no series of a sidecar in this range", remedy)


def _stages(reader: _Reader, policy: Policy) -> tuple[dict[str, Use], list[str]]:
    buckets = reader.buckets("waterclock_stage_used_ratio", "stage")
    by_share = reader.counts("waterclock_stage_cuts_total", "stage")
    by_budget = reader.counts("waterclock_step_cuts_total", "route", 'limit="budget_remaining"')
    short = reader.counts(
        "waterclock_degraded_steps_total", "route", f'reason=~"{Why.TIME.value}|{Why.SLOW.value}"'
    )
    found, notes = {}, []
    for share in claimed(policy.budget):
        bins = binned(buckets.pop((share.stage,), ()), share.span)
        cuts = by_share[share.stage]
        routes = [route.name for route in routes_of(policy) if route.stage == share.stage]
        less = sum(short[route] for route in routes)
        stray = sum(by_budget[route] for route in routes) + less
        over = sum(each.samples for each in bins if each.low >= share.span)
        if policy.budget.carry:
            needs = Bucketed(bins, stray=stray + cuts)
            found[share.stage] = Use(needs, min(cuts, needs.total), min(less, needs.total))
        else:
            needs = Bucketed(bins, past=share.span, cut=min(cuts, over), stray=stray)
            found[share.stage] = Use(needs, over, min(less, needs.total))
        if stray and needs.total:
            steps = many(stray, "step", "steps")
            notes.append(
                f"{steps} of stage {share.stage} ended early, or with less, for another reason than its share; in which jobs, "
                "the metrics do not tell, so that counts against all."
            )
    for (stage,), _ in zip(buckets, range(_MOST_NAMES), strict=False):
        notes.append(f"Budgets have a stage {stage!r}, to which this policy gives no share.")
    return found, notes


def _rungs(reader: _Reader, policy: Policy) -> tuple[dict[RungName, Bucketed], list[str]]:
    known = [(route.name, rung.name) for route, rung in ladders(policy)]
    if not known:
        return {}, []
    buckets = reader.buckets("waterclock_rung_duration_seconds", "route", "rung")
    cuts = reader.counts("waterclock_step_cuts_total", "route")
    slow = reader.counts("waterclock_degraded_steps_total", "route", f'reason="{Why.SLOW.value}"')
    found, notes = {}, []
    for route, rung in known:
        early = cuts[route] + slow[route]
        found[route, rung] = Bucketed(binned(buckets.get((route, rung), ()), SECOND), stray=early)
        tries = many(early, "try", "tries")
        note = f"{tries} on route {route} ended early; of which rungs, the metrics do not tell, so that counts against each."
        if early and found[route, rung].total and note not in notes:
            notes.append(note)
    return found, notes


def binned(buckets: Sequence[tuple[float, float]], scale: int) -> list[Bin]:
    """Return the bins of a histogram from its edges (in units of `scale` nanoseconds) and how many samples are below each.

    Growth is reckoned with fractions; what is rounded never falls from one edge to the next.
    """
    bins, low, below = [], 0, 0
    for edge, count in sorted(each for each in buckets if not math.isnan(each[0])):
        up_to = max(below, _whole(count))
        high = max(low, round(edge * scale)) if math.isfinite(edge * scale) else None
        bins.append(Bin(low, high, up_to - below))
        low, below = high if high is not None else low, up_to
    return bins


def _whole(value: float) -> int:
    return max(0, round(value)) if math.isfinite(value) else 0
