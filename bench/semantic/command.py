"""What the semantic cache is worth, and what it costs: `python -m bench semantic`.

Worth is what `pairs` makes of pairs of texts. Cost: the service as a process of its own on one core, with ten thousand
answers in one partition, asked by one client over one connection.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import part, report
from bench.builds import PURE, program
from bench.machine import versions
from bench.percentile import percentile
from bench.procs import HOST, Cores, Failed, Missing, Plan, Running, free_port, pinned, progress, running
from bench.report import MIB
from bench.semantic.pairs import (
    DEVELOPMENT,
    HELD_OUT,
    RECOMMENDED,
    WRITTEN,
    Judged,
    Pair,
    finds,
    judge,
    pairs,
    similarity,
    table,
)
from bench.targets import Floor

if TYPE_CHECKING:
    import aiohttp

RESULTS: Final = report.RESULTS / "semantic.json"

PRECISION: Final = 0.95
ENTRIES: Final = 10_000
P99_MS: Final = 25.0
IDLE_MIB: Final = 160
_ALL: Final = 5
_SPAN_MS: Final = 3_600_000


# -- what it costs ---------------------------------------------------------------------------------------------------


@dataclass
class Cost:
    """Times of single questions over HTTP (ms), by what was asked for, and memory."""

    ready_ms: float = 0.0
    idle_bytes: int = 0
    full_bytes: int = 0
    keep_ms: list[float] = field(default_factory=list)
    found_ms: list[float] = field(default_factory=list)
    missed_ms: list[float] = field(default_factory=list)


def _service(room: Path) -> Plan:
    port = free_port()
    argv = (str(program(PURE)), "cache", "--listen", f"{HOST}:{port}", "--bytes", "1GiB")
    return Plan("cache", argv, port, port, "/readyz", room / "cache.log", room)


def _texts(count: int) -> list[str]:
    """Questions that are all different, of the length that people's are."""
    chance = random.Random(7)
    things = [
        "invoice",
        "parcel",
        "flight",
        "table",
        "server",
        "password",
        "refund",
        "meeting",
        "report",
        "battery",
        "garden",
        "printer",
        "ticket",
        "bridge",
    ]
    verbs = [
        "find",
        "cancel",
        "move",
        "check",
        "repair",
        "compare",
        "translate",
        "explain",
        "order",
        "paint",
        "measure",
        "return",
        "sort",
        "water",
    ]
    places = [
        "Berlin",
        "Oslo",
        "Madrid",
        "Kyoto",
        "Lima",
        "Accra",
        "Quito",
        "Turin",
        "Perth",
        "Leeds",
        "Tunis",
        "Riga",
    ]
    return [
        f"Please {chance.choice(verbs)} the {chance.choice(things)} number {number} "
        f"near the {chance.choice(things)} in {chance.choice(places)}"
        for number in range(count)
    ]


async def _load(cost: Cost, entries: int, questions: int, service: Running) -> None:
    import aiohttp

    from proxy.core.units import HOUR
    from proxy.degrade.cache.entry import Entry, encode

    answer = Entry(
        status=200,
        fields=((b"Content-Type", b"application/json"),),
        body=b"x" * 1_000,
        age=0,
        fresh=HOUR,
        stale=None,
        kept=HOUR,
    )
    entry = base64.b64encode(encode(answer)).decode()
    texts = _texts(entries)
    async with aiohttp.ClientSession(f"http://{HOST}:{service.plan.port}", trust_env=False) as session:
        for text in texts:
            body = {"partition": "p", "text": text, "entry": entry, "keep_ms": _SPAN_MS}
            cost.keep_ms.append(await _ask(session, "/v1/keep", body, None))
        cost.full_bytes = service.rss_bytes()
        for number in range(questions):
            known = texts[number * (entries // questions)]
            same = {"partition": "p", "text": known.removeprefix("Please "), "threshold": RECOMMENDED}
            cost.found_ms.append(await _ask(session, "/v1/find", same, True))
            other = {"partition": "p", "text": f"{known} and {entries + number}", "threshold": RECOMMENDED}
            cost.missed_ms.append(await _ask(session, "/v1/find", other, False))


async def _ask(session: aiohttp.ClientSession, path: str, body: dict[str, Any], found: bool | None) -> float:
    began = time.monotonic()
    async with session.post(path, json=body) as response:
        said = await response.read()
    took = (time.monotonic() - began) * 1000
    if response.status >= 400 or (found is not None and json.loads(said)["found"] is not found):
        raise Failed(f"{path} answered {response.status} to {str(body)[:100]}: {said[:200]!r}")
    return took


def measure(entries: int, questions: int, cores: Cores) -> Cost:
    cost = Cost()
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder,
        pinned(cores.load),
        running(_service(Path(folder)), cores.proxy) as service,
    ):
        time.sleep(1.0)
        cost.ready_ms, cost.idle_bytes = service.ready_ms, service.rss_bytes()
        progress(f"  {entries:,} answers are kept, then {questions:,} questions are asked twice")
        asyncio.run(_load(cost, entries, questions, service))
        service.must_run()
    return cost


def cost_table(cost: Cost, entries: int) -> report.Table:
    rows = [
        [what, f"{len(times):,}", *(f"{percentile(times, share):.2f}" for share in (0.5, 0.99, 1))]
        for what, times in (
            ("keep", cost.keep_ms),
            ("find, found", cost.found_ms),
            ("find, nothing", cost.missed_ms),
        )
    ]
    note = (
        f"Ready {cost.ready_ms:.0f} ms after exec; {cost.idle_bytes / MIB:.0f} MiB then, "
        f"{cost.full_bytes / MIB:.0f} MiB with all of them."
    )
    title = f"{entries:,} answers in one partition, one question at a time"
    return report.Table(title, ["", "requests", "p50 ms", "p99 ms", "max ms"], rows, [note])


# -- all of it -------------------------------------------------------------------------------------------------------


def floors(rows: Sequence[Judged], cost: Cost | None) -> list[Floor]:
    by = {(row.half, row.rule): row for row in rows}
    ours, bare = by[HELD_OUT, f"agreeing, {RECOMMENDED:g}"], by[HELD_OUT, f"similarity alone, {WRITTEN:g}"]
    found = [
        Floor(
            f"precision of at least {PRECISION:.2f} at {RECOMMENDED:g} on the held-out half",
            f"{ours.precision:.3f}",
            ours.precision >= PRECISION,
        ),
        Floor(
            f"better than similarity alone at {WRITTEN:g}: in precision, and in recall",
            f"{ours.precision:.3f} to {bare.precision:.3f}, {ours.recall:.3f} to {bare.recall:.3f}",
            ours.precision > bare.precision and ours.recall > bare.recall,
        ),
    ]
    if cost is not None:
        p99 = percentile(cost.found_ms + cost.missed_ms, 0.99)
        found += [
            Floor(f"a question among {ENTRIES:,} within {P99_MS:g} ms at p99", f"{p99:.2f} ms", p99 < P99_MS),
            Floor(
                f"memory with nothing kept below {IDLE_MIB} MiB",
                f"{cost.idle_bytes / MIB:.0f} MiB",
                cost.idle_bytes < IDLE_MIB * MIB,
            ),
        ]
    return found


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench semantic", description="What the semantic cache is worth, and what it costs."
    )
    parser.add_argument("--short", action="store_true", help="the pairs only, no service is started")
    parser.add_argument(
        "--wrong", action="store_true", help="name the pairs of the development half that are judged wrongly"
    )
    part.add_output(parser, RESULTS)
    return parser.parse_args(argv)


async def _worth(every: Sequence[Pair], wrong: bool) -> list[Judged]:
    try:
        from proxy.semantic.embeddings.local import LocalEmbeddings
        from proxy.semantic.worker import Worker
    except ImportError as gap:
        raise Missing(f"{gap.name} is not installed: pip install 'waterclock[semantic]'") from gap
    embeddings = LocalEmbeddings(Worker())
    if wrong:
        for pair in every:
            if pair.half == DEVELOPMENT and await finds(pair, RECOMMENDED, embeddings) != pair.same:
                alike = await similarity(pair, embeddings)
                progress(
                    f"{pair.id} {alike:.2f} {'same' if pair.same else 'different'}: {pair.asked} | {pair.kept}"
                )
    return await judge(every, embeddings)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    cores, about = part.surroundings()
    every = pairs()
    with part.measuring():
        rows = asyncio.run(_worth(every, arguments.wrong))
        cost = None if arguments.short else measure(ENTRIES, ENTRIES // _ALL, cores)
    kept = floors(rows, cost)
    promised = report.promises("What is promised of the semantic cache", kept)
    costs = [] if cost is None else [cost_table(cost, ENTRIES)]
    whole = {
        "machine": about,
        "versions": versions(),
        "rows": [asdict(row) for row in rows],
        "cost": None if cost is None else asdict(cost),
    }
    shown = [table(rows, every), *costs, promised]
    return part.concluded(arguments, shown, whole, "every time", kept=all(each.met for each in kept))
