"""What one call costs in Python alone, without sockets: its CPU time, and counts that do not depend on the machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.builds import BUILDS, interpreter
from bench.procs import Cores, Failed, Missing, pinned, progress

_PROGRAM: Final = Path(__file__).with_name("one_call.py")


@dataclass(frozen=True)
class HotPath:
    """One kind of call on one build. `us` has a figure for each round, the rest is of one call."""

    name: str
    kind: str
    us: list[float]
    functions: int
    instructions: int
    garbage: float
    leaked: float
    peak_bytes: int
    compiled_modules: int

    @property
    def best(self) -> float:
        """The round that was disturbed the least."""
        return min(self.us)

    @property
    def typical(self) -> float:
        return median(self.us)


def measure(builds: Sequence[str], rounds: int, calls: int, cores: Cores) -> list[HotPath]:
    found = []
    for name in builds:
        try:
            python = interpreter(name)
        except Missing as gap:
            progress(f"left out: {gap}")
            continue
        progress(f"  {name}: {rounds} rounds of {calls} calls")
        found += _one(name, python, rounds, calls, cores)
    return found


def chosen(names: str | None) -> list[str]:
    wanted = [name.strip() for name in names.split(",")] if names else list(BUILDS)
    return [build for build in BUILDS if build in wanted]


def _one(name: str, python: Path, rounds: int, calls: int, cores: Cores) -> list[HotPath]:
    # -P keeps this folder off the import path, so that `proxy` is what that interpreter has installed.
    command = (python, "-P", _PROGRAM, str(rounds), str(calls))
    with pinned(cores.proxy):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Failed(f"{_PROGRAM.name} ended with {done.returncode} on {name}\n{done.stderr[-1500:]}")
    return [HotPath(name, **json.loads(line)) for line in done.stdout.splitlines()]
