"""`waterclock demo-degrade`: it plays to its end, says no when its claims do not hold, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from proxy.demo import telling
from proxy.demo.degrade import plan, service, story
from proxy.demo.degrade.plan import CASES, WORDINGS
from tests.demo.processes import left_running

COMMAND = [sys.executable, "-m", "proxy.cli", "demo-degrade"]
needs_the_cache = pytest.mark.skipif(find_spec("usearch") is None, reason="usearch is not installed")


@needs_the_cache
def test_it_tells_the_whole_story(folder: Path) -> None:
    """As `make demo-degrade` runs it, but into a pipe: all is told within 80 columns, and every check holds."""
    ended = subprocess.run([*COMMAND, "--keep"], capture_output=True, text=True, timeout=50, check=False)
    told = ended.stdout
    assert (ended.returncode, ended.stderr) == (0, ""), told
    for case in (*CASES, *WORDINGS):
        assert f"{case.title}: {case.budget:,} ms" in told
    assert "the SDK raised: nothing" in told
    assert plan.MARK in told
    assert "Cache-Status: waterclock; hit" in told
    assert "level=4; rung=sorry; stage=llm; reason=time" in told
    assert "checks hold" in told
    (kept,) = folder.iterdir()
    told, _, place = told.rpartition("Kept in ")
    assert place.startswith(str(kept))
    assert max(map(len, told.splitlines())) <= 80
    assert {"waterclock.yaml", "steps.jsonl", "journal.db"} <= {each.name for each in kept.iterdir()}
    assert left_running(folder) == []


@needs_the_cache
def test_it_can_do_without_local_embeddings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then the demo's own model is asked for them, and that is said."""
    monkeypatch.setattr(service, "find_spec", lambda _: None)
    assert story.play(keep=False) == telling.ALL_WELL, capsys.readouterr().out
    assert "the package wordllama is not installed" in " ".join(capsys.readouterr().out.split())
    assert list(folder.iterdir()) == []


@needs_the_cache
def test_a_claim_that_does_not_hold_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a sidecar that only observes, nothing is less than asked, and everything takes as long as it takes."""
    monkeypatch.setattr(story, "POLICY", f"mode: observe\n{plan.POLICY}")
    monkeypatch.setattr(story, "CASES", CASES[:2])
    monkeypatch.setattr(story, "WORDINGS", ())
    assert story.play(keep=False) == telling.OFF
    told = " ".join(capsys.readouterr().out.split())
    assert "checks do not hold" in told
    assert "Less: its rung is" in told
    assert "The stream: why it ended, by the SDK is 'stop', and should be 'length'" in told
    assert "Try next" not in told
    assert list(folder.iterdir()) == []


def test_a_service_that_does_not_start_is_quoted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it complains of is passed on, and the status is another one than that of a broken claim."""
    monkeypatch.setattr(service, "COMMAND", (sys.executable, "-c", "raise SystemExit('no room')"))
    assert story.play(keep=False) == telling.UNABLE
    assert "no room" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_a_missing_sdk_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do about it, before anything is started."""
    monkeypatch.setitem(sys.modules, "openai", None)
    assert story.play(keep=False) == telling.UNABLE
    told = " ".join(capsys.readouterr().out.split())
    assert "pip install openai" in told
    assert "Time enough" not in told
    assert left_running(folder) == []
