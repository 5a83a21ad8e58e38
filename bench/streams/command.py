"""Many event streams that stay open: what each holds in memory, what an event costs, and how late it comes.

`python -m bench streams`. One proxy after the other, each alone with a server (`server`) that sends every stream an
event a second, and a reader (`reader`) that opens them all. `figures` has what is made of it, and
docs/performance.md what it means.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench import part, report
from bench.builds import BUILDS, COMPILED
from bench.machine import versions
from bench.peers.bare_aiohttp import BareAiohttp
from bench.peers.base import SETTLE, Peer, Site, chosen, largest, room_for
from bench.peers.envoy import Envoy
from bench.peers.haproxy import HAProxy
from bench.peers.mitmproxy import Mitmproxy
from bench.peers.proxy_py import ProxyPy
from bench.peers.smokescreen import Smokescreen
from bench.peers.waterclock import Waterclock
from bench.procs import (
    HOST,
    Cores,
    Failed,
    Missing,
    Plan,
    file_limit,
    free_port,
    pinned,
    progress,
    running,
)
from bench.settings import add_options, number, settings_of
from bench.streams.figures import STEP, SUBSCRIPTION, Row, promises, table
from bench.streams.reader import Orders, Seen

RESULTS: Final = report.RESULTS / "streams.json"
MOST: Final = 20_000  # connections to the upstream that a proxy may hold
_HERE: Final = Path(__file__).parent
_GRACE: Final = 60.0

SIDECARS: Final[tuple[Peer, ...]] = (Waterclock(most=MOST), Waterclock(COMPILED, most=MOST))
ENVOY: Final[Peer] = Envoy(timeout_ms=0, most=MOST)
PEERS: Final[tuple[Peer, ...]] = (
    *SIDECARS,
    ENVOY,
    HAProxy(most=4_000, streams=True),
    Smokescreen(),
    BareAiohttp(),
    ProxyPy(),
    Mitmproxy(),
)
MANY_PEERS: Final[tuple[Peer, ...]] = (*SIDECARS, ENVOY)


@dataclass(frozen=True)
class Setting:
    count: int = number(1_000, "streams that each proxy holds open")
    many: int = number(10_000, "streams that the sidecar and Envoy hold open after that; 0: none")
    every: int = number(1_000, "ms between two events of a stream")
    seconds: int = number(15, "for how long events are watched")


SHORT: Final = {"count": 500, "many": 0, "seconds": 4}
SHORT_PEERS: Final = (*BUILDS, "envoy")


# -- one proxy -----------------------------------------------------------------------------------------------------


def play(peer: Peer, kind: str, count: int, setting: Setting, parent: Path, cores: Cores) -> Row:
    """Hold `count` streams open through a proxy. `kind`: what they are to a sidecar."""
    with running(_server(setting.every, parent), cores.load) as server:
        plan = peer.plan(Site(server.plan.port, room_for(parent, peer.name)))
        with running(plan, cores.proxy) as proxy:
            time.sleep(SETTLE)
            idle = proxy.rss_bytes()
            authority = f"{HOST}:{server.plan.port}"
            orders = Orders(
                plan.port, f"http://{authority}/events", authority, _fields(kind), count, setting.seconds
            )
            with _reader(orders, cores) as reader:
                opened = _line(reader, "open")
                cpu, at = proxy.cpu_seconds(), time.monotonic()
                seen = Seen(**_line(reader, "measured"))
                cpu, took = proxy.cpu_seconds() - cpu, time.monotonic() - at
                full = proxy.rss_bytes()
                proxy.must_run()
                reader.stdin.write("close\n")  # type: ignore[union-attr]
                reader.stdin.flush()  # type: ignore[union-attr]
                _line(reader, "closed")
            time.sleep(2 * SETTLE)
            proxy.must_run()
            return Row(
                name=peer.name,
                kind=kind,
                asked=count,
                opened=opened,
                seconds=seen.seconds,
                firsts=seen.firsts,
                delays=seen.delays,
                broke=seen.broke,
                cpu_us=cpu * 1e6 / len(seen.delays) if seen.delays else None,
                busy=cpu / took,
                idle_bytes=idle,
                open_bytes=full,
                closed_bytes=proxy.rss_bytes(),
            )


def _fields(kind: str) -> list[str]:
    """What a step states is a budget, for the time of the whole round; a subscription says only what it listens for."""
    return ["Accept: text/event-stream", *(["Budget-Remaining-Ms: 900000"] if kind == STEP else [])]


def _server(every_ms: int, parent: Path) -> Plan:
    port, room = free_port(), room_for(parent, "server")
    program = (sys.executable, "-P", str(_HERE / "server.py"), str(port), str(every_ms))
    return Plan("server", program, port, port, "/readyz", room / "server.log", room)


@contextmanager
def _reader(orders: Orders, cores: Cores) -> Iterator[subprocess.Popen[str]]:
    """The reader's process, which is ended when it takes far longer than it should."""
    program = (sys.executable, "-P", str(_HERE / "reader.py"))
    with pinned(cores.load):
        process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    allowed = orders.count / 100 + orders.patience + orders.seconds + _GRACE
    watchdog = threading.Timer(allowed, process.kill)
    watchdog.start()
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(orders)) + "\n")
        process.stdin.flush()
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def _line(reader: subprocess.Popen[str], word: str) -> Any:
    """The next line of the reader, which must be about `word`."""
    assert reader.stdout is not None
    line = reader.stdout.readline()
    if not line:
        raise Failed("the reader of the streams ended before its time")
    told = json.loads(line)
    if word not in told:
        raise Failed(f"the reader of the streams said {line[:80]!r} instead of {word!r}")
    return told[word]


# -- all of them ---------------------------------------------------------------------------------------------------


def streams(setting: Setting, names: Sequence[str], cores: Cores) -> list[Row]:
    """First the few through every proxy, then the many through those that are to hold so many."""
    rounds = [(peer, kind, setting.count) for peer in PEERS for kind in _kinds(peer)]
    many = largest(setting.many, file_limit())
    if setting.many:
        rounds += [(peer, kind, many) for peer in MANY_PEERS for kind in _kinds(peer)]
    rows = []
    with tempfile.TemporaryDirectory(prefix="waterclock-streams-") as folder:
        for peer, kind, count in rounds:
            if peer.name not in names:
                continue
            progress(f"  {count:,} streams: {peer.name} {kind}".rstrip())
            try:
                rows.append(play(peer, kind, count, setting, Path(folder), cores))
            except Missing as gap:
                progress(f"left out: {gap}")
    return rows


def _kinds(peer: Peer) -> tuple[str, ...]:
    return (STEP, SUBSCRIPTION) if peer.name in BUILDS else ("",)


def _notes(setting: Setting) -> list[str]:
    descriptors = file_limit()
    many = largest(setting.many, descriptors)
    if many == setting.many:
        return []
    return [
        f"{many:,} streams and not {setting.many:,}: a process may have {descriptors:,} descriptors here."
    ]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench streams", description="Many event streams held open through each proxy."
    )
    parser.add_argument("--short", action="store_true", help="fewer streams, the sidecar and Envoy only")
    add_options(parser, Setting, SHORT)
    known = ", ".join(peer.name for peer in PEERS)
    parser.add_argument("--peers", metavar="NAMES", help=f"only these, separated by commas: {known}")
    part.add_output(parser, RESULTS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    setting = settings_of(arguments, Setting, SHORT)
    cores, about = part.surroundings()
    with part.measuring():
        names = chosen(arguments.peers, PEERS, SHORT_PEERS if arguments.short else None)
        rows = streams(setting, names, cores)
    found, reached = part.judged(rows, names, promises)
    shown = [table(rows, setting.every, _notes(setting)), *reached]
    whole = {
        "machine": about,
        "versions": versions(),
        "setting": asdict(setting),
        "rows": [row.summary() for row in rows],
        "targets": [asdict(each) for each in found],
    }
    return part.concluded(arguments, shown, whole, "every figure", kept=all(each.met for each in found))
