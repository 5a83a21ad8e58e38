"""Driving wrk: one thread, the same absolute-form requests to every proxy."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.comparison.scenarios import Scenario
from bench.procs import HOST, Failed, find, pinned

MOST_REQUESTS: Final = 2_000_000
_SCRIPT: Final = Path(__file__).with_name("load.lua")


@dataclass(frozen=True)
class Burst:
    """What one run of wrk saw. `refused` are answers of 400 and up, `broken` are socket errors and timeouts."""

    requests: int
    seconds: float
    p50_us: int
    p99_us: int
    p999_us: int
    refused: int
    broken: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def errors(self) -> int:
        return self.refused + self.broken


def burst(scenario: Scenario, port: int, upstream: int, run: str, seconds: int, core: int | None) -> Burst:
    """Loads `port` for some seconds. `run` goes into the bodies, so that no two runs send the same write."""
    command = _command(scenario, port, upstream, run, seconds)
    try:
        with pinned(core):
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"wrk did not end within {seconds + 30} s") from None
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result = Burst(**json.loads(line.removeprefix("RESULT ")))
            if result.requests >= MOST_REQUESTS:
                raise Failed(f"wrk made all of its {MOST_REQUESTS} requests: no rate to tell")
            return result
    raise Failed(f"wrk ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _command(scenario: Scenario, port: int, upstream: int, run: str, seconds: int) -> tuple[str, ...]:
    return (
        find("wrk", "apt install wrk (Debian)"),
        "-t1",
        f"-c{scenario.connections}",
        f"-d{seconds}s",
        "--timeout",
        f"{scenario.patience}s",
        "-s",
        str(_SCRIPT),
        f"http://{HOST}:{port}{scenario.path}",
        "--",
        f"{HOST}:{upstream}",
        scenario.method,
        scenario.path,
        run,
        str(MOST_REQUESTS),
        str(scenario.body_bytes),
        "keep" if scenario.keep else "close",
    )
