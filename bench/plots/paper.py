"""Lines on paper: figures as values, and the one place that draws them, as SVG.

The same figure gives the same bytes, so that a plot in the docs changes only when its data do. The paper is transparent and
all colours are of a middling lightness, so that a plot can be read on a light page and on a dark one. Each line has its own
dashes and marks beside its colour. Texts are texts, in the reader's own font.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.procs import Missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK: Final = "#757575"
COLOURS: Final = (
    "#2f7fd0",
    "#c8601c",
    "#2e9460",
    "#b05ab8",
    "#a88a12",
    "#d24c64",
    "#6f7fae",
    "#8b7355",
    "#1a9aa0",
)
PAGES: Final = ("#ffffff", "#0d1117")  # what plots are looked at on
MOST_POINTS: Final = 400  # of a line; more would not be seen, and make a large file

_DASHES: Final = ("-", "--", "-.", ":")
_MARKS: Final = "osD^vPX<>"
_FINER: Final = re.compile(rb"(\d\.\d\d)\d+")
_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_INCHES: Final = 0.01  # per point of the figure's own size
_SETTINGS: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "waterclock",
    "path.simplify": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Line:
    """`points`: x and y. `own`: it is what the plot is about, and drawn thicker."""

    name: str
    points: Sequence[tuple[float, float]]
    own: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `log_x`, `log_y`: powers of ten. `border`: a level with a name, drawn across."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    marks: bool = True
    border: tuple[float, str] | None = None
    ticks: Sequence[float] = ()


@dataclass(frozen=True)
class Figure:
    """Panels, `columns` beside each other. `note`: where and when the figures were made. Sizes are points of 1/100 inch.

    `shared`: a line of one name means the same in every panel, and one legend says what; else each panel has its own.
    `names`: the order of the lines, where that of their coming will not do.
    """

    title: str
    panels: Sequence[Panel]
    note: str = ""
    columns: int = 1
    width: int = 820
    height: int = 420
    shared: bool = True
    names: Sequence[str] = ()

    @property
    def order(self) -> list[str]:
        """Return the names of all lines, in an order that gives each the same colour in every panel."""
        seen = [line.name for panel in self.panels for line in panel.lines]
        return list(dict.fromkeys([*self.names, *seen]))


def note(machine: Mapping[str, Any], day: str) -> str:
    """Return where and when figures were made, out of what a result says of it."""
    cores = machine.get("cores")
    parts = [day, machine.get("processor"), f"{cores} cores" if cores else None, machine.get("system")]
    return " · ".join(str(part) for part in parts if part)


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """Return at most so many points: the median of each of as many stretches, in x and in y."""
    if len(points) <= most:
        return list(points)
    borders = [round(number * len(points) / most) for number in range(most + 1)]
    stretches = [points[start:end] for start, end in pairwise(borders)]
    return [(median(x for x, _ in part), median(y for _, y in part)) for part in stretches]


def draw(figure: Figure) -> bytes:
    """Return a figure as SVG. Raises Missing without matplotlib."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Paper
    except ImportError:
        raise Missing("matplotlib is not installed: pip install matplotlib (PyPI)") from None
    settings: Any = {**matplotlib.rcParamsDefault, **_SETTINGS, "backend": "svg"}
    with matplotlib.rc_context(settings):
        paper = Paper(figsize=(figure.width * _INCHES, figure.height * _INCHES), layout="constrained")
        FigureCanvasSVG(paper)
        columns = min(figure.columns, len(figure.panels))
        rows = -(-len(figure.panels) // columns)
        places = paper.subplots(rows, columns, squeeze=False)
        order = figure.order
        for number, panel in enumerate(figure.panels):
            place = places[number // columns][number % columns]
            _draw_panel(place, panel, order if figure.shared else [line.name for line in panel.lines])
            if not figure.shared and len(panel.lines) > 1:
                place.legend(fontsize=8)
        for number in range(len(figure.panels), rows * columns):
            places[number // columns][number % columns].set_visible(False)
        paper.suptitle(figure.title, fontsize=13)
        if figure.shared:
            drawn = {line.get_label(): line for place in paper.axes for line in place.get_lines()}
            shown = [drawn[name] for name in order if name in drawn]
            legend = {"title": figure.note, "title_fontsize": 8}
            paper.legend(handles=shown, loc="outside lower center", ncols=min(5, len(shown)), **legend)
        else:
            paper.supxlabel(figure.note, fontsize=8)
        made = io.BytesIO()
        paper.savefig(made, format="svg", metadata={"Date": None, "Creator": None})
    return _clean(made.getvalue())


def save(figure: Figure, path: Path) -> None:
    """Draw a figure into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw(figure))


def _draw_panel(place: Axes, panel: Panel, order: Sequence[str]) -> None:
    for line in panel.lines:
        number = order.index(line.name)
        xs, ys = zip(*thinned(line.points), strict=True) if line.points else ((), ())
        place.plot(
            xs,
            ys,
            label=line.name,
            color=COLOURS[number % len(COLOURS)],
            linestyle="-" if line.own else _DASHES[number % len(_DASHES)],
            linewidth=2.4 if line.own else 1.4,
            marker=_MARKS[number % len(_MARKS)] if panel.marks else "",
            markersize=5,
        )
    if panel.border is not None:
        level, name = panel.border
        place.axhline(level, color=INK, linestyle=(0, (1, 3)), linewidth=1.2)
        place.annotate(name, (0.01, level), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
    place.set_title(panel.title)
    place.set_xlabel(panel.x)
    place.set_ylabel(panel.y)
    _set_scales(place, panel)


def _set_scales(place: Axes, panel: Panel) -> None:
    if panel.log_x:
        place.set_xscale("log")
    if panel.log_y:
        place.set_yscale("log")
        place.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    else:
        place.set_ylim(bottom=0)
        place.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    if panel.ticks:
        place.set_xticks(panel.ticks, [f"{tick:,g}" for tick in panel.ticks])
        place.minorticks_off()


def _clean(drawn: bytes) -> bytes:
    """Leave out the digits that nobody sees, comments, and what stands at the ends of lines."""
    lines = [line.strip() for line in _FINER.sub(rb"\1", _COMMENT.sub(b"", drawn)).splitlines()]
    return b"\n".join([*filter(None, lines), b""])
