"""What a review of a pod costs: the injector as a process on one core, before an API server in memory.

`python -m bench webhook`. Reviews come at a steady rate, whether or not those before are answered, over connections
that are kept, as the API server's are. The injector has everything on: TLS, Events, metrics, a line in its log for each.
The API server and the load share the other core.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import part, report
from bench.builds import PURE, program
from bench.machine import versions
from bench.percentile import percentile
from bench.procs import HOST, Cores, Missing, Plan, Running, free_ports, pinned, progress, running
from bench.report import MIB
from bench.targets import Floor

if TYPE_CHECKING:
    import aiohttp

    from tests.kube.fake_cluster import FakeCluster

RESULTS: Final = report.RESULTS / "webhook.json"
RATES: Final = (50, 200, 400)
PROMISED_RATE: Final = 200
P99_MS: Final = 50.0
LOADED_MIB: Final = 120
CONNECTIONS: Final = 16
NAMESPACES: Final = 300
SYSTEM: Final = "waterclock-system"


@dataclass
class Row:
    """Reviews at one rate: how long each took, in ms from when it was due, and what they cost the injector."""

    rate: int
    ms: list[float] = field(default_factory=list)
    failed: int = 0
    busy: float = 0.0
    cpu_ms: float = 0.0
    loaded_bytes: int = 0


@dataclass
class Found:
    ready_ms: float
    idle_bytes: int
    rows: list[Row]


# -- the cluster -----------------------------------------------------------------------------------------------------


def _cluster() -> FakeCluster:
    """A cluster with many namespaces, every tenth of them opted in, and the chart installed."""
    from proxy.kube.cluster import WEBHOOKS
    from tests.kube.fake_cluster import FakeCluster

    cluster = FakeCluster()
    cluster.namespace(SYSTEM)
    for number in range(NAMESPACES):
        labels = {"waterclock.dev/inject": "enabled"} if number % 10 == 0 else {}
        cluster.namespace(f"team-{number}", labels=labels, annotations={"note": "x" * 500})
    service = {"name": "waterclock-injector", "namespace": SYSTEM, "path": "/mutate"}
    webhook = {"name": "namespace.waterclock.dev", "clientConfig": {"service": service}}
    cluster.put(WEBHOOKS, {"metadata": {"name": "waterclock-injector"}, "webhooks": [webhook]})
    return cluster


@contextmanager
def _api_server(room: Path) -> Iterator[tuple[FakeCluster, Path]]:
    """The cluster over HTTP, in a thread of its own; yields it and a kubeconfig."""
    try:
        from tests.kube.api_server import ApiServer, serving
    except ImportError as gap:
        raise Missing(f"{gap.name} is not installed: make test installs it") from gap

    cluster = _cluster()
    up: list[ApiServer] = []
    ready = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        over = asyncio.Event()
        loops.append((asyncio.get_running_loop(), over))
        async with serving(cluster) as server:
            up.append(server)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield cluster, up[0].kubeconfig(room)
    finally:
        loop, over = loops[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


def _injector(room: Path, kubeconfig: Path) -> Plan:
    port, metrics = free_ports(2)
    argv = (str(program(PURE)), "injector", "--kubeconfig", str(kubeconfig), "--port", str(port), "--metrics-port", str(metrics))  # fmt: skip
    return Plan("injector", argv, port, metrics, "/readyz", room / "injector.log", room)


def _trust(cluster: FakeCluster) -> ssl.SSLContext:
    from proxy.kube.cluster import WEBHOOKS

    webhook = cluster.of(WEBHOOKS)[0]["webhooks"][0]
    return ssl.create_default_context(cadata=base64.b64decode(webhook["clientConfig"]["caBundle"]).decode())


# -- the load --------------------------------------------------------------------------------------------------------


def _reviews(count: int) -> list[bytes]:
    from tests.kube.server.reviews import KINDS, review

    kinds = list(KINDS.values())
    return [
        json.dumps(review(kinds[number % len(kinds)], namespace=f"team-{number % 30 * 10}")).encode()
        for number in range(count)
    ]


async def _load(row: Row, seconds: int, injector: Running, trust: ssl.SSLContext) -> None:
    import aiohttp

    bodies = _reviews(row.rate * seconds)
    connector = aiohttp.TCPConnector(ssl=trust, limit=CONNECTIONS)
    url = f"https://{HOST}:{injector.plan.port}/mutate"
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        for body in bodies[:CONNECTIONS]:
            await _ask(session, url, body, Row(0), time.monotonic())
        spent, began = injector.cpu_seconds(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, body in enumerate(bodies):
                due = began + number / row.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                _ = group.create_task(_ask(session, url, body, row, due))
        took = time.monotonic() - began
    cpu = injector.cpu_seconds() - spent
    row.busy, row.cpu_ms = cpu / took, cpu * 1000 / len(bodies)
    row.loaded_bytes = injector.rss_bytes()


async def _ask(session: aiohttp.ClientSession, url: str, body: bytes, row: Row, due: float) -> None:
    headers = {"Content-Type": "application/json"}
    name = f"waterclock-injector.{SYSTEM}.svc"
    async with session.post(url, data=body, headers=headers, server_hostname=name) as response:
        answer = await response.json()
    row.ms.append((time.monotonic() - due) * 1000)
    row.failed += "patch" not in answer.get("response", {})


def measure(rates: Sequence[int], seconds: int, cores: Cores) -> Found:
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder, pinned(cores.load):
        room = Path(folder)
        with (
            _api_server(room) as (cluster, kubeconfig),
            running(_injector(room, kubeconfig), cores.proxy) as injector,
        ):
            time.sleep(2.0)
            found = Found(injector.ready_ms, injector.rss_bytes(), [])
            trust = _trust(cluster)
            for rate in rates:
                progress(f"  {rate} reviews a second, for {seconds} s")
                row = Row(rate)
                asyncio.run(_load(row, seconds, injector, trust))
                injector.must_run()
                found.rows.append(row)
    return found


# -- what came of it -------------------------------------------------------------------------------------------------


def table(found: Found) -> report.Table:
    columns = ["", "reviews", "p50 ms", "p99 ms", "max ms", "failed", "core busy", "CPU ms/review", "loaded MiB"]  # fmt: skip
    rows = [
        [
            f"{row.rate}/s",
            f"{len(row.ms):,}",
            *(f"{percentile(row.ms, share):.2f}" for share in (0.5, 0.99, 1)),
            str(row.failed),
            f"{row.busy:.0%}",
            f"{row.cpu_ms:.2f}",
            f"{row.loaded_bytes / MIB:.1f}",
        ]
        for row in found.rows
    ]
    note = f"Ready {found.ready_ms:.0f} ms after exec; {found.idle_bytes / MIB:.1f} MiB before the load."
    return report.Table(f"Reviews, {CONNECTIONS} connections, {NAMESPACES} namespaces", columns, rows, [note])


def floors(found: Found) -> list[Floor]:
    promised = next((row for row in found.rows if row.rate == PROMISED_RATE), None)
    p99 = percentile(promised.ms, 0.99) if promised else None
    failed = sum(row.failed for row in found.rows)
    loaded = max(row.loaded_bytes for row in found.rows) / MIB
    return [
        Floor(
            f"{PROMISED_RATE} reviews a second on one core, 99% of them within {P99_MS:.0f} ms",
            f"{p99:.1f} ms" if p99 is not None else None,
            p99 is not None and p99 < P99_MS,
        ),
        Floor("no review fails", f"{failed} failed", failed == 0),
        Floor(f"memory under load below {LOADED_MIB} MiB", f"{loaded:.1f} MiB", loaded < LOADED_MIB),
    ]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench webhook", description="What a review of a pod costs."
    )
    parser.add_argument(
        "--short", action="store_true", help=f"{PROMISED_RATE} reviews a second only, for 5 s"
    )
    parser.add_argument("--seconds", type=int, default=20, metavar="N", help="of each rate (default: 20)")
    part.add_output(parser, RESULTS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    cores, about = part.surroundings()
    rates, seconds = ((PROMISED_RATE,), 5) if arguments.short else (RATES, arguments.seconds)
    with part.measuring():
        found = measure(rates, seconds, cores)
    kept = floors(found)
    promised = report.promises("What is promised of reviews", kept)
    whole: dict[str, Any] = {"machine": about, "versions": versions(), **asdict(found)}
    return part.concluded(
        arguments, [table(found), promised], whole, "every review", kept=all(each.met for each in kept)
    )
