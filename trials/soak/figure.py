"""The plot of a soak: every series over time, in a panel for each subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench.plots.paper import Figure, Line, Panel, note, thinned
from trials.soak.series import SERIES

_MINUTES: Final = 600  # seconds: a longer soak is drawn in minutes
_POINTS: Final = 160


def figures(whole: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the plot of a result, by the name of its file."""
    long = whole["seconds"] > _MINUTES
    unit = "minutes" if long else "seconds"
    panels: dict[str, list[Line]] = {}
    units: dict[str, str] = {}
    for series in SERIES:
        points = whole["series"].get(series.source) or []
        drawn = [(at / (60 if long else 1), value / series.scale) for at, value in points]
        if drawn:
            panels.setdefault(series.panel, []).append(Line(series.name, thinned(drawn, _POINTS), own=True))
            units[series.panel] = series.unit
    made = [
        Panel(title, unit, units[title] or "number", lines, marks=False) for title, lines in panels.items()
    ]
    title = f"Soak of {whole['build']}: {whole['rate']:,.0f} calls a second"
    where = note(whole["machine"], whole["day"])
    height = 60 + 210 * -(-len(made) // 2)
    return {"soak": Figure(title, made, where, columns=2, width=1000, height=height, shared=False)}
