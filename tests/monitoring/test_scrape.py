"""A real sidecar has every series that is looked at, and a real Prometheus can be asked all that the dashboards ask."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.busy import busy
from tests.monitoring.monitored import (
    ALERTS,
    RECORDED,
    RULES,
    RULES_FILE,
    dashboards,
    filled,
    names_in,
    queries_of,
)
from tests.monitoring.promtool import needs_promtool, promtool
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.timeout(180)

OF_SIDECARS = queries_of(dashboards()["waterclock.json"])
ONLY_WHEN_OBSERVING = "waterclock_step_would_total"


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with busy() as sidecar:
        yield sidecar


@needs_promtool
def test_linter_has_nothing_to_say(sidecar: Sidecar) -> None:
    """`promtool check metrics` over what a real one shows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{sidecar.metrics}/metrics", timeout=PATIENCE) as response:
        assert promtool("check", "metrics", text=response.read().decode()) == ""


def test_every_series_that_is_looked_at_is_there(sidecar: Sidecar) -> None:
    """What rules and the dashboard ask for has a value once it has happened."""
    asked = {name for rule in RULES for name in names_in(rule["expr"])} - set(RECORDED)
    asked |= {name for query in OF_SIDECARS for name in names_in(query.expression)}
    of_sidecars = {name for name in asked if not name.startswith("waterclock_injector_")}
    shown = {name.partition("{")[0] for name in sidecar.samples()}
    assert of_sidecars - shown == {ONLY_WHEN_OBSERVING}


class Prometheus:
    """A Prometheus that scrapes one sidecar once a second, with the chart's rules."""

    def __init__(self, sidecar: Sidecar, folder: Path) -> None:
        target = {
            "targets": [f"127.0.0.1:{sidecar.metrics}"],
            "labels": {"namespace": "jobs", "pod": "job-1"},
        }
        document = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES_FILE)],
            "scrape_configs": [{"job_name": "sidecars", "static_configs": [target]}],
        }
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(document))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api/v1"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ]
        )

    def ask(self, path: str, **asked: str) -> Any:
        """What the HTTP API says; None while it is not there."""
        try:
            with urllib.request.urlopen(
                f"{self.url}/{path}?{urllib.parse.urlencode(asked)}", timeout=PATIENCE
            ) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                if error.status == 503:  # it is still starting
                    return None
                raise AssertionError(f"{asked}: {error.read().decode()}") from error
        except OSError:
            return None

    def values(self, expression: str) -> list[dict[str, Any]]:
        """What an expression is now."""
        answer = self.ask("query", query=expression)
        return answer["result"] if answer else []


@pytest.fixture(scope="module")
def prometheus(sidecar: Sidecar, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("needs prometheus (Debian package prometheus)")
    server = Prometheus(sidecar, tmp_path_factory.mktemp("prometheus"))
    try:
        enough = "count_over_time(waterclock_build_info[1m]) >= 4"
        eventually(lambda: server.values(enough), within=60, what="four scrapes")
        yield server
    finally:
        server.process.terminate()
        server.process.wait(PATIENCE)


def test_panels_show_something(prometheus: Prometheus) -> None:
    """Each query of the dashboard is answered, with something to show where there is something."""
    empty = {
        query.place for query in OF_SIDECARS if not prometheus.values(filled(query.expression, window="30s"))
    }
    # Whether something on this machine goes past this sidecar is not this test's business.
    assert empty - {"Connections past the sidecar, by pod A"} == {
        "What enforcing would do A",
        "Pods whose last policy was refused A",
    }


def test_rules_are_evaluated(prometheus: Prometheus) -> None:
    """All of them, without an error; and what is in doubt here is about to be said."""

    def evaluated() -> list[dict[str, Any]]:
        groups = (prometheus.ask("rules") or {"groups": []})["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if rules and all(rule["health"] != "unknown" for rule in rules) else []

    rules = eventually(evaluated, what="every rule evaluated")
    assert len(rules) == len(RULES)
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"} == {}
    state = {rule["name"]: rule["state"] for rule in rules if rule["name"] in ALERTS}
    assert {name for name, at in state.items() if at != "inactive"} == {
        "WaterclockUncertainWrites",
        "WaterclockDeadLetters",
    }
    assert set(state.values()) == {"inactive", "pending"}
    for record in RECORDED:
        assert prometheus.values(record), record
