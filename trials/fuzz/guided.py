"""Atheris in the place of the engine, where it is installed (`pip install atheris`): branches decide what is new.

Only pure Python is followed, and nothing compiled. libFuzzer ends the process that it runs in, so each target has its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from trials.fuzz.corpus import FOLDER
from trials.fuzz.engine import Failure, Report, signature_of
from trials.fuzz.minimise import minimise
from trials.fuzz.target import Target
from trials.fuzz.workers import Plan

_SECONDS_FOR_ONE: Final = 5
_FOLLOWED: Final = "proxy"

_PROGRAM: Final = """
import sys, atheris
with atheris.instrument_imports(include=[{followed!r}]):
    from trials.fuzz.registry import load
    target = load({name!r})
def one(data):
    target.check(bytes(data))
atheris.Setup(sys.argv, one)
atheris.Fuzz()
"""


def missing() -> str | None:
    """Return why atheris cannot be used here; None where it can."""
    if find_spec("atheris") is None:
        return "atheris is not installed here (pip install atheris); the engine of this folder needs nothing"
    return None


def run_guided(targets: list[Target], plan: Plan, told: Callable[[Report], None]) -> list[Report]:
    """Run the targets one after another."""
    reports = []
    for target in targets:
        reports.append(_run(target, plan))
        told(reports[-1])
    return reports


def _run(target: Target, plan: Plan) -> Report:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        grown = Path(folder) / "grown"
        grown.mkdir()
        options = [
            f"-seed={plan.seed + 1}",  # 0 would draw one
            f"-max_len={target.largest}",
            f"-timeout={_SECONDS_FOR_ONE}",
            f"-artifact_prefix={folder}/",
            f"-runs={plan.runs}"
            if plan.runs is not None
            else f"-max_total_time={max(1, int(plan.seconds or 1))}",
            str(grown),
            str(FOLDER / target.name),
        ]
        program = _PROGRAM.format(followed=_FOLLOWED, name=target.name)
        limit = 3600.0 if plan.seconds is None else plan.seconds + 120
        done = subprocess.run(
            [sys.executable, "-c", program, *options], capture_output=True, timeout=limit, check=False
        )
        kept = len(list((FOLDER / target.name).glob("*")))
        report = Report(target.name, kept=kept, corpus=kept + len(list(grown.iterdir())))
        said = done.stderr.decode("utf-8", "replace")
        report.inputs, report.seconds = _counted(said), plan.seconds or 0.0
        for path in sorted(Path(folder).glob("*-*")):
            if path.is_file():
                report.failures.append(_failure(target, path.read_bytes(), path.name, said))
        if done.returncode and not report.failures:
            report.failures.append(Failure(f"atheris ended with {done.returncode}", b"", said[-2000:]))
        return report


def _failure(target: Target, data: bytes, name: str, said: str) -> Failure:
    signature = signature_of(target, data)
    if signature is None:
        return Failure(f"only under atheris: {name.partition('-')[0]}", data, said[-2000:])
    return Failure(
        signature, minimise(data, lambda part: signature_of(target, part) == signature), said[-2000:]
    )


def _counted(said: str) -> int:
    """Read how many inputs libFuzzer has tried from its last line that tells."""
    counts = [line[1:].split()[0] for line in said.splitlines() if line.startswith("#")]
    return max((int(count) for count in counts if count.isdigit()), default=0)
