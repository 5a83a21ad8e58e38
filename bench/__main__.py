"""`python -m bench`: what `make bench` runs. Progress goes to stderr, results to stdout and to a JSON file.

`python -m bench storm` is a benchmark of its own, with arguments of its own: `make storm`. So are `python -m bench
webhook`, `python -m bench degrade` and `python -m bench semantic`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from bench import cuts, degrade, hotpath, report, semantic, start, storm, throughput, webhook
from bench.builds import COMPILED
from bench.floors import Results, floors
from bench.load import LARGE_GET, POST, SMALL_GET
from bench.machine import machine, versions, warnings
from bench.peers.bare_aiohttp import BareAiohttp
from bench.peers.base import Peer
from bench.peers.envoy import Envoy
from bench.peers.haproxy import HAProxy
from bench.peers.waterclock import Waterclock
from bench.procs import Cores, Failed, Missing, pinned, progress
from bench.throughput import Effort

OTHERS: Final = {
    "storm": storm.main,
    "webhook": webhook.main,
    "degrade": degrade.main,
    "semantic": semantic.main,
}
PARTS: Final = ("throughput", "cuts", "start", "hotpath")
SIDECARS: Final[tuple[Peer, ...]] = (Waterclock(), Waterclock(COMPILED))
PEERS: Final[tuple[Peer, ...]] = (*SIDECARS, Envoy(), HAProxy(), BareAiohttp())
CUT_PEERS: Final[tuple[Peer, ...]] = (*SIDECARS, Envoy(timeout_ms=cuts.ALLOWANCE_MS))
START_PEERS: Final[tuple[Peer, ...]] = (*SIDECARS, Envoy())
RESULTS: Final = Path(__file__).parent / "results" / "latest.json"


@dataclass(frozen=True)
class Extent:
    efforts: tuple[Effort, ...]
    cuts: int
    starts: int
    rounds: int


SHORT: Final = Extent((Effort(SMALL_GET, 3, 3),), cuts=1_000, starts=5, rounds=5)
FULL: Final = Extent(
    (Effort(SMALL_GET, 5, 5), Effort(POST, 3, 4), Effort(LARGE_GET, 3, 4)), cuts=1_000, starts=15, rounds=9
)
ROUND: Final = 4_000  # calls of a round of `hotpath`


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures Waterclock beside its peers.",
        epilog=f"Not beside its peers, and with arguments of its own: {', '.join(OTHERS)}; as in python -m bench storm --help.",
    )
    parser.add_argument(
        "part", nargs="?", choices=("all", *PARTS), default="all", help="what to measure (default: all)"
    )
    parser.add_argument(
        "--short", action="store_true", help="fewer rounds and starts, small GET requests only"
    )
    parser.add_argument("--peers", metavar="NAMES", help=f"only these, separated by commas: {names}")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--json", type=Path, default=RESULTS, metavar="FILE", help="default: bench/results/latest.json"
    )
    parser.add_argument("--check", action="store_true", help="end with status 1 when a promise is missed")
    return parser.parse_args(argv)


def _chosen(peers: Sequence[Peer], names: str | None) -> list[Peer]:
    wanted = [name.strip() for name in names.split(",")] if names else [peer.name for peer in PEERS]
    unknown = set(wanted) - {peer.name for peer in PEERS}
    if unknown:
        raise Failed(f"no such peer: {', '.join(sorted(unknown))}")
    return [peer for peer in peers if peer.name in wanted]


def _measure(part: str, extent: Extent, names: str | None, cores: Cores) -> Results:
    results = Results(versions=versions())
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder, pinned(cores.load):
        room = Path(folder)
        if part in ("all", "throughput"):
            progress("throughput")
            peers = _chosen(PEERS, names)
            results.throughput = [throughput.compare(effort, peers, room, cores) for effort in extent.efforts]
        if part in ("all", "cuts"):
            progress("cuts")
            results.cuts = cuts.measure(extent.cuts, _chosen(CUT_PEERS, names), room, cores)
        if part in ("all", "start"):
            progress("starts")
            results.starts = start.starts(_chosen(START_PEERS, names), extent.starts, room, cores)
        if part in ("all", "hotpath"):
            progress("hot path")
            results.hotpath = hotpath.measure(hotpath.chosen(names), extent.rounds, ROUND, cores)
    return results


def _print(results: Results, as_markdown: bool) -> None:
    for table in report.tables(results, floors(results)):
        if as_markdown:
            print(report.as_markdown(table), end="\n\n")
        else:
            report.show(table)


def _end(number: int, frame: object) -> NoReturn:
    """An ordinary exit, so that every process and folder is cleared away on the way out."""
    sys.exit(128 + number)


def main(argv: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, _end)
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in OTHERS:
        return OTHERS[words[0]](words[1:])
    arguments = _arguments(words)
    cores = Cores.choose()
    for warning in warnings(cores):
        progress(f"note: {warning}")
    about = machine(cores)
    try:
        results = _measure(arguments.part, SHORT if arguments.short else FULL, arguments.peers, cores)
    except (Missing, Failed, OSError) as fault:
        progress(f"stopped: {fault}")
        return 2
    except KeyboardInterrupt:
        return 130
    found = floors(results)
    _print(results, arguments.markdown)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(report.as_json(results, found, about))
    progress(f"every round and cut: {arguments.json}")
    return 1 if arguments.check and not all(floor.met for floor in found) else 0


if __name__ == "__main__":
    sys.exit(main())
