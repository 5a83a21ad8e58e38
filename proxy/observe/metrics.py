"""The numbers of the sidecar: counted from the same records that the log shows, read from the rest at a scrape.

On a call's way there are only integers in dicts and lists. Names, words and formats come in when somebody scrapes:
`collect` gives the numbers, `exposition` writes them down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from proxy.core.budget import Limit
from proxy.core.calls import Outcome
from proxy.core.history import Counts
from proxy.core.step import StepRecord
from proxy.core.verdict import DONE, ONE_COMPLETED, Verdict
from proxy.observe import families
from proxy.observe.families import Family, Type
from proxy.observe.ladders import Ladders
from proxy.observe.sampled import Labels, Sampled, tallied
from proxy.observe.tally import Histogram, Tally, Words

MOST_ROUTES: Final = 200  # kept apart; what comes later, over any number of reloads, is `other`
_MOST_WORDS: Final = 64

Reading = float | Mapping[str, float] | Mapping[Labels, float]

_Key = tuple[str, str, str, str, str | None, str | None]
_OF_STAGE: Final = str(Limit.STAGE)

_SAID: Final[dict[bool | None, str]] = {True: "true", False: "false", None: "unknown"}
_BY_REASON: Final[dict[str, Family]] = {
    Outcome.REFUSED: families.REFUSALS,
    Outcome.SHED: families.SHEDS,
    Outcome.DEADLINE_EXCEEDED: families.CUTS,
    Outcome.CONNECT_FAILED: families.FAILURES,
    Outcome.UPSTREAM_FAILED: families.FAILURES,
}


class _Count:
    """How many steps there were of one kind, with one end."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


class _Route:
    """What is summed up for one route.

    A step that was started at once, as nearly all are, is counted in `at_once` alone: its duration is its run, and its
    time in the queue nothing. Of the others, `durations` has all, `runs` and `queue_waits` those that were started.
    """

    __slots__ = (
        "allowances",
        "at_once",
        "attempts",
        "bytes",
        "durations",
        "queue_waits",
        "runs",
        "units",
        "waits",
    )

    def __init__(self) -> None:
        self.at_once = Histogram(families.DURATION.bounds)
        self.durations = Histogram(families.DURATION.bounds)
        self.runs = Histogram(families.RUN.bounds)
        self.queue_waits = Histogram(families.QUEUE_WAIT.bounds)
        self.waits = Histogram(families.WAIT.bounds)
        self.allowances = Histogram(families.ALLOWANCE.bounds)
        self.bytes = 0
        self.attempts = 0
        self.units = 0

    def all_queue_waits(self) -> Histogram:
        """Return how long those that were started had waited, those that had not included."""
        at_once = Histogram(families.QUEUE_WAIT.bounds)
        at_once.counts[0] = sum(self.at_once.counts)
        return at_once.plus(self.queue_waits)


class Metrics:
    """Counts steps, and knows where to read what others count. Used from the event loop's thread only."""

    def __init__(self) -> None:
        """Begin at zero, with no source."""
        self._steps: dict[_Key, _Count] = {}
        self._routes: dict[str, _Route] = {}
        self._route_names = Words(MOST_ROUTES)
        self._reasons = Words(_MOST_WORDS)
        self._lateness = Histogram(families.LATENESS.bounds)
        self._overhead = Histogram(families.OVERHEAD.bounds)
        self._completion = Histogram(families.COMPLETION.bounds)
        self._retries = Tally(self._route_names)
        self._withheld = Tally(self._route_names, Words(_MOST_WORDS))
        self._joined = Tally(self._route_names)
        self._verifications = Tally(self._route_names, Words(_MOST_WORDS))
        self._ladders = Ladders(self._route_names)
        self.rung_tried: Final = self._ladders.rung_tried
        self.cache_failed: Final = self._ladders.cache_failed
        self.stage_used: Final = self._ladders.stage_used
        self._closed = Tally(Words(len(_SAID)), Words(len(_SAID)))
        self._less = Tally(Words(len(_SAID)), Words(len(_SAID)))
        self._malformed = Tally(Words(_MOST_WORDS))
        self._opaque = Tally(Words(_MOST_WORDS))
        self._opened = 0
        self._ones = 0  # finished budgets of one call that completed in time
        self._extensions = 0
        self._source_failures = 0
        self._sources: dict[str, Callable[[], Sampled]] = {}
        self._slow: list[Callable[[], Awaitable[None]]] = []

    def step(self, record: StepRecord) -> None:
        """Count a step."""
        key = (record.route, record.kind, record.outcome, record.effect, record.reason, record.would)
        count = self._steps.get(key) or self._steps.setdefault(self._bounded(key), _Count())
        count.steps += 1
        route = self._routes.get(record.route) or self._route(record.route)
        route.waits.add(record.waited_ms)
        if record.tries and not record.queued_ms:
            route.at_once.add(record.elapsed_ms)
        else:
            route.durations.add(record.elapsed_ms)
            if record.tries:
                route.queue_waits.add(record.queued_ms)
                route.runs.add(record.elapsed_ms - record.queued_ms)
        route.attempts += record.tries
        route.units += record.fresh
        route.bytes += record.bytes
        if record.allowed_ms is not None:
            route.allowances.add(record.allowed_ms)
        if record.overhead_ms is not None:
            self._overhead.add(record.overhead_ms)
        if record.late_ms is not None:
            self._lateness.add(record.late_ms)
        less = record.degraded is not None or record.rung is not None or record.cache is not None
        if less or record.reason == _OF_STAGE:
            self._ladders.step(record)

    def malformed(self, reason: str) -> None:
        """Count bytes that were no request."""
        self._malformed.add(reason)

    def opaque(self, way: str) -> None:
        """Count an opaque connection."""
        self._opaque.add(way)

    def extension_ignored(self) -> None:
        """Count an attempt to lengthen a budget."""
        self._extensions += 1

    def budget_opened(self) -> None:
        """Count a budget that has been opened."""
        self._opened += 1

    def budget_closed(self, verdict: Verdict, counts: Counts) -> None:
        """Count a budget that is finished, by what is to be said of its job."""
        if counts is ONE_COMPLETED and verdict is DONE:  # as of nearly all that are of one call
            self._ones += 1
            return
        self._closed.add(_SAID[verdict.complete], _SAID[verdict.on_time])
        if verdict.degraded:
            self._less.add(_SAID[verdict.complete], _SAID[verdict.on_time])
        if counts.total:
            self._completion.add(counts.completed / counts.total)

    def retried(self, route: str) -> None:
        """Count an attempt that the sidecar makes again by itself."""
        self._retries.add(route)

    def retry_withheld(self, route: str, why: str) -> None:
        """Count a retry that is not made."""
        self._withheld.add(route, why)

    def joined(self, route: str) -> None:
        """Count a call that waits for the answer of an equal one."""
        self._joined.add(route)

    def verified(self, route: str, found: str) -> None:
        """Count a question after an uncertain write, by what it has found."""
        self._verifications.add(route, found)

    def watch(self, name: str, read: Callable[[], Reading]) -> None:
        """Read a family of `families.WATCHED` from `read` at each scrape: a number, or numbers by label."""
        family = families.WATCHED[name]
        by_labels = self._by_bounded_route if family.labels == ("route",) else _by_labels
        self._sources[name] = lambda: Sampled(family, family.labels, by_labels(read()))

    def inform(self, name: str, read: Callable[[], Mapping[str, str]]) -> None:
        """Read an info of `families.WATCHED` from `read` at each scrape: its labels and their values."""
        family = families.WATCHED[name]
        if family.type is not Type.INFO:
            raise ValueError(f"{name} is a {family.type}")

        def sampled() -> Sampled:
            values = read()
            return Sampled(family, tuple(values), {tuple(values.values()): 1})

        self._sources[name] = sampled

    def before_scrape(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Have a source refreshed before each scrape, since to read it in one would hold up the loop."""
        self._slow.append(refresh)

    async def refresh(self) -> None:
        """Refresh the sources that asked for it; what `collect` returns is then of now."""
        for refresh in self._slow:
            try:
                await refresh()
            except Exception:  # noqa: BLE001 - as with the sources in `collect`
                self._source_failures += 1

    def collect(self) -> Iterator[Sampled]:
        """Return all families as they are now: those that are counted here, then those that are read."""
        yield from self._by_key()
        yield from self._by_route()
        yield from self._single()
        yield from self._ladders.collect()
        yield tallied(families.RETRIES, self._retries)
        yield tallied(families.WITHHELD, self._withheld)
        yield tallied(families.JOINED, self._joined)
        yield tallied(families.VERIFICATIONS, self._verifications)
        yield tallied(families.BUDGETS_CLOSED, self._all_closed())
        yield tallied(families.BUDGETS_DEGRADED, self._less)
        yield tallied(families.MALFORMED, self._malformed)
        yield tallied(families.OPAQUE, self._opaque)
        for name in families.WATCHED:
            read = self._sources.get(name)
            if read is not None:
                try:
                    yield read()
                except Exception:  # noqa: BLE001 - one source at fault must not hide all the others; it is counted
                    self._source_failures += 1
        yield Sampled(families.SOURCE_FAILURES, (), {(): self._source_failures})

    def _by_key(self) -> Iterator[Sampled]:
        found: dict[Family, dict[Labels, float]] = {
            family: {} for family in (families.STEPS, *_BY_REASON.values(), families.WOULD)
        }

        def add(family: Family, labels: Labels, count: int) -> None:
            values = found[family]
            values[labels] = values.get(labels, 0) + count

        for (route, kind, outcome, effect, reason, would), counted in self._steps.items():
            count = counted.steps
            add(families.STEPS, (route, kind, outcome, effect), count)
            if outcome in _BY_REASON:
                add(_BY_REASON[outcome], (route, reason or "unknown"), count)
            if would is not None:
                add(families.WOULD, (route, would), count)
        for family, values in found.items():
            yield Sampled(family, family.labels, values)

    def _by_route(self) -> Iterator[Sampled]:
        for family, read in _OF_ROUTE.items():
            yield Sampled(
                family, family.labels, {(name,): read(route) for name, route in self._routes.items()}
            )
        yield Sampled(
            families.AMPLIFICATION,
            families.AMPLIFICATION.labels,
            {(name,): route.attempts / route.units for name, route in self._routes.items() if route.units},
        )

    def _all_closed(self) -> Tally:
        closed = Tally(Words(len(_SAID)), Words(len(_SAID)))
        closed.counts.update(self._closed.counts)
        if self._ones:
            closed.add(_SAID[True], _SAID[True], count=self._ones)
        return closed

    def _all_completions(self) -> Histogram:
        ones = Histogram(families.COMPLETION.bounds)
        ones.add_many(1.0, self._ones)
        return ones.plus(self._completion)

    def _single(self) -> Iterator[Sampled]:
        yield Sampled(families.LATENESS, (), {(): self._lateness})
        yield Sampled(families.OVERHEAD, (), {(): self._overhead})
        yield Sampled(families.BUDGETS_OPENED, (), {(): self._opened})
        yield Sampled(families.COMPLETION, (), {(): self._all_completions()})
        yield Sampled(families.EXTENSIONS, (), {(): self._extensions})

    def _bounded(self, key: _Key) -> _Key:
        """Return the key that a step is counted under, when its own has not been seen before."""
        route, kind, outcome, effect, reason, would = key
        if reason is not None:
            reason = self._reasons.label(reason)
        return self._route_names.label(route), kind, outcome, effect, reason, would

    def _route(self, name: str) -> _Route:
        return self._routes.setdefault(self._route_names.label(name), _Route())

    def _by_bounded_route(self, reading: Reading) -> dict[Labels, float]:
        """Return a reading by route, with what lies beyond the bound summed up."""
        found: dict[Labels, float] = {}
        for (name,), value in _by_labels(reading).items():
            labels = (self._route_names.label(name),)
            found[labels] = found.get(labels, 0) + value
        return found


_OF_ROUTE: Final[dict[Family, Callable[[_Route], float | Histogram]]] = {
    families.DURATION: lambda route: route.at_once.plus(route.durations),
    families.WAIT: lambda route: route.waits,
    families.QUEUE_WAIT: _Route.all_queue_waits,
    families.RUN: lambda route: route.at_once.plus(route.runs),
    families.ALLOWANCE: lambda route: route.allowances,
    families.RESPONSE_BYTES: lambda route: route.bytes,
    families.ATTEMPTS: lambda route: route.attempts,
    families.UNITS: lambda route: route.units,
}


def _by_labels(reading: Reading) -> dict[Labels, float]:
    if not isinstance(reading, Mapping):
        return {(): reading}
    return {labels if isinstance(labels, tuple) else (labels,): value for labels, value in reading.items()}
