"""How precisely a call is cut: many calls to a server that never answers, each with the same small allowance.

Two patterns of 50 callers. `spread`: each calls again as soon as it is answered, and their first calls are spread
over one allowance, as independent callers are. `together`: all 50 call at one moment, so that 50 cuts fall due at
one moment, which is the hardest that width can do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.builds import BUILDS
from bench.callers import Call, call_spread, call_together
from bench.peers import envoy, waterclock
from bench.peers.base import Peer, room_for, standing
from bench.procs import Cores, Plan, Running, progress
from bench.upstream import silent

ALLOWANCE_MS: Final = 50
CALLERS: Final = 50
_BLOCKS: Final = 4
_PATTERNS: Final = {"spread": call_spread, "together": call_together}


@dataclass
class Lateness:
    """Of one proxy under one pattern. `own_ms` is what the proxy's log says, `client_ms` what the callers saw."""

    name: str
    pattern: str
    expected: int
    client_ms: list[float] = field(default_factory=list)
    own_ms: list[float] = field(default_factory=list)
    other_answers: int = 0

    @property
    def early(self) -> int:
        """By the proxy's own clock."""
        return sum(value < 0 for value in self.own_ms)

    @property
    def early_seen(self) -> int:
        """By the callers' clock, which starts before the proxy's and stops after it: such a cut is early beyond doubt."""
        return sum(value < 0 for value in self.client_ms)

    @property
    def own_in_whole_ms(self) -> bool:
        return all(value.is_integer() for value in self.own_ms)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def measure(count: int, peers: Sequence[Peer], parent: Path, cores: Cores) -> list[Lateness]:
    """Blocks alternate between the proxies, so that whatever else the machine does falls on all of them."""
    upstream = silent(room_for(parent, "silent"))
    with standing(upstream, peers, parent, cores) as up:
        found = [Lateness(each.plan.name, pattern, count) for each in up for pattern in _PATTERNS]
        asyncio.run(_call_all(count, up, upstream, found))
    for lateness in found:
        plan = next(each.plan for each in up if each.plan.name == lateness.name)
        lateness.own_ms = _from_log(plan, f"/{lateness.pattern}")
    return found


async def _call_all(count: int, up: Sequence[Running], upstream: Plan, found: Sequence[Lateness]) -> None:
    for proxy in up:
        await call_spread(
            proxy.plan.port, _request(upstream.port, "/warm-up"), CALLERS, 2 * CALLERS, ALLOWANCE_MS
        )
    for block in range(_BLOCKS):
        progress(f"  cuts: block {block + 1} of {_BLOCKS}")
        for pattern, call in _PATTERNS.items():
            request = _request(upstream.port, f"/{pattern}")
            for proxy in up:
                calls = await call(proxy.plan.port, request, CALLERS, count // _BLOCKS, ALLOWANCE_MS)
                _note(
                    calls,
                    next(each for each in found if (each.name, each.pattern) == (proxy.plan.name, pattern)),
                )


def _request(upstream: int, path: str) -> bytes:
    authority = f"127.0.0.1:{upstream}"
    return (
        f"GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\nBudget-Remaining-Ms: {ALLOWANCE_MS}\r\n\r\n"
    ).encode()


def _note(calls: Sequence[Call], lateness: Lateness) -> None:
    lateness.client_ms += [call.elapsed_ms - ALLOWANCE_MS for call in calls if call.status == 504]
    lateness.other_answers += sum(call.status != 504 for call in calls)


_READERS: Final[dict[str, Callable[[dict[str, Any]], float | None]]] = {
    **dict.fromkeys(BUILDS, waterclock.lateness_ms),
    "envoy": lambda record: envoy.lateness_ms(record, ALLOWANCE_MS),
}


def _from_log(plan: Plan, path: str) -> list[float]:
    """Read after the proxy has ended, since a log may be written late. Other lines than cuts are passed over."""
    found = []
    for line in plan.log.read_text(errors="replace").splitlines():
        if path in line and line.startswith("{"):
            lateness = _READERS[plan.name](json.loads(line))
            if lateness is not None:
                found.append(lateness)
    return found
