"""Tuning by what a real sidecar tells: its log, its control API and its metrics agree on what stages have used."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.behaviours import answer, stall
from tests.support.callers import call
from tests.support.sidecar import PROGRAM, Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

JOBS = 6
POLICY = """
budget:
  default: 2s
  reserve: 200ms
  carry: true
  stages: {search: 300ms, llm: 500ms}
routes:
  - {name: search, match: {path: /search}, stage: search}
  - {name: llm, match: {path: /llm}, stage: llm, effect: read}
"""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """It has seen six jobs: in each a search, and a model that is cut in one of them."""
    with Sidecar(POLICY) as running, Upstream(answer(after=0.1)) as upstream:
        for number in range(JOBS):
            job = {"Budget-Id": f"run-{number}", "Budget-Remaining-Ms": 2000}
            assert call(running, "GET", upstream.url("/search"), headers=job).status == 200
            if number == 0:
                upstream.on("/llm", stall())
            expected = 504 if number == 0 else 200
            assert call(running, "GET", upstream.url("/llm"), headers=job).status == expected
            upstream.on("/llm", answer(after=0.2))
            running.ask(f"/budgets/run-{number}/close", {})
        eventually(lambda: len(running.records) >= 2 * JOBS, what="all steps are in the log")
        yield running


def tuned(sidecar: Sidecar, *words: str | Path) -> dict[str, Any]:
    """What the command finds, with half a dozen samples being enough."""
    ended = subprocess.run(
        [PROGRAM, "tune", "-c", sidecar.config, "--json", "--samples", "5", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def about(found: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(stage["stage"], stage["samples"], stage["cut"]) for stage in found["stages"]]


def test_the_log_and_the_control_api_tell_the_same(sidecar: Sidecar, tmp_path: Path) -> None:
    """Of each stage six jobs, of which one was cut; and the shares that are proposed add up."""
    log = tmp_path / "sidecar.log"
    log.write_text("".join(json.dumps(record) + "\n" for record in sidecar.records))
    by_log = tuned(sidecar, log)
    by_control = tuned(sidecar, "--control", f"http://127.0.0.1:{sidecar.control}")
    assert about(by_log) == about(by_control) == [("search", JOBS, 0), ("llm", JOBS, 1)]
    assert by_log["stages"] == by_control["stages"]
    assert by_control["notes"] == []
    assert sum(share["after_ms"] for share in by_log["proposal"]["shares"]) == 1800
    assert by_log["proposal"]["shares"][1]["cut_before"]["most"] == pytest.approx(1 / JOBS)


def test_what_was_carried_is_in_the_records(sidecar: Sidecar) -> None:
    """Search took some 100 of its 300 ms: the model was allowed the rest beside its own 500, and cut after both."""
    [cut] = [record for record in sidecar.records if record["outcome"] == "deadline_exceeded"]
    search = next(
        record for record in sidecar.records if record["budget_id"] == "run-0" and record["stage"] == "search"
    )
    assert cut["reason"] == "stage_share"
    assert 100 < cut["carried_ms"] < 200.5
    assert cut["allowed_ms"] == pytest.approx(500 + cut["carried_ms"], abs=0.002)
    assert cut["carried_ms"] == pytest.approx(300 - search["elapsed_ms"], abs=5)
    assert search["carried_ms"] is None
    record = sidecar.ask("/budgets/run-0")
    first, second = record["stages"]
    assert (first["carried_in_ms"], second["left_ms"]) == (0, 0)
    assert second["carried_in_ms"] == pytest.approx(cut["carried_ms"], abs=5)
    words = (PROGRAM, "budgets", "run-0", "-c", sidecar.config)
    shown = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
    assert re.search(r"llm 0\.\d+ of 0\.5 s \(\+ 0\.\d+\s+s\s+carried\s+in\)", shown)


def test_the_metrics_count_the_same_jobs(sidecar: Sidecar) -> None:
    """One sample of each stage of each finished job; the cut one has used more than its own share."""
    samples = sidecar.samples()
    assert samples['waterclock_stage_used_ratio_count{stage="search"}'] == JOBS
    assert samples['waterclock_stage_used_ratio_count{stage="llm"}'] == JOBS
    assert samples['waterclock_stage_used_ratio_bucket{le="1.0",stage="llm"}'] == JOBS - 1
    assert samples['waterclock_stage_cuts_total{stage="llm"}'] == 1
