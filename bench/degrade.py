"""What a ladder is worth when a model becomes slow, and what an answer from the cache costs.

`python -m bench degrade`. `degrade_jobs` are the jobs, `hits` the question that is put again and again, and
`degrade_figures` what is made of both. README.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from bench import hits, report
from bench.builds import PURE, interpreter
from bench.degrade_figures import AUTO, WITHOUT, WRITTEN, Found, floors, summary, tables
from bench.degrade_jobs import Asked, Load, Others, play
from bench.machine import machine, versions, warnings
from bench.peers.base import room_for
from bench.procs import HOST, Cores, Failed, Missing, Plan, free_port, pinned, progress, running

RESULTS: Final = Path(__file__).parent / "results" / "degrade.json"
PARTS: Final = ("all", "jobs", "hits")


def _setting(default: int, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Setting:
    """Times are milliseconds, but for `seconds`."""

    seconds: int = _setting(15, "for how long jobs come as usual, and then with a slow model")
    rate: int = _setting(12, "jobs a second of each variant")
    budget: int = _setting(1_600, "ms that a job has")
    factor: int = _setting(4, "by how much the model becomes slower")
    full: int = _setting(500, "ms that the large model takes as usual")
    fast: int = _setting(200, "ms that the fast one takes")
    minimal: int = _setting(60, "ms that the small one takes")
    spread: int = _setting(25, "deviation of the logarithm of these times, in hundredths")
    questions: int = _setting(50, "how many different ones there are")
    hits: int = _setting(5_000, "exact hits on each server")
    seed: int = _setting(1, "of the arrivals, questions and times")

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
listen: {{outbound: {host}:{outbound}, control: {host}:{control}, metrics: {host}:{metrics}}}
journal: {{path: {journal}}}
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
    program = interpreter(PURE).with_name("waterclock")
    if not program.is_file():
        raise Missing("waterclock is not installed: pip install -e . in this checkout")
    room = room_for(parent, variant)
    ports: set[int] = set()
    while len(ports) < 3:
        ports.add(free_port())
    outbound, control, metrics = ports
    holes = {"search": others.search.url, "big": others.big.url, "small": others.small.url}
    text = _POLICY if variant == WITHOUT else _POLICY + _LADDER
    config = room / "waterclock.yaml"
    config.write_text(
        text.format(
            host=HOST,
            outbound=outbound,
            control=control,
            metrics=metrics,
            journal=room / "journal.db",
            budget=load.budget,
            **holes,
            **_NEEDS.get(variant, {}),
        )
    )
    argv = (str(program), "run", "-c", str(config))
    return Plan("waterclock", argv, outbound, metrics, "/readyz", room / "steps.log", room)


def measure(setting: Setting, part: str, cores: Cores) -> Found:
    found = Found(setting.load)
    with tempfile.TemporaryDirectory(prefix="waterclock-degrade-") as folder, pinned(cores.load):
        if part in ("all", "jobs"):
            progress("jobs and a model that becomes slow")
            found.jobs = asyncio.run(_slow_down(setting, Path(folder), cores))
        if part in ("all", "hits"):
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
    for each in fields(Setting):
        assert each.default is not MISSING
        default = f"{each.default}, short {SHORT[each.name]}" if each.name in SHORT else f"{each.default}"
        parser.add_argument(
            f"--{each.name}", type=int, metavar="N", help=f"{each.metadata['help']} ({default})"
        )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="end with status 1 when a promise is missed")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    given = {each.name: getattr(arguments, each.name) for each in fields(Setting)}
    setting = Setting(
        **{**(SHORT if arguments.short else {}), **{k: v for k, v in given.items() if v is not None}}
    )
    cores = Cores.choose()
    about = machine(cores)
    for warning in warnings(cores):
        progress(f"note: {warning}")
    try:
        found = measure(setting, arguments.part, cores)
    except (Missing, Failed, OSError) as fault:
        progress(f"stopped: {fault}")
        return 2
    except KeyboardInterrupt:
        return 130
    kept = list(floors(found))
    rows = [["met" if each.met else "MISSED", each.promise, each.measured or "–"] for each in kept]
    promises = report.Table("What is promised of a ladder and its cache", ["", "promise", "measured"], rows)
    for each in (*tables(found), promises):
        if arguments.markdown:
            print(report.as_markdown(each), end="\n\n")
        else:
            report.show(each)
    whole = {"machine": about, "versions": versions(), "setting": asdict(setting)} | summary(found)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(whole, indent=1) + "\n")
    progress(f"every job and hit: {arguments.json}")
    return 1 if arguments.check and not all(each.met for each in kept) else 0
