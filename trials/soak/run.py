"""One soak, from the first process to the last sample."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.builds import program
from bench.peers.base import SETTLE, room_for
from bench.percentile import percentile
from bench.procs import Cores, Failed, Plan, Running, free_ports, pinned, progress, running
from tests.support.ports import nobody_at
from trials.soak.caller import Broken, Callers
from trials.soak.drive import Counts, full, steady
from trials.soak.kinds import Mix, Ports
from trials.soak.length import Length
from trials.soak.policy import policy
from trials.soak.samples import of_process, scraped
from trials.soak.series import SERIES, Series

_HERE: Final = Path(__file__).parent
_TELL_SECONDS: Final = 30.0
_REST_SECONDS: Final = (
    20.0  # the pool sweeps every 5 s, a cut write lingers for 1 s, a client is noticed within 0.1 s
)
_LOG_BYTES: Final = 16 * 1024 * 1024
_MOST_BUSY_DRIVER: Final = 0.7
"""The share of what the driver can do that half load may ask of it: beyond, it would be the driver that is late."""


@dataclass
class Soak:
    """What came of it. `full`: GETs and POSTs a second under full load, `full_busy` the share of its core that the sidecar took for
    them. `call_us`: CPU time of a call of the whole mix. `samples`: seconds since the start, with a value by source; `before` and
    `after` the load there is one more each.
    """

    length: Length
    build: str
    seed: int
    full: float = 0.0
    full_busy: float = 0.0
    call_us: float = 0.0
    rate: float = 0.0
    counts: Counts = field(default_factory=Counts)
    samples: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    reloads: int = 0

    def left(self) -> list[tuple[Series, float]]:
        """Return what there is more of at rest, after the load, than there may be, and how much that may be."""
        may = [
            (each, self.before.get(each.source, 0.0) + each.rest) for each in SERIES if each.rest is not None
        ]
        return [(each, most) for each, most in may if self.after.get(each.source, 0.0) > most]

    def points(self, source: str) -> list[tuple[float, float]]:
        """Return one series, where it was there."""
        return [(at, values[source]) for at, values in self.samples if source in values]


def half(full: float, call_us: float) -> float:
    """Return the rate at which half of the sidecar's core is busy with calls that take so much of it; never so much that the
    driver, which did `full` at its best, would be what is late.
    """
    return min(0.5e6 / call_us, full * _MOST_BUSY_DRIVER)


class _World:
    """The processes of a soak, and its places."""

    def __init__(self, soak: Soak, folder: Path, cores: Cores, dead: int) -> None:
        self.soak = soak
        self.cores = cores
        outbound, control, self.metrics, upstream, echo = free_ports(5)
        self.ports = Ports(outbound, control, upstream, echo, dead)
        self.room = room_for(folder, "sidecar")
        self.config = self.room / "waterclock.yaml"
        self._behind = room_for(folder, "upstream")
        self._program = str(program(soak.build))

    def write_policy(self) -> None:
        """Write the policy, another one after each reload."""
        ports = (self.ports.outbound, self.ports.control, self.metrics)
        self.config.write_text(policy(ports, self.room / "journal.db", self.soak.length, self.soak.reloads))

    @contextmanager
    def up(self) -> Iterator[Running]:
        """The sidecar, with the upstream behind it."""
        self.write_policy()
        ports = self.ports
        server = (sys.executable, "-P", str(_HERE / "upstream.py"), str(ports.upstream), str(ports.echo))
        behind = self._behind
        with (
            running(
                Plan("upstream", server, ports.upstream, ports.upstream, "/readyz", behind / "log", behind),
                self.cores.load,
            ),
            running(
                Plan(
                    "waterclock",
                    (self._program, "run", "-c", str(self.config)),
                    ports.outbound,
                    self.metrics,
                    "/readyz",
                    self.room / "steps.log",
                    self.room,
                ),
                self.cores.proxy,
            ) as sidecar,
        ):
            time.sleep(SETTLE)
            yield sidecar


def soak(length: Length, build: str, seed: int, cores: Cores) -> Soak:
    """Make a soak. Raises Missing or Failed when it cannot be made."""
    result = Soak(length, build, seed)
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-soak-") as folder,
        nobody_at() as dead,
        pinned(cores.load),
    ):
        world = _World(result, Path(folder), cores, dead)
        with world.up() as sidecar:
            try:
                _until_told(_drive(world, sidecar))
            except* Broken as faults:
                sidecar.must_run()
                raise Failed(str(faults.exceptions[0])) from None
    return result


def _until_told(drive: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or to SIGTERM. A handler that raises could do so in a callback, where the loop takes no notice of it."""
    import uvloop

    async def told() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await drive

    try:
        uvloop.run(told())
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)


async def _drive(world: _World, sidecar: Running) -> None:
    result = world.soak
    callers = Callers(world.ports.outbound)
    mix = Mix(world.ports, callers)
    result.before = await _values(world, sidecar)
    await _find_out(result, sidecar, mix)
    progress(
        f"  full load: {result.full:,.0f} calls/s at {result.full_busy:.0%} of a core; a call of the mix takes "
        f"{result.call_us:.0f} µs, half of a core is {result.rate:,.0f} calls/s, for {result.length.seconds:,} s"
    )
    mix.waits.clear()
    ends = time.monotonic() + result.length.seconds
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            steady(mix, result.counts, result.rate, lambda: time.monotonic() >= ends, result.seed)
        )
        tasks.create_task(_look(world, sidecar, mix, ends))
        tasks.create_task(_reload(world, sidecar, ends))
    callers.close()
    await _rest(world, sidecar)


async def _find_out(result: Soak, sidecar: Running, mix: Mix) -> None:
    """Find out what the sidecar can do, and what half of that is."""
    cpu, at = sidecar.cpu_seconds(), time.monotonic()
    result.full = await full(mix, result.counts, result.length.full)
    result.full_busy = (sidecar.cpu_seconds() - cpu) / (time.monotonic() - at)
    if sum(result.counts.wrong.values()) == result.counts.total:
        raise Failed("no call was answered under full load")
    cpu, at, calls = sidecar.cpu_seconds(), time.monotonic(), result.counts.total
    probed = at + result.length.probe
    await steady(mix, result.counts, result.full / 5, lambda: time.monotonic() >= probed, result.seed)
    result.call_us = (sidecar.cpu_seconds() - cpu) * 1e6 / max(1, result.counts.total - calls)
    if not result.call_us:
        raise Failed("the calls took the sidecar no time: is it the one that was called?")
    result.rate = half(result.full, result.call_us)


async def _look(world: _World, sidecar: Running, mix: Mix, ends: float) -> None:
    """Take samples until the end."""
    result, began = world.soak, time.monotonic()
    told = began
    calls, cpu, at = result.counts.total, sidecar.cpu_seconds(), began
    while time.monotonic() < ends:
        await asyncio.sleep(result.length.sample_seconds)
        sidecar.must_run()
        waits, mix.waits = mix.waits, []
        now = time.monotonic()
        values = await _values(world, sidecar)
        spent = sidecar.cpu_seconds()
        values["calls"] = (result.counts.total - calls) / (now - at)
        values["busy"] = (spent - cpu) / (now - at)
        calls, cpu, at = result.counts.total, spent, now
        if waits:
            values |= {"p50": percentile(waits, 0.5), "p99": percentile(waits, 0.99)}
        result.samples.append((now - began, values))
        if sidecar.plan.log.stat().st_size > _LOG_BYTES:
            sidecar.trim_log()
        if now - told >= _TELL_SECONDS:
            told = now
            progress(
                f"  {now - began:,.0f} s: {values['rss'] / 2**20:.1f} MiB, {values['fds']:.0f} descriptors, "
                f"{result.counts.total:,} calls, {sum(result.counts.wrong.values())} wrong"
            )


async def _values(world: _World, sidecar: Running) -> dict[str, float]:
    """Look at the sidecar once."""
    return of_process(sidecar.process.pid) | await scraped(world.metrics)


async def _rest(world: _World, sidecar: Running) -> None:
    """Wait until everything that came with the load has gone, or should have."""
    result, began = world.soak, time.monotonic()
    while True:
        await asyncio.sleep(world.soak.length.sample_seconds)
        sidecar.must_run()
        result.after = await _values(world, sidecar)
        if not result.left() or time.monotonic() - began > _REST_SECONDS:
            return


async def _reload(world: _World, sidecar: Running, ends: float) -> None:
    """Put another policy in force every now and then."""
    pause = world.soak.length.reload_seconds
    while time.monotonic() + pause < ends:
        await asyncio.sleep(pause)
        world.soak.reloads += 1
        world.write_policy()
        os.kill(sidecar.process.pid, signal.SIGHUP)
