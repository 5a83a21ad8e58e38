"""The chart's dashboards: Grafana's schema, queries that Prometheus can parse, series and labels that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.monitored import (
    DASHBOARDS,
    dashboards,
    filled,
    labels_in,
    names_in,
    panels,
    queries_of,
    series,
)
from tests.monitoring.promtool import needs_promtool, promtool

BOARDS = dashboards()
UNITS = {"short", "none", "ops", "s", "bytes", "Bps", "percentunit", "dateTimeFromNow", "bool_on_off"}

every_board = pytest.mark.parametrize("name", BOARDS)


def _variables(board: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in board["templating"]["list"]}


def test_there_is_one_for_sidecars_and_one_for_injectors() -> None:
    """And each has an id of its own, by which an imported one is known again."""
    assert [path.name for path in DASHBOARDS] == ["waterclock-injector.json", "waterclock.json"]
    assert {board["uid"] for board in BOARDS.values()} == {"waterclock", "waterclock-injector"}


@every_board
def test_schema(name: str) -> None:
    """What Grafana needs to show it as it was drawn, on any data source."""
    board = BOARDS[name]
    assert board["schemaVersion"] >= 39
    assert "id" not in board, "a number of one Grafana's own"
    assert {"datasource", "namespace", "pod"} <= set(_variables(board))
    assert _variables(board)["datasource"]["query"] == "prometheus"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), f"{panel['title']}: a sentence that says what it means"
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"].get("unit", "none") in UNITS
        assert panel["type"] in ("stat", "timeseries", "table")
        assert panel["targets"]
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))


@every_board
def test_panels_do_not_lie_on_each_other(name: str) -> None:
    """Each has its place on the grid, which is 24 wide."""
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[name]["panels"]:
        at = panel["gridPos"]
        assert 0 <= at["x"] < at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@every_board
def test_queries_ask_for_series_that_there_are(name: str) -> None:
    """Names and labels are those of the families, and no recording rule is taken for granted."""
    known = series()
    board = BOARDS[name]
    for place, expression in queries_of(board):
        asked = names_in(expression)
        assert asked, place
        assert asked <= set(known), place
        assert labels_in(expression) <= {label for one in asked for label in known[one]}, place
        assert set(re.findall(r"\$(\w+)", expression)) <= {
            *_variables(board),
            "__rate_interval",
            "__range",
        }, place


@every_board
def test_choices_ask_for_series_that_there_are(name: str) -> None:
    """The lists at the top of the page."""
    known = series()
    for variable in _variables(BOARDS[name]).values():
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((\w+)(\{.*\})?, (\w+)\)", variable["definition"])
            assert match is not None, variable["name"]
            assert match[3] in known[match[1]]
            assert labels_in(match[2] or "") <= known[match[1]]
            assert variable["query"]["query"] == variable["definition"]


@every_board
def test_legends_name_labels_that_the_query_keeps(name: str) -> None:
    """A legend's label that was summed away would be an empty word."""
    for panel in panels(BOARDS[name]):
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            assert all(named <= set(re.split(r",\s*", words)) for words in kept), panel["title"]
            assert kept or not named, panel["title"]


@every_board
def test_every_route_label_can_be_chosen(name: str) -> None:
    """A query about routes looks at those that were chosen, and every query at the chosen pods."""
    for place, expression in queries_of(BOARDS[name]):
        for selector in re.findall(r"waterclock_\w+(\{[^}]*\})?", expression):
            assert 'namespace=~"$namespace"' in selector, place
            assert 'pod=~"$pod"' in selector, place


@needs_promtool
@every_board
def test_queries_can_be_parsed(name: str, tmp_path: Path) -> None:
    """promtool parses them as the expressions of rules."""
    queries = queries_of(BOARDS[name])
    rules = [
        {"record": f"query:{number}", "expr": filled(query.expression)}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", "--lint=none", path)
