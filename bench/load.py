"""Driving wrk: one thread, 16 kept connections, the same absolute-form requests to every proxy."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from bench.procs import HOST, Failed, find, pinned
from bench.upstream import LARGE, SMALL

CONNECTIONS: Final = 16
MOST_REQUESTS: Final = 2_000_000
_SCRIPT: Final = Path(__file__).with_name("load.lua")


@dataclass(frozen=True)
class Scenario:
    key: str
    title: str
    method: str
    path: str
    answer_bytes: int


SMALL_GET: Final = Scenario("get", "GET, 100-byte answer", "GET", "/small", len(SMALL))
POST: Final = Scenario("post", "POST, 200-byte JSON body, each one different", "POST", "/orders", len(SMALL))
LARGE_GET: Final = Scenario("large", "GET, 64 KiB answer", "GET", "/large", LARGE)


@dataclass(frozen=True)
class Burst:
    """What one run of wrk saw. `refused` are answers of 400 and up, `broken` are socket errors and timeouts."""

    requests: int
    seconds: float
    p50_us: int
    p99_us: int
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
    arguments = (f"{HOST}:{upstream}", scenario.method, scenario.path, run, str(MOST_REQUESTS))
    wrk = (
        find("wrk", "apt install wrk (Debian)"),
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{seconds}s",
        "--timeout",
        "5s",
    )
    command = (*wrk, "-s", str(_SCRIPT), f"http://{HOST}:{port}{scenario.path}", "--", *arguments)
    try:
        with pinned(core):
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"wrk did not end within {seconds + 30} s") from None
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result = Burst(**json.loads(line.removeprefix("RESULT ")))
            if not 0 < result.requests < MOST_REQUESTS:
                raise Failed(
                    f"wrk made {result.requests} requests, of {MOST_REQUESTS} at most: no rate to tell"
                )
            return result
    raise Failed(f"wrk ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def verify(scenario: Scenario, port: int, upstream: int) -> None:
    """One request of the same form, its answer looked at: a proxy that does less than relay it must not be measured."""
    link = HTTPConnection(HOST, port, timeout=5)
    body = '{"run":"verify"}' if scenario.method == "POST" else None
    headers = {
        "Budget-Remaining-Ms": "30000",
        "Host": f"{HOST}:{upstream}",
        "Content-Type": "application/json",
    }
    link.request(scenario.method, f"http://{HOST}:{upstream}{scenario.path}", body=body, headers=headers)
    answer = link.getresponse()
    size = len(answer.read())
    link.close()
    if answer.status != 200 or size != scenario.answer_bytes:
        got = f"status {answer.status} and {size} bytes"
        raise Failed(f"{scenario.method} {scenario.path}: {got}; expected 200 and {scenario.answer_bytes}")
