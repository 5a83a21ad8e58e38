"""How precisely a call is cut: calls to a server that never answers, at many allowances, few and many at once.

`plan` says which calls, `callers` makes them, and here the proxies take turns, block by block, so that
whatever else the machine does falls on all of them. Of each cut there are two figures: what the proxy's own log says, and when its
answer was handed to the kernel, counted from just before the request was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from bench.builds import BUILDS, COMPILED, PURE
from bench.cuts.callers import Call, crowd
from bench.cuts.plan import ALLOWANCES_MS, FULL, SHORT, TOGETHER, Block, plan
from bench.peers import envoy, waterclock
from bench.peers.base import Peer, room_for, standing
from bench.peers.envoy import Envoy
from bench.peers.waterclock import Waterclock
from bench.procs import Cores, Plan, Running, progress
from bench.upstream import silent

_CONNECTIONS: Final = (
    8_192  # that a proxy may hold: those of the last block may not all be gone when the next begins
)
_WARM_UP_MS: Final = 200  # one wave of each width: a proxy has never seen so many before
PEERS: Final[tuple[Peer, ...]] = (
    Waterclock(PURE, most=_CONNECTIONS),
    Waterclock(COMPILED, most=_CONNECTIONS),
    Envoy(most=_CONNECTIONS, timeouts_ms=ALLOWANCES_MS),
)


@dataclass
class Lateness:
    """Of one proxy in one block, or in several. `own_ms` is what the proxy's log says, `seen_ms` what the callers saw.

    `allowance_ms`: None, of several.
    """

    name: str
    pattern: str
    in_flight: int
    allowance_ms: int | None
    expected: int
    seen_ms: list[float] = field(default_factory=list)
    own_ms: list[float] = field(default_factory=list)
    other_answers: int = 0

    @property
    def early(self) -> int:
        """By the proxy's own clock."""
        return sum(value < 0 for value in self.own_ms)

    @property
    def early_seen(self) -> int:
        """By the callers' clock, which starts before the proxy's and stops after it: such a cut is early beyond doubt."""
        return sum(value < 0 for value in self.seen_ms)

    @property
    def complete(self) -> bool:
        """Whether every call was cut and every cut is in the log: a missing one may be the late one."""
        return len(self.own_ms) == len(self.seen_ms) == self.expected


def over_allowances(found: Iterable[Lateness]) -> list[Lateness]:
    """Return one for each proxy, pattern and number in flight, over all allowances."""
    sums: dict[tuple[str, str, int], Lateness] = {}
    for each in found:
        key = each.name, each.pattern, each.in_flight
        whole = sums.setdefault(key, Lateness(*key, None, 0))
        whole.expected += each.expected
        whole.seen_ms += each.seen_ms
        whole.own_ms += each.own_ms
        whole.other_answers += each.other_answers
    return list(sums.values())


def measure(*, short: bool, peers: Sequence[Peer], parent: Path, cores: Cores) -> list[Lateness]:
    """Run all blocks. The proxies' logs are read when they have ended, since a log may be written late."""
    upstream = silent(room_for(parent, "silent"))
    blocks = plan(SHORT if short else FULL)
    with standing(upstream, peers, parent, cores) as up:
        found = list(_call_all(blocks, up, upstream))
    for proxy in up:
        own = from_log(proxy.plan)
        for block, lateness in found:
            if lateness.name == proxy.plan.name:
                lateness.own_ms = own.get(block.name, [])
    return [lateness for _, lateness in found]


def _call_all(
    blocks: Sequence[Block], up: Sequence[Running], upstream: Plan
) -> Iterator[tuple[Block, Lateness]]:
    for width, group in groupby(blocks, lambda block: block.in_flight):
        with ExitStack() as stack:
            crowds = [stack.enter_context(crowd(proxy.plan.port, width)) for proxy in up]
            warm_up = Block(TOGETHER, width, _WARM_UP_MS, 1)
            for callers in crowds:
                callers.calls(warm_up, _request(upstream.port, warm_up, "warm-up"))
            for block in group:
                progress(f"  cuts: {block.pattern}, {width:,} in flight, {block.allowance_ms:,} ms")
                for proxy, callers in zip(up, crowds, strict=True):
                    calls = callers.calls(block, _request(upstream.port, block, block.name))
                    proxy.must_run()
                    yield block, _lateness(proxy.plan.name, block, calls)


def _lateness(name: str, block: Block, calls: Sequence[Call]) -> Lateness:
    found = Lateness(name, block.pattern, block.in_flight, block.allowance_ms, block.cuts)
    found.seen_ms = [call.elapsed_ms - block.allowance_ms for call in calls if call.status == 504]
    found.other_answers = len(calls) - len(found.seen_ms)
    return found


def _request(upstream: int, block: Block, name: str) -> bytes:
    """The allowance stands in a field for a sidecar, and begins the path for who has a timeout for each route."""
    authority = f"127.0.0.1:{upstream}"
    path = f"/{block.allowance_ms}/{name}/"
    return (
        f"GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n"
        f"Budget-Remaining-Ms: {block.allowance_ms}\r\n\r\n"
    ).encode()


_PLACE: Final = re.compile(r"/([0-9]+)/([a-z]+-[0-9]+-[0-9]+)/")
_Reader = Callable[[dict[str, Any]], float | None]
_READERS: Final[dict[str, _Reader]] = {
    **dict.fromkeys(BUILDS, waterclock.lateness_ms),
    "envoy": lambda record: envoy.lateness_ms(record, int(_PLACE.findall(record["target"])[0][0])),
}


def from_log(plan: Plan) -> dict[str, list[float]]:
    """Return how late the cuts of each block were. Other lines than cuts are passed over."""
    found: dict[str, list[float]] = {}
    for line in plan.log.read_text(errors="replace").splitlines():
        place = _PLACE.search(line)
        if place is not None and line.startswith("{"):
            lateness = _READERS[plan.name](json.loads(line))
            if lateness is not None:
                found.setdefault(place[2], []).append(lateness)
    return found
