"""A run that is interrupted takes its processes and its folder with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN = 30.0


def about(folder: Path) -> list[str]:
    """The commands that name this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{folder}/" in command:
                found.append(command)
    return found


def wait_for(what: str, folder: Path, run: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WITHIN
    while not any(what in command for command in about(folder)):
        assert run.poll() is None, f"ended with {run.returncode}"
        assert time.monotonic() < end, f"no {what} within {WITHIN:.0f} s"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("part", "number"),
    [("throughput", signal.SIGTERM), ("added", signal.SIGINT)],
    ids=["throughput", "added"],
)
def test_nothing_is_left(part: str, number: signal.Signals, tmp_path: Path) -> None:
    """Whether by the keyboard or by a supervisor, as soon as a proxy is up."""
    if not shutil.which("nginx") or not shutil.which("wrk"):
        pytest.skip("it takes nginx and wrk (Debian)")
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "bench",
            part,
            "--peers",
            "waterclock",
            "--json",
            str(tmp_path / "found.json"),
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for("waterclock.yaml", tmp_path, run)
        run.send_signal(number)
        assert run.wait(WITHIN) == 128 + number
    finally:
        run.kill()
        run.wait()
    assert about(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
