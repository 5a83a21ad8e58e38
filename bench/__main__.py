"""`python -m bench`: what `make bench` runs. Progress goes to stderr, results to stdout and to a JSON file.

`python -m bench storm` is a benchmark of its own, with arguments of its own: `make storm`. So are the others of `OTHERS`, each
loaded only when it is asked for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from bench import part, report
from bench.builds import COMPILED
from bench.comparison import added, start, throughput
from bench.comparison.findings import as_json, tables
from bench.comparison.floors import Results, floors, verdicts
from bench.comparison.paced import Pace
from bench.comparison.scenarios import SCENARIOS, Rounds, Scenario
from bench.cuts import lateness as cuts
from bench.hotpath import counts as hotpath
from bench.machine import versions
from bench.peers.bare_aiohttp import BareAiohttp
from bench.peers.base import Peer, chosen
from bench.peers.envoy import Envoy
from bench.peers.haproxy import HAProxy
from bench.peers.mitmproxy import Mitmproxy
from bench.peers.proxy_py import ProxyPy
from bench.peers.smokescreen import Smokescreen
from bench.peers.waterclock import Waterclock
from bench.procs import Cores, Failed, file_limit, pinned, progress

OTHERS: Final = ("storm", "webhook", "degrade", "semantic", "streams", "growth", "plots")
PARTS: Final = ("throughput", "added", "cuts", "start", "hotpath")
SIDECARS: Final[tuple[Peer, ...]] = (Waterclock(), Waterclock(COMPILED))
PEERS: Final[tuple[Peer, ...]] = (
    *SIDECARS,
    Envoy(),
    HAProxy(),
    Smokescreen(),
    BareAiohttp(),
    ProxyPy(),
    Mitmproxy(),
)
RESULTS: Final = report.RESULTS / "latest.json"


@dataclass(frozen=True)
class Extent:
    """How much is spent on each part. `start_peers`: whose starts are measured."""

    short: bool
    turns: int
    pace: Pace
    starts: int
    start_peers: tuple[Peer, ...]
    rounds: int

    def spent(self, scenario: Scenario) -> Rounds | None:
        """None: the scenario has no part in it."""
        return scenario.short if self.short else scenario.full


SHORT: Final = Extent(True, 1, Pace(seconds=1), starts=2, start_peers=(*SIDECARS, Envoy()), rounds=2)
FULL: Final = Extent(False, 5, Pace(seconds=2), starts=7, start_peers=PEERS, rounds=9)
ROUND: Final = 4_000  # calls of a round of `hotpath`


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(peer.name for peer in PEERS)
    keys = ", ".join(f"{each.key} ({each.what})" for each in SCENARIOS)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures Waterclock beside its peers.",
        epilog=f"Not beside its peers, and with arguments of its own: {', '.join(OTHERS)}; as in python -m bench storm --help.",
    )
    parser.add_argument(
        "part", nargs="?", choices=("all", *PARTS), default="all", help="what to measure (default: all)"
    )
    parser.add_argument(
        "--short", action="store_true", help="fewer of all, small GET requests only: two minutes"
    )
    parser.add_argument("--peers", metavar="NAMES", help=f"only these, separated by commas: {names}")
    parser.add_argument("--scenarios", metavar="KEYS", help=f"of throughput only these, by commas: {keys}")
    part.add_output(parser, RESULTS, check="a promise is missed, or a least not reached")
    return parser.parse_args(argv)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _chosen(peers: Sequence[Peer], names: str | None) -> list[Peer]:
    wanted = chosen(names, PEERS)
    return [peer for peer in peers if peer.name in wanted]


def _scenarios(extent: Extent, keys: str | None) -> list[tuple[Scenario, Rounds]]:
    """Those that are asked for by name take part in the short form too, as long as one of its own does."""
    if keys is None:
        return [(each, spent) for each in SCENARIOS if (spent := extent.spent(each))]
    wanted = _split(keys)
    unknown = set(wanted) - {each.key for each in SCENARIOS}
    if unknown:
        raise Failed(
            f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(s.key for s in SCENARIOS)}"
        )
    return [(each, extent.spent(each) or Rounds(1, 1)) for each in SCENARIOS if each.key in wanted]


def _measure(arguments: argparse.Namespace, extent: Extent, cores: Cores) -> Results:
    asked, names = arguments.part, arguments.peers
    results = Results(versions=versions())
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-") as folder, pinned(cores.load):
        room = Path(folder)
        if asked in ("all", "throughput"):
            progress("throughput")
            results.throughput = [
                throughput.compare(scenario, spent, _chosen(PEERS, names), room, cores)
                for scenario, spent in _scenarios(extent, arguments.scenarios)
            ]
        if asked in ("all", "added"):
            progress("time added")
            results.added = added.measure(extent.pace, extent.turns, _chosen(PEERS, names), room, cores)
        if asked in ("all", "cuts"):
            progress("cuts")
            results.cuts = cuts.measure(
                short=extent.short, peers=_chosen(cuts.PEERS, names), parent=room, cores=cores
            )
        if asked in ("all", "start"):
            progress("starts")
            results.starts = start.starts(
                _chosen(PEERS if names else extent.start_peers, names), extent.starts, room, cores
            )
        if asked in ("all", "hotpath"):
            progress("hot path")
            results.hotpath = hotpath.measure(hotpath.chosen(names), extent.rounds, ROUND, cores)
    return results


def main(argv: Sequence[str] | None = None) -> int:
    part.end_in_order()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in OTHERS:
        return int(import_module(f"bench.{words[0]}.command").main(words[1:]))
    arguments = _arguments(words)
    file_limit()
    cores, about = part.surroundings()
    with part.measuring():
        results = _measure(arguments, SHORT if arguments.short else FULL, cores)
    kept = all(floor.met for floor in floors(results)) and all(each.met for each in verdicts(results))
    whole = as_json(results, about)
    return part.concluded(arguments, tables(results, about), whole, "every round and cut", kept=kept)


if __name__ == "__main__":
    sys.exit(main())
