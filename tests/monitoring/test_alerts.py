"""`promtool test rules`: each alert fires when it should, with words that read well, and is silent when it should be.

`cases/` has a file for each alert. Its series have a sample a minute; what an alert says is given without what the rule
itself says word for word. `not_yet`: when it is looked at, and does not fire before it has lasted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.monitored import ALERTS, RULES_FILE
from tests.monitoring.promtool import needs_promtool, promtool

# Everything is text: `0x60`, sixty zeros, is a number to YAML.
CASES = {
    path.stem: yaml.load(path.read_text(), yaml.BaseLoader)
    for path in sorted(Path(__file__).with_name("cases").glob("*.yaml"))
}
HEALTHY = {
    "waterclock_budgets_open": "4x{n}",
    "waterclock_uncertain_writes": "0x{n}",
    "waterclock_dead_letters": "0x{n}",
    "waterclock_journal_healthy": "1x{n}",
    "waterclock_journal_size_bytes": "40960x{n}",
    "waterclock_policy_last_reload_successful": "1x{n}",
    "waterclock_step_records_dropped_total": "0x{n}",
    "waterclock_log_write_errors_total": "0x{n}",
    "waterclock_budget_completion_ratio_sum": "0+4x{n}",
    "waterclock_budget_completion_ratio_count": "0+4x{n}",
    "waterclock_cut_lateness_seconds_count": "0+1x{n}",
    'waterclock_cut_lateness_seconds_bucket;le="0.001"': "0+1x{n}",
    'waterclock_cut_lateness_seconds_bucket;le="+Inf"': "0+1x{n}",
    'waterclock_bypass_connections;reason="unexpected"': "0x{n}",
    'waterclock_budgets_closed_total;complete="true",on_time="true"': "1+4x{n}",
    'waterclock_attempts_total;route="orders"': "10+21x{n}",
    'waterclock_units_total;route="orders"': "10+20x{n}",
    'waterclock_steps_total;route="orders",kind="read",outcome="completed",effect="none"': "10+20x{n}",
    'waterclock_steps_total;route="orders",kind="read",outcome="shed",effect="none"': "1+1x{n}",
    'waterclock_step_sheds_total;route="orders",reason="queue_full"': "1+1x{n}",
    'waterclock_step_refusals_total;route="orders",reason="budget_exhausted"': "1+1x{n}",
    'waterclock_rungs_total;route="orders",rung="full"': "1+19x{n}",
    'waterclock_rungs_total;route="orders",rung="fast"': "1+2x{n}",
    'waterclock_degraded_steps_total;route="orders",rung="fast",reason="time"': "1+2x{n}",
    "waterclock_injector_leader": "1x{n}",
    "waterclock_injector_certificate_expiry_timestamp_seconds": "7776000x{n}",
    "waterclock_injector_policy_last_reload_successful": "1x{n}",
    "waterclock_injector_review_duration_seconds_count": "0+9x{n}",
    'waterclock_injector_review_duration_seconds_bucket;le="0.0025"': "0+9x{n}",
    'waterclock_injector_review_duration_seconds_bucket;le="+Inf"': "0+9x{n}",
    'waterclock_injector_reviews_total;result="injected",reason="Injected"': "1+9x{n}",
    'waterclock_injector_budget_policies;condition="Compiled"': "3x{n}",
    'waterclock_injector_budget_policies;condition="Invalid"': "0x{n}",
    'waterclock_injector_policy_config_maps;state="kept"': "5x{n}",
}
"""A pod in which all is well: its series without the scrape's labels, and a sample a minute for `n` minutes."""


def test_every_alert_has_its_cases() -> None:
    """One file for each alert, in which it fires, and in which it does not."""
    assert set(CASES) == set(ALERTS)
    assert all(found["fires"] and found["silent"] for found in CASES.values())


@needs_promtool
@pytest.mark.parametrize("name", CASES)
def test_alert(name: str, tmp_path: Path) -> None:
    """Its own cases."""
    tests = [_test(name, case, _fired(name, case)) for case in CASES[name]["fires"]]
    tests += [
        _test(name, {**case, "at": case["not_yet"]}, []) for case in CASES[name]["fires"] if "not_yet" in case
    ]
    tests += [_test(name, case, []) for case in CASES[name]["silent"]]
    _judge(tests, tmp_path)


@needs_promtool
def test_nothing_is_no_fault(tmp_path: Path) -> None:
    """A cluster without a single series: nothing runs there, or nothing is scraped."""
    _judge([_silence({"up": "1x120"}, ["1m", "30m", "90m"])], tmp_path)


@needs_promtool
@pytest.mark.parametrize("most", [1, 150])
def test_many_are_no_fault(most: int, tmp_path: Path) -> None:
    """Pods in which all is well, whether they are one or many, come all at once, end, or begin anew with their counters."""
    found: dict[str, str] = {}
    for number in range(most):
        for name, values in HEALTHY.items():
            family, _, labels = name.partition(";")
            placed = ",".join([f'namespace="jobs",pod="job-{number}"', *([labels] if labels else [])])
            early, late = values.format(n=20), values.format(n=40)
            life = [f"{early} {late}", f"_x30 {late}", f"{early} stale"][number % 3]
            found[f"{family}{{{placed}}}"] = life
    _judge([_silence(found, ["10m", "25m", "35m", "45m", "60m"])], tmp_path)


def _test(name: str, case: dict[str, Any], fired: list[dict[str, Any]]) -> dict[str, Any]:
    times = case["at"] if isinstance(case["at"], list) else [case["at"]]
    return {
        "name": case["case"],
        "interval": "1m",
        "input_series": _series(case["series"]),
        "alert_rule_test": [{"eval_time": time, "alertname": name, "exp_alerts": fired} for time in times],
    }


def _silence(series: dict[str, str], times: list[str]) -> dict[str, Any]:
    """A test in which no alert at all fires."""
    return {
        "interval": "1m",
        "input_series": _series(series),
        "alert_rule_test": [{"eval_time": time, "alertname": name} for name in ALERTS for time in times],
    }


def _series(found: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in found.items()]


def _fired(name: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    """What the alert says: the case gives its labels and its summary, the rule the rest."""
    labels, said = case["labels"], dict(ALERTS[name]["annotations"])
    said["description"] = re.sub(
        r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], said["description"]
    )
    said["summary"] = case["summary"]
    return [{"exp_labels": {**labels, **ALERTS[name]["labels"]}, "exp_annotations": said}]


def _judge(tests: list[dict[str, Any]], folder: Path) -> None:
    path = folder / "test.yaml"
    document = {"rule_files": [str(RULES_FILE)], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    promtool("test", "rules", path)
