"""What a ladder is worth when a model becomes slow, and what an answer from the cache costs.

`python -m bench degrade`. `jobs` are the jobs, `hits` the question that is put again and again, and `figures` what
is made of both. README.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench import part, report
from bench.degrade import hits
from bench.degrade.figures import AUTO, WITHOUT, WRITTEN, Found, floors, summary, tables
from bench.degrade.jobs import Asked, Load, Others, play
from bench.machine import versions
from bench.peers.base import room_for
from bench.peers.waterclock import sidecar_plan
from bench.procs import Cores, Plan, pinned, progress, running
from bench.settings import add_options, number, settings_of

RESULTS: Final = report.RESULTS / "degrade.json"
PARTS: Final = ("all", "jobs", "hits")


@dataclass(frozen=True)
class Setting:
    """Times are milliseconds, but for `seconds`."""

    seconds: int = number(15, "for how long jobs come as usual, and then with a slow model")
    rate: int = number(12, "jobs a second of each variant")
    budget: int = number(1_600, "ms that a job has")
    factor: int = number(4, "by how much the model becomes slower")
    full: int = number(500, "ms that the large model takes as usual")
    fast: int = number(200, "ms that the fast one takes")
    minimal: int = number(60, "ms that the small one takes")
    spread: int = number(25, "deviation of the logarithm of these times, in hundredths")
    questions: int = number(50, "how many different ones there are")
    hits: int = number(5_000, "exact hits on each server")
    seed: int = number(1, "of the arrivals, questions and times")

    @property
    def load(self) -> Load:
        """What the jobs are."""
        return Load(
            seed=self.seed,
            seconds=self.seconds,
            rate=self.rate,
            budget=self.budget,
            factor=self.factor,
            questions=self.questions,
            spread=self.spread / 100,
            full=self.full,
            fast=self.fast,
            minimal=self.minimal,
        )


SHORT: Final = {"seconds": 6, "hits": 1_000}

# The rungs of docs/examples/waterclock.yaml at a fifth of its times.
_NEEDS: Final = {
    WRITTEN: {"full": "1s", "fast": "600ms", "minimal": "300ms"},
    AUTO: {"full": "auto", "fast": "auto", "minimal": "auto"},
}
_POLICY: Final = """\
budget: {{default: {budget}ms, reserve: 100ms}}
routes:
  - {{name: retrieval, prefix: /retrieval, upstream: {search}}}
  - name: chat
    prefix: /chat
    upstream: {big}
    effect: read
"""
_LADDER: Final = """\
    cache: {{ttl: 1h}}
    ladder:
      - {{name: full, needs: {full}}}
      - {{name: fast, needs: {fast}, set: {{json: {{"$.model": gpt-4o-mini, "$.max_tokens": 300}}}}}}
      - {{name: minimal, needs: {minimal}, upstream: {small}, set: {{json: {{"$.model": small}}}}}}
      - {{name: cached, needs: 10ms, cache: {{exact: true}}}}
      - {{name: sorry, answer: {{status: 503, json: {{error: {{type: overloaded, message: Try again in a moment.}}}}}}}}
"""


async def _slow_down(setting: Setting, parent: Path, cores: Cores) -> list[Asked]:
    """The slow-down: all variants at once, on one model."""
    load = setting.load
    others = Others(load)
    async with AsyncExitStack() as stack:
        await others.serve(stack)
        with ExitStack() as sidecars:
            up = {
                variant: sidecars.enter_context(running(_sidecar(variant, load, others, parent), cores.proxy))
                for variant in (WITHOUT, WRITTEN, AUTO)
            }
            found = await play(load, {variant: each.plan.port for variant, each in up.items()}, others)
            for each in up.values():
                each.must_run()
    return found


def _sidecar(variant: str, load: Load, others: Others, parent: Path) -> Plan:
    text = _POLICY if variant == WITHOUT else _POLICY + _LADDER
    holes = {"search": others.search.url, "big": others.big.url, "small": others.small.url}
    policy = text.format(budget=load.budget, **holes, **_NEEDS.get(variant, {}))
    return sidecar_plan(room_for(parent, variant), policy)


def measure(setting: Setting, asked: str, cores: Cores) -> Found:
    found = Found(setting.load)
    with tempfile.TemporaryDirectory(prefix="waterclock-degrade-") as folder, pinned(cores.load):
        if asked in ("all", "jobs"):
            progress("jobs and a model that becomes slow")
            found.jobs = asyncio.run(_slow_down(setting, Path(folder), cores))
        if asked in ("all", "hits"):
            progress("exact hits")
            found.hits, found.answer_bytes = asyncio.run(hits.measure(setting.hits, Path(folder), cores))
    return found


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench degrade",
        description="Jobs and a model that becomes slow, with and without a ladder; and exact hits of the cache.",
    )
    parser.add_argument(
        "part", nargs="?", choices=PARTS, default="all", help="what to measure (default: all)"
    )
    parser.add_argument("--short", action="store_true", help="fewer jobs and hits")
    add_options(parser, Setting, SHORT)
    part.add_output(parser, RESULTS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    setting = settings_of(arguments, Setting, SHORT)
    cores, about = part.surroundings()
    with part.measuring():
        found = measure(setting, arguments.part, cores)
    kept = list(floors(found))
    promised = report.promises("What is promised of a ladder and its cache", kept)
    whole = {"machine": about, "versions": versions(), "setting": asdict(setting)} | summary(found)
    return part.concluded(
        arguments, [*tables(found), promised], whole, "every job and hit", kept=all(each.met for each in kept)
    )
