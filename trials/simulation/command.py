"""`python -m trials simulation`: run seeds, or replay one and read its trace."""

from __future__ import annotations

import itertools
import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click

from proxy.core.units import HOUR
from proxy.dataplane import step
from trials.simulation.campaign import Sum, digest_elsewhere, one, prepared, run
from trials.simulation.checks import NAMES
from trials.simulation.kept import kept_seeds
from trials.simulation.shrink import shrunk
from trials.simulation.world import WHOLE, Result, Size, simulate
from trials.span import span

SHORT_SECONDS: Final = 10.0
SHORT_BASE: Final = 2_026
LONG_SECONDS: Final = 60.0
MOST_TOLD: Final = 5
MOST_LINES: Final = 30
MOST_COLUMNS: Final = 200
REPLAYED: Final = 3
"""How many seeds are run again in a process with another hash order; in the short form one."""
ENOUGH_SEEDS: Final = 50
"""In so many seeds each check has had something to look at; one that has not is a fault of the run."""
RESULTS: Final = Path(__file__).resolve().parent.parent / "results" / "simulation.json"
_TELL_EVERY: Final = 2.0


@click.command()
@click.option("--seed", type=int, help="Replay this seed, and nothing else.")
@click.option("--trace", is_flag=True, help="With --seed: print what happened, line by line.")
@click.option("--only", metavar="PATTERN", help="With --trace: only the lines in which this pattern occurs.")
@click.option(
    "--size", metavar="JOBS,MISFORTUNES", help="With --seed: no more than these, as a failure names them."
)
@click.option("--for", "seconds", type=span(), help="Run seeds for so long (60s, 10m). Default: 60s.")
@click.option("--jobs", type=int, help="Run seeds until so many jobs were played.")
@click.option("--base", type=int, help="The seed to begin with. Default: drawn, and printed.")
@click.option("--cores", type=int, help="On so many cores. Default: all.")
@click.option(
    "--short", is_flag=True, help="About 15 seconds from a fixed base, and all seeds that were kept."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default="trials/results/simulation.json",
)
@click.pass_context
def main(ctx: click.Context, /, **options: Any) -> None:
    """The sidecar in deterministic simulation: everything is drawn from one seed, and a failing seed can be replayed.

    Status 0: all held. 1: something did not, and is named with its seed. 2: it could not be run.
    """
    if not str(step.__file__).endswith(".py"):
        raise click.UsageError(
            "The simulation exchanges parts of the sidecar, which a compiled build does not allow; run it with the pure one."
        )
    prepared()
    if options["seed"] is not None:
        ctx.exit(_replay(options["seed"], _size(options["size"]), options["trace"], options["only"]))
    ctx.exit(_campaign(options))


def _replay(seed: int, size: Size, trace: bool, only: str | None) -> int:
    """Run one seed, and print what came of it."""
    result, world = simulate(seed, size, whole=trace)
    if trace:
        pattern = re.compile(only) if only else None
        for entry in world.trace.entries:
            line = str(entry)
            if pattern is None or pattern.search(line):
                click.echo(line)
    for failure in result.failures:
        click.echo(f"FAILED  {failure}")
    click.echo(
        f"seed {seed}: {result.jobs} jobs, {result.calls} calls, {result.processes} processes, "
        f"{result.simulated / 1e9:.0f} simulated seconds, digest {result.digest[:16]}"
    )
    return 1 if result.failures else 0


def _campaign(options: dict[str, Any]) -> int:
    """Run many seeds, and print the sum of it."""
    short, jobs = options["short"], options["jobs"]
    seconds: float = options["seconds"] or (SHORT_SECONDS if short else LONG_SECONDS)
    base = options["base"]
    if base is None:
        base = SHORT_BASE if short else secrets.randbelow(1 << 48)
    click.echo(f"base seed {base}", err=True)
    kept = [seed for seed, _ in kept_seeds()]
    seeds: Iterable[int] = itertools.chain(kept, itertools.count(base))
    ends = time.monotonic() + seconds

    def enough(found: Sum) -> bool:
        if found.seeds < len(kept):
            return False
        return found.jobs >= jobs if jobs is not None else time.monotonic() >= ends

    found = run(seeds, enough, _progress(), options["cores"])
    for seed in range(base, base + (1 if short else REPLAYED)):
        here, elsewhere = one(seed).digest, digest_elsewhere(seed, hash_seed=seed % 1000 + 1)
        found.replayed += 1
        if here != elsewhere:
            found.differ.append(seed)
    _print(found)
    _write(options["json_file"], base, found)
    for failed in found.failed[:MOST_TOLD]:
        _tell(failed)
    for seed in found.differ:
        click.echo(
            f"FAILED  seed {seed} has another digest in another process: something leaks in that is not drawn"
        )
    never = sorted(NAMES - found.exercised.keys()) if found.seeds >= ENOUGH_SEEDS else []
    for name in never:
        click.echo(f"FAILED  {name}: this check had nothing to look at")
    return 1 if found.failed or found.differ or never else 0


def _progress() -> Callable[[Sum], None]:
    told = [time.monotonic()]

    def tell(found: Sum) -> None:
        if time.monotonic() - told[0] >= _TELL_EVERY:
            told[0] = time.monotonic()
            sys.stderr.write(f"\r{found.seeds} seeds, {found.jobs} jobs, {len(found.failed)} failed ")
            sys.stderr.flush()

    return tell


def _print(found: Sum) -> None:
    minutes = max(found.seconds, 1e-9) / 60
    sys.stderr.write("\n")
    rows = {
        "seeds": found.seeds,
        "jobs": found.jobs,
        "calls": found.calls,
        "step records": found.records,
        "lives of the sidecar": found.processes,
        "simulated hours": round(found.simulated / HOUR, 1),
        "jobs a minute": round(found.jobs / minutes),
        "seeds replayed elsewhere": found.replayed,
        "seeds that failed": len(found.failed),
    }
    for name, value in rows.items():
        click.echo(f"{name:<72} {value:>12,}")
    click.echo("")
    for name, count in sorted(found.exercised.items()):
        click.echo(f"{name:<72} {count:>12,}")


def _tell(failed: Result) -> None:
    """Say what did not hold, what happened to whom it is about, and how to see it again."""
    small = shrunk(failed, one)
    click.echo(f"\nFAILED  seed {small.seed} ({small.jobs} jobs)")
    for failure in small.failures:
        click.echo(f"        {failure}")
    for line in _story(small)[-MOST_LINES:]:
        click.echo(f"    {line[:MOST_COLUMNS]}")
    size = small.size
    jobs, misfortunes = size.jobs, size.misfortunes
    named = "" if jobs is None and misfortunes is None else f" --size {_named(jobs)},{_named(misfortunes)}"
    click.echo(f"    again: python -m trials simulation --seed {small.seed}{named} --trace")
    click.echo("    to keep it as a test: a line in tests/trials/seeds.txt, the seed and what it shows")


def _story(failed: Result) -> list[str]:
    """Return what happened to the calls that a failure names; the end of the trace where it names none."""
    _, world = simulate(failed.seed, failed.size, whole=True)
    lines = [str(entry) for entry in world.trace.entries]
    calls = re.findall(r"\bcall (\d+)", failed.failures[0])
    records = re.findall(r"\b[0-9a-f]{8}-[0-9a-f]+\b", failed.failures[0])
    if not (calls or records):
        return lines
    words = [rf"{name}{call}\b" for call in calls for name in ("call ", "Request-Id: ", "Answer-For: ")]
    pattern = re.compile("|".join([*words, *(rf"{record}\b" for record in records)]))
    return [line for line in lines if pattern.search(line) or "fate" in line]


def _named(number: int | None) -> str:
    return "all" if number is None else str(number)


def _size(text: str | None) -> Size:
    if text is None:
        return WHOLE
    match = re.fullmatch(r"(all|\d+),(all|\d+)", text)
    if match is None:
        raise click.UsageError("--size is two numbers, or `all`: as in 3,all")
    jobs, misfortunes = (None if part == "all" else int(part) for part in match.groups())
    return Size(jobs, misfortunes)


def _write(path: Path, base: int, found: Sum) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    minutes = max(found.seconds, 1e-9) / 60
    told = {
        "base": base,
        "seeds": found.seeds,
        "jobs": found.jobs,
        "calls": found.calls,
        "records": found.records,
        "processes": found.processes,
        "simulated_hours": round(found.simulated / HOUR, 2),
        "jobs_per_minute": round(found.jobs / minutes),
        "exercised": dict(sorted(found.exercised.items())),
        "failed": [{"seed": each.seed, "failures": each.failures} for each in found.failed],
        "differ": found.differ,
    }
    path.write_text(json.dumps(told, indent=1) + "\n")
