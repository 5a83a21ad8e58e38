"""What a soak has found: the verdict on each series and on the answers, as tables, and everything as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bench.report import Table, told
from trials.soak.level import FEWEST, Judged, judge
from trials.soak.run import Soak
from trials.soak.series import SERIES, Series


def judged(soak: Soak) -> list[tuple[Series, Judged]]:
    """Judge every series that has a bound. One that is not there at all has grown: it was to be looked at."""
    found = []
    for series in SERIES:
        points = soak.points(series.source)
        if series.bound is None or (series.flows and soak.length.short):
            continue
        if len(points) < FEWEST:
            found.append((series, Judged(series.name, 0.0, 0.0, 0.0, grows=True)))
        else:
            bound = series.bound.times(soak.length.slack)
            found.append((series, judge(series.name, points, bound)))
    return found


def table(soak: Soak, found: Sequence[tuple[Series, Judged]]) -> Table:
    """Return the series."""
    columns = ["", "series", "level", "rise", "an hour", "grows from, an hour", "and rise"]
    rows = []
    for series, verdict in found:
        assert series.bound is not None
        bound = series.bound.times(soak.length.slack)
        most = bound.most(verdict.level - verdict.rise)
        figures = (verdict.level, verdict.rise, verdict.per_hour, bound.per_hour, most)
        cells = [told(value / series.scale, series.unit) for value in figures]
        rows.append(["GROWS" if verdict.grows else "level", series.name, *cells])
    title = f"{soak.build}, {soak.length.seconds:,} s at {soak.rate:,.0f} calls/s: the second half"
    return Table(title, columns, rows, notes(soak))


def notes(soak: Soak) -> list[str]:
    """Say what the load was, and what was wrong."""
    counts = soak.counts
    busy = [value for _, value in soak.points("busy")]
    mean = sum(busy) / len(busy) if busy else 0.0
    found = [
        f"Full load, of GETs and POSTs: {soak.full:,.0f} calls/s took {soak.full_busy:.0%} of a core.",
        f"Half load, of all kinds, at {soak.call_us:.0f} µs a call: it took {mean:.0%}.",
        f"{counts.total:,} calls of {len(counts.begun)} kinds, {soak.reloads} reloads, seed {soak.seed}.",
    ]
    if counts.left_out:
        found.append(
            f"{counts.left_out:,} calls were left out: the machine had no half of a core to give. Run it where nothing else runs."
        )
    if not soak.left():
        found.append("At rest: all that came with the load has gone with it.")
    found += [f"AT REST: {line}" for line in _left(soak)]
    return found + [f"WRONG: {what} ({count:,})" for what, count in counts.wrong.most_common(20)]


def _left(soak: Soak) -> list[str]:
    return [
        f"{series.name}: {told(soak.after.get(series.source, 0.0) / series.scale, series.unit)} when the load was over, "
        f"{told(most / series.scale, series.unit)} at most by what there was before it"
        for series, most in soak.left()
    ]


def holds(soak: Soak, found: Sequence[tuple[Series, Judged]]) -> bool:
    """Say whether nothing grows, nothing is left at rest, and every answer was right."""
    grows = any(verdict.grows for _, verdict in found)
    return not (grows or soak.left() or soak.counts.wrong)


def complaints(soak: Soak, found: Sequence[tuple[Series, Judged]]) -> list[str]:
    """Name what does not hold, with what shows it again."""
    again = f"python -m trials soak --for {soak.length.seconds}s --seed {soak.seed}"
    lines = []
    for series, verdict in found:
        if verdict.grows and not soak.points(series.source):
            lines.append(f"{series.name}: {series.source} was not to be read; see trials/soak/series.py")
        elif verdict.grows:
            hourly = told(verdict.per_hour / series.scale, series.unit)
            rise = told(verdict.rise / series.scale, series.unit)
            lines.append(
                f"{series.name} grows: by {hourly} an hour, {rise} from one quarter to the next ({again})"
            )
    lines += [f"{line} ({again})" for line in _left(soak)]
    wrong = sum(soak.counts.wrong.values())
    return lines + ([f"{wrong:,} answers were wrong ({again})"] if wrong else [])


def whole(soak: Soak, found: Sequence[tuple[Series, Judged]], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything, for a file and for the plot."""
    return {
        "machine": dict(machine),
        "day": datetime.now(tz=UTC).date().isoformat(),
        "build": soak.build,
        "seconds": soak.length.seconds,
        "seed": soak.seed,
        "full": soak.full,
        "full_busy": soak.full_busy,
        "call_us": soak.call_us,
        "rate": soak.rate,
        "reloads": soak.reloads,
        "calls": dict(soak.counts.begun),
        "left_out": soak.counts.left_out,
        "wrong": dict(soak.counts.wrong),
        "before": soak.before,
        "after": soak.after,
        "judged": [{"source": series.source, **vars(verdict)} for series, verdict in found],
        "series": {
            series.source: [[round(at, 2), round(value, 4)] for at, value in soak.points(series.source)]
            for series in SERIES
        },
    }
