"""The numbers of the sidecar: counted from the same records that the log shows, read from the rest at a scrape.

On a call's way there are only integers in dicts and lists. Names, words and formats come in when somebody scrapes:
`collect` gives the numbers, `exposition` writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Final, NamedTuple

from proxy.core.calls import Outcome
from proxy.core.step import FIELDS, StepRecord
from proxy.observe import families
from proxy.observe.families import Family, Type
from proxy.observe.tally import Histogram, Tally, Words

MOST_ROUTES: Final = 200  # kept apart; what comes later, over any number of reloads, is `other`
_MOST_WORDS: Final = 64

Labels = tuple[str, ...]
Reading = float | Mapping[str, float] | Mapping[Labels, float]

_Key = tuple[str, str, str, str, str | None, str | None]
_key_of: Final[Callable[[StepRecord], _Key]] = itemgetter(
    *map(FIELDS.index, ("route", "kind", "outcome", "effect", "reason", "would"))
)
_BY_REASON: Final[dict[str, Family]] = {
    Outcome.REFUSED: families.REFUSALS,
    Outcome.SHED: families.REFUSALS,
    Outcome.DEADLINE_EXCEEDED: families.CUTS,
    Outcome.CONNECT_FAILED: families.FAILURES,
    Outcome.UPSTREAM_FAILED: families.FAILURES,
}


class Sampled(NamedTuple):
    """One family at one moment: the names of its labels, and its values by their labels."""

    family: Family
    labels: tuple[str, ...]
    values: Mapping[Labels, float | Histogram]


class _Route:
    """What is summed up for one route."""

    __slots__ = ("allowances", "attempts", "bytes", "durations", "waits")

    def __init__(self) -> None:
        self.durations = Histogram(families.DURATION.bounds)
        self.waits = Histogram(families.WAIT.bounds)
        self.allowances = Histogram(families.ALLOWANCE.bounds)
        self.bytes = 0
        self.attempts = 0


class Metrics:
    """Counts steps, and knows where to read what others count. Used from the event loop's thread only."""

    def __init__(self) -> None:
        """Begin at zero, with no source."""
        self._steps: dict[_Key, int] = {}
        self._routes: dict[str, _Route] = {}
        self._route_names = Words(MOST_ROUTES)
        self._reasons = Words(_MOST_WORDS)
        self._lateness = Histogram(families.LATENESS.bounds)
        self._malformed = Tally(_MOST_WORDS)
        self._opaque = Tally(_MOST_WORDS)
        self._extensions = 0
        self._source_failures = 0
        self._sources: dict[str, Callable[[], Sampled]] = {}

    def step(self, record: StepRecord) -> None:
        """Count a step."""
        key = _key_of(record)
        try:
            self._steps[key] += 1
        except KeyError:
            key = self._bounded(key)
            self._steps[key] = self._steps.get(key, 0) + 1
        try:
            route = self._routes[record.route]
        except KeyError:
            route = self._route(record.route)
        route.durations.add(record.elapsed_ms)
        route.waits.add(record.waited_ms)
        if record.allowed_ms is not None:
            route.allowances.add(record.allowed_ms)
        route.bytes += record.bytes
        route.attempts += record.attempt
        if record.late_ms is not None:
            self._lateness.add(record.late_ms)

    def malformed(self, reason: str) -> None:
        """Count bytes that were no request."""
        self._malformed.add(reason)

    def opaque(self, way: str) -> None:
        """Count an opaque connection."""
        self._opaque.add(way)

    def extension_ignored(self) -> None:
        """Count an attempt to lengthen a budget."""
        self._extensions += 1

    def watch(self, name: str, read: Callable[[], Reading]) -> None:
        """Read a family of `families.WATCHED` from `read` at each scrape: a number, or numbers by label."""
        family = families.WATCHED[name]
        self._sources[name] = lambda: Sampled(family, family.labels, _by_labels(read()))

    def inform(self, name: str, read: Callable[[], Mapping[str, str]]) -> None:
        """Read an info of `families.WATCHED` from `read` at each scrape: its labels and their values."""
        family = families.WATCHED[name]
        if family.type is not Type.INFO:
            raise ValueError(f"{name} is a {family.type}")

        def sampled() -> Sampled:
            values = read()
            return Sampled(family, tuple(values), {tuple(values.values()): 1})

        self._sources[name] = sampled

    def collect(self) -> Iterator[Sampled]:
        """Return all families as they are now: those that are counted here, then those that are read."""
        yield from self._by_key()
        yield from self._by_route()
        yield Sampled(families.LATENESS, (), {(): self._lateness})
        yield _tallied(families.MALFORMED, self._malformed)
        yield _tallied(families.OPAQUE, self._opaque)
        yield Sampled(families.EXTENSIONS, (), {(): self._extensions})
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

        for (route, kind, outcome, effect, reason, would), count in self._steps.items():
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

    def _bounded(self, key: _Key) -> _Key:
        """Return the key that a step is counted under, when its own has not been seen before."""
        route, kind, outcome, effect, reason, would = key
        if reason is not None:
            reason = self._reasons.label(reason)
        return self._route_names.label(route), kind, outcome, effect, reason, would

    def _route(self, name: str) -> _Route:
        return self._routes.setdefault(self._route_names.label(name), _Route())


_OF_ROUTE: Final[dict[Family, Callable[[_Route], float | Histogram]]] = {
    families.DURATION: lambda route: route.durations,
    families.WAIT: lambda route: route.waits,
    families.ALLOWANCE: lambda route: route.allowances,
    families.RESPONSE_BYTES: lambda route: route.bytes,
    families.ATTEMPTS: lambda route: route.attempts,
}


def _by_labels(reading: Reading) -> dict[Labels, float]:
    if not isinstance(reading, Mapping):
        return {(): reading}
    return {labels if isinstance(labels, tuple) else (labels,): value for labels, value in reading.items()}


def _tallied(family: Family, tally: Tally) -> Sampled:
    return Sampled(family, family.labels, {(word,): count for word, count in tally.counts.items()})
