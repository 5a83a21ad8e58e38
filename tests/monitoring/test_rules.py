"""The chart's rules: valid, each with all that whoever is woken by it needs, about nothing that there is not."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from proxy.cli import main
from tests.monitoring.monitored import (
    ALERTS,
    RECORDED,
    ROOT,
    RULES,
    RULES_FILE,
    labels_in,
    names_in,
    series,
)
from tests.monitoring.promtool import needs_promtool, promtool

RUNBOOK = (ROOT / "docs/alerts.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))

every_alert = pytest.mark.parametrize("name", ALERTS)


@needs_promtool
def test_rules_are_valid() -> None:
    """`promtool check rules`, with its lints."""
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES_FILE)
    assert f"{len(RULES)} rules found" in said


def test_rules_are_plain() -> None:
    """The chart takes the file in as it is; nothing in it may look like a template to Helm that is none to Prometheus."""
    for words in re.findall(r"\{\{(.*?)\}\}", RULES_FILE.read_text()):
        assert re.fullmatch(r" \$(labels\.\w+|value( \| \w+( \"[^\"]*\")?)?) ", words), words


@every_alert
def test_alerts_tell_what_to_do(name: str) -> None:
    """Severity, a summary in a sentence, the next command, and a section of the runbook."""
    alert = ALERTS[name]
    said = alert["annotations"]
    assert re.fullmatch(r"Waterclock[A-Z]\w+", name)
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert set(said) == {"summary", "description", "runbook_url"}
    assert said["summary"].endswith(".")
    assert "\n" not in said["summary"]
    assert re.search(r"\b(kubectl|waterclock) \w+", said["description"]), "the next command"
    assert said["runbook_url"] == f"docs/alerts.md#{name.lower()}"


def test_the_runbook_has_a_section_for_each() -> None:
    """No alert without a section, no section without an alert; each says the four things."""
    assert list(SECTIONS) == list(ALERTS)
    for name, text in SECTIONS.items():
        for question in ("**Means**", "**Look**", "**Causes**", "**Ends**"):
            assert text.count(question) == 1, (name, question)
        assert "```console" in text, name


def test_what_is_said_names_what_there_is() -> None:
    """Families and commands in the runbook and in the alerts' own words."""
    said = RUNBOOK + " ".join(text for alert in ALERTS.values() for text in alert["annotations"].values())
    named = set(re.findall(r"waterclock_\w+", said)) - set(series()) - {"waterclock_"}
    assert {name for name in named if f"{name}_bucket" not in series()} == set()
    commands = set(
        re.findall(
            r"(?:-- |\$ |then |, )waterclock ([a-z-]+)(?: (list|show|resolve|release|discard)\b)?", said
        )
    )
    assert {"uncertain", "dead-letters", "timeline", "check", "inject"} <= {name for name, _ in commands}
    for name, below in commands:
        command = main.get_command(click.Context(main), name)
        assert command is not None, name
        if below:
            assert isinstance(command, click.Group)
            assert below in command.commands


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_ask_for_series_that_there_are(rule: dict[str, Any]) -> None:
    """Names and labels are those of the families, or of what was recorded before."""
    known = series()
    asked = names_in(rule["expr"])
    assert asked
    assert asked <= {*known, *RECORDED}
    recorded_of = {name for record in asked & set(RECORDED) for name in names_in(RECORDED[record]["expr"])}
    possible = {label for name in (asked | recorded_of) & set(known) for label in known[name]}
    assert labels_in(rule["expr"]) <= possible


@every_alert
def test_nothing_depends_on_how_many_there_are(name: str) -> None:
    """No alert counts agents, pods, budgets or calls: many of them are no fault."""
    expression = _whole(ALERTS[name]["expr"])
    assert not re.search(r"\b(count|absent|absent_over_time|count_values)\s*(by\b|without\b|\()", expression)
    load = {
        "waterclock_budgets_open",
        "waterclock_steps_in_flight",
        "waterclock_leases_in_flight",
        "waterclock_client_connections",
    }
    assert not names_in(expression) & {*load, "up"}


def _whole(expression: str) -> str:
    """Return an expression with what it takes from recording rules in their place."""
    for name, rule in RECORDED.items():
        expression = expression.replace(name, f"({rule['expr']})")
    return expression
