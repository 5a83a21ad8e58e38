"""A process of clients: lanes that do their jobs side by side, and a file with what became of each call.

    python -m trials.chaos.clients SETTINGS

Acts come on standard input, a line of JSON each; `done` is said on standard output after each. How far it is stands in the
file itself.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from trials.chaos.caller import Caller
from trials.chaos.facts import Ask, Told
from trials.chaos.plan import Errand, Job, goes_on, jobs


@dataclass
class Act:
    """One act of one process. `calls`: after how many no further job is begun."""

    number: int
    client: int
    seed: int
    calls: int
    sidecar: int
    ports: dict[str, int]
    file: TextIO
    made: int = 0

    async def run(self, lanes: int) -> None:
        """Let all lanes work."""
        async with asyncio.TaskGroup() as group:
            for lane in range(lanes):
                group.create_task(self._lane(lane))

    async def _lane(self, lane: int) -> None:
        callers: deque[Caller] = deque()
        for job in jobs(self.seed, self.number, self.client, lane):
            if self.made >= self.calls:
                break
            await self._job(job, callers)
        for caller in callers:
            caller.close()

    async def _job(self, job: Job, callers: deque[Caller]) -> None:
        """Do the errands of a job, some of them abreast."""
        waiting = deque(job.errands)

        async def do() -> None:
            caller = callers.popleft() if callers else Caller(self.sidecar, self.ports)
            while waiting:
                await self._errand(waiting.popleft(), caller)
            callers.append(caller)

        async with asyncio.TaskGroup() as group:
            for _ in range(job.abreast):
                group.create_task(do())

    async def _errand(self, errand: Errand, caller: Caller) -> None:
        """Make a unit's calls, until one of them is answered."""
        if errand.twins:
            other = Caller(self.sidecar, self.ports)
            async with asyncio.TaskGroup() as group:
                for ask, by in zip(errand.calls, (caller, other), strict=True):
                    group.create_task(self._call(ask, by))
            other.close()
            return
        for ask in errand.calls:
            if not goes_on(await self._call(ask, caller)):
                break

    async def _call(self, ask: Ask, caller: Caller) -> Told:
        told = Told(ask, await caller.call(ask))
        self.file.write(told.line())
        self.made += 1
        return told


async def main(settings: dict[str, Any]) -> None:
    """Play acts until there are no more."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, sys.exit, 0)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        await _act(settings, json.loads(line))
        print("done", flush=True)


async def _act(settings: dict[str, Any], asked: dict[str, Any]) -> None:
    # A line of a local file takes less than the call that it is about, and whoever counts them should see it at once.
    with Path(asked["file"]).open("a", buffering=1, encoding="ascii") as file:  # noqa: ASYNC230
        act = Act(
            asked["act"],
            settings["client"],
            settings["seed"],
            asked["calls"],
            settings["sidecar"],
            settings["ports"],
            file,
        )
        await act.run(settings["lanes"])


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
