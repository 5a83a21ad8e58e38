"""`waterclock demo`: it plays to its end, says no when its claims do not hold, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proxy.demo import story, telling
from proxy.demo.plan import POLICY, VARIANTS
from tests.demo.processes import left_running
from tests.support.waiting import eventually

COMMAND = [sys.executable, "-m", "proxy.cli", "demo"]


def test_it_tells_the_whole_story(folder: Path) -> None:
    """As `make demo` runs it, but into a pipe: everything is told within 80 columns, and every check holds."""
    ended = subprocess.run([*COMMAND, "--keep"], capture_output=True, text=True, timeout=50, check=False)
    told = ended.stdout
    assert (ended.returncode, ended.stderr) == (0, ""), told
    for variant in VARIANTS:
        assert variant.title in told
    assert told.count("complete? no   in time? yes") == 4
    assert told.count("complete? yes   in time? yes") == 1
    assert told.count("complete? yes   in time? no") == 1
    assert told.count("ignored: 3 attempts to lengthen it") == 1
    assert "of each of the 4 budgets the ledger says: complete; on_time" in told
    assert "too-much: incomplete; on_time" in told
    assert re.search(r"4 GET /do/cleanup +0\.\d+ .*│ completed", told)
    assert "budget_remaining" in told
    assert "below_min_start" in told
    assert "unresolved_write" in told
    assert "1 order arrived, 1 was committed" in told
    assert "the ledger has the job as incomplete; on_time, with 1 write in doubt" in " ".join(told.split())
    assert 'body:           {"order": 1}' in told
    assert "checks hold" in told
    (kept,) = folder.iterdir()
    told, _, place = told.rpartition("Kept in ")
    assert place.startswith(str(kept))
    assert max(map(len, told.splitlines())) <= 80
    assert {"waterclock.yaml", "steps.jsonl", "journal.db"} <= {each.name for each in kept.iterdir()}
    assert left_running(folder) == []


def test_a_claim_that_does_not_hold_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a sidecar that only observes, nothing is cut and the write is done twice: the demo says so, and fails."""
    monkeypatch.setattr(story, "POLICY", f"mode: observe\n{POLICY}")
    monkeypatch.setattr(story, "VARIANTS", VARIANTS[:1])
    assert story.play(keep=False) == telling.OFF
    told = " ".join(capsys.readouterr().out.split())
    assert "checks do not hold" in told
    assert "Too much for one budget: C: its outcome is 'completed', and should be 'deadline_exceeded'" in told
    assert "Too much for one budget: complete is True, and should be False" in told
    assert "Orders that the tool has committed is 2, and should be 1" in told
    assert "Try next" not in told
    assert list(folder.iterdir()) == []


def test_a_sidecar_that_does_not_start_is_quoted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the sidecar complains of is passed on, and the status is another one than that of a broken claim."""
    monkeypatch.setattr(story, "POLICY", f"modus: enforce\n{POLICY}")
    assert story.play(keep=False) == telling.UNABLE
    assert "modus" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_stopped(folder: Path, number: signal.Signals) -> None:
    """Stopped half-way, it takes its sidecar and its folder with it."""
    process = subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        eventually(lambda: any(log.stat().st_size for log in folder.glob("*/steps.jsonl")), what="a sidecar")
        time.sleep(0.5)
        process.send_signal(number)
        _, complaints = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert complaints == "Stopped. Nothing of it is left running.\n"
    assert list(folder.iterdir()) == []
    assert left_running(folder) == []
