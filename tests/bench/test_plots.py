"""Plots: the same bytes for the same data, and readable on a light page and on a dark one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.growth.figures import Point
from bench.plots import command as plots
from bench.plots.paper import COLOURS, INK, PAGES, Figure, Line, Panel, draw, note, thinned

pytest.importorskip("matplotlib")

LINES = (
    Line("waterclock", [(1, 10.0), (10, 20.0), (100, 15.0)], own=True),
    Line("envoy", [(1, 5.0), (100, 9.0)]),
)
FIGURE = Figure(
    "Growth",
    [Panel("all", "connections", "requests/s", LINES, log_x=True, ticks=[1, 10, 100])],
    "2026 · a machine",
)


def luminance(colour: str) -> float:
    """Of `#rrggbb`, as WCAG 2.2 defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", PAGES)
def test_colours_are_told_from_the_page(page: str) -> None:
    """3:1 is what WCAG 2.2 asks of graphics (1.4.11); texts have more."""
    assert contrast(INK, page) > 4
    assert all(contrast(colour, page) >= 3 for colour in COLOURS)


def test_the_same_data_give_the_same_bytes() -> None:
    drawn = draw(FIGURE)
    assert drawn == draw(FIGURE)
    assert drawn != draw(Figure("Growth", FIGURE.panels, "2027 · a machine"))


def test_texts_are_texts() -> None:
    """They can be searched, are read aloud, and take no room as curves."""
    drawn = draw(FIGURE).decode()
    for text in ("Growth", "connections", "requests/s", "waterclock", "envoy", "2026 · a machine"):
        assert f">{text}</text>" in drawn
    assert '<path id="DejaVu' not in drawn


def test_plots_say_nothing_of_when_and_where_they_were_drawn() -> None:
    drawn = draw(FIGURE).decode()
    assert "<dc:date>" not in drawn
    assert "Matplotlib" not in drawn


def test_the_paper_is_transparent() -> None:
    assert "fill: #ffffff" not in draw(FIGURE).decode()


def test_a_line_has_one_colour_in_all_panels() -> None:
    """Also where it is missing in one of them."""
    both = Figure("x", [Panel("a", "", "", LINES), Panel("b", "", "", LINES[1:])])
    assert both.order == ["waterclock", "envoy"]
    drawn = draw(both).decode()
    assert COLOURS[2] not in drawn
    assert drawn.count(f"stroke: {COLOURS[1]}") >= 2


def test_many_points_become_medians() -> None:
    points = [(float(number), float(number % 2)) for number in range(1000)]
    points[500] = (500.0, 1e9)
    few = thinned(points, 100)
    assert len(few) == 100
    assert max(y for _, y in few) <= 1
    assert [x for x, _ in few] == sorted(x for x, _ in few)
    assert thinned(points[:3], 100) == points[:3]


def test_a_note_has_what_is_known_of_the_machine() -> None:
    assert (
        note({"processor": "one", "cores": 2, "system": "Linux 6"}, "2026-11-30")
        == "2026-11-30 · one · 2 cores · Linux 6"
    )
    assert note({}, "2026-11-30") == "2026-11-30"


def _results(root: Path) -> Path:
    file = root / "bench" / "results" / "growth.json"
    file.parent.mkdir(parents=True)
    points = [
        vars(Point("waterclock", count, 1.0, 100 * count, idle_bytes=40 << 20, peak_bytes=50 << 20))
        for count in (1, 10)
    ]
    about = {
        "machine": {"processor": "one"},
        "day": "2026-11-30",
        "sidecars": ["waterclock"],
        "points": points,
    }
    file.write_text(json.dumps(about))
    return file


def test_plots_are_drawn_from_what_was_measured_before(tmp_path: Path) -> None:
    """Those whose results are there; the others are left out."""
    _results(tmp_path)
    drawn = plots.redraw(tmp_path, tmp_path / "docs")
    assert [path.name for path in drawn] == ["growth-requests.svg", "growth-memory.svg"]
    first = [path.read_bytes() for path in drawn]
    assert [path.read_bytes() for path in plots.redraw(tmp_path, tmp_path / "docs")] == first


def test_a_result_of_another_version_is_named(tmp_path: Path) -> None:
    _results(tmp_path).write_text("{}")
    with pytest.raises(
        ValueError, match=r"growth.json is no result of this version .* python -m bench growth"
    ):
        plots.redraw(tmp_path, tmp_path / "docs")
