"""docs/metrics.md says what the table of families does, and its alerts fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from proxy.core import retries
from proxy.core.retries import NOT_ASKED, Again
from proxy.core.verification import Found
from proxy.observe import families
from proxy.observe.families import Type

REFERENCE = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
FAMILIES = families.COUNTED | families.WATCHED
TABLE = {
    name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning)
    for name, kind, labels, meaning in re.findall(
        r"^\| `(waterclock_\w+)` \| (\w+) \| (\S.*?) \| (\S.*?) \|$", REFERENCE, re.MULTILINE
    )
}
RULES = REFERENCE.partition("```yaml\n")[2].partition("```")[0]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)"
)

# Series of an hour, a sample a minute. Each alert fires with its own after 40 minutes, and with those of a quiet pod
# none does.
FIRING = {
    "WaterclockRetryAmplification": {
        'waterclock_attempts_total{namespace="jobs",route="orders"}': "0+40x60",
        'waterclock_units_total{namespace="jobs",route="orders"}': "0+10x60",
    },
    "WaterclockJobsIncomplete": {
        'waterclock_budget_completion_ratio_sum{namespace="jobs"}': "0+3x60",
        'waterclock_budget_completion_ratio_count{namespace="jobs"}': "0+4x60",
    },
    "WaterclockUncertainWrites": {'waterclock_uncertain_writes{namespace="jobs",pod="job-1"}': "2x60"},
}
QUIET = {
    'waterclock_attempts_total{namespace="jobs",route="orders"}': "0+11x60",
    'waterclock_units_total{namespace="jobs",route="orders"}': "0+10x60",
    'waterclock_attempts_total{namespace="jobs",route="rare"}': "0 0 3x58",  # three tries at the only call
    'waterclock_units_total{namespace="jobs",route="rare"}': "0 0 1x58",
    'waterclock_budget_completion_ratio_sum{namespace="jobs"}': "0+3.9x60",
    'waterclock_budget_completion_ratio_count{namespace="jobs"}': "0+4x60",
    'waterclock_budget_completion_ratio_sum{namespace="idle"}': "0x60",
    'waterclock_budget_completion_ratio_count{namespace="idle"}': "0x60",
    'waterclock_uncertain_writes{namespace="jobs",pod="job-1"}': "0x29 2x10 0x20",
}
EXPECTED = {
    "WaterclockRetryAmplification": {"namespace": "jobs", "route": "orders"},
    "WaterclockJobsIncomplete": {"namespace": "jobs"},
    "WaterclockUncertainWrites": {"namespace": "jobs", "pod": "job-1"},
}
SUMMARIES = {
    "WaterclockRetryAmplification": "Each unit of work of route orders takes 4.0 attempts.",
    "WaterclockJobsIncomplete": "When their budgets end, jobs have completed 75% of their steps on average.",
    "WaterclockUncertainWrites": "Nobody knows whether 2 writes of pod job-1 have happened.",
}


def test_every_family_is_documented_and_none_else() -> None:
    """A family is added to the table and to the page, or to neither."""
    assert set(TABLE) == set(FAMILIES)


@pytest.mark.parametrize("name", TABLE)
def test_type_and_labels_are_those_of_the_family(name: str) -> None:
    """What a row says of the series is what a scrape shows."""
    kind, labels, _ = TABLE[name]
    family = FAMILIES[name]
    assert kind == family.type
    assert labels == family.labels or family.type is Type.INFO


def test_words_are_those_of_the_decisions() -> None:
    """Why a retry is withheld, and what a question finds, in the words that the code has for it."""
    whys = {said.why for said in vars(retries).values() if isinstance(said, Again)} - {NOT_ASKED.why}
    assert set(re.findall(r"`(\w+)`", TABLE["waterclock_retries_withheld_total"][2])) == whys
    assert set(re.findall(r"`(\w+)`", TABLE["waterclock_verifications_total"][2])) == {*Found}


def test_alerts_ask_for_series_that_there_are() -> None:
    """A name in an alert, or in its words, is one that a scrape shows."""
    shown = set(FAMILIES)
    for name, family in FAMILIES.items():
        if family.type is Type.HISTOGRAM:
            shown |= {f"{name}_sum", f"{name}_count", f"{name}_bucket"}
    asked = set(re.findall(r"waterclock_\w+", RULES))
    assert asked
    assert asked <= shown


@needs_promtool
def test_alerts_are_valid(tmp_path: Path) -> None:
    """`promtool check rules` over what the page shows."""
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    command = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(FIRING)} rules found" in checked.stdout


@needs_promtool
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """`promtool test rules`: each alert fires in its own case, with words that read well, and none in a quiet hour."""
    (tmp_path / "rules.yaml").write_text(RULES)
    said = {rule["alert"]: rule for rule in yaml.safe_load(RULES)["groups"][0]["rules"]}
    assert set(said) == set(FIRING)

    def at_forty(alert: str, series: dict[str, str], *, fires: bool) -> dict[str, object]:
        annotations = {
            "summary": SUMMARIES[alert],
            "description": said[alert]["annotations"]["description"],
        }
        fired = {"exp_labels": {**EXPECTED[alert], "severity": "warning"}, "exp_annotations": annotations}
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "alert_rule_test": [
                {"eval_time": "40m", "alertname": alert, "exp_alerts": [fired] if fires else []}
            ],
        }

    cases = [at_forty(alert, series, fires=True) for alert, series in FIRING.items()]
    cases += [at_forty(alert, QUIET, fires=False) for alert in FIRING]
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": cases}))
    checked = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
