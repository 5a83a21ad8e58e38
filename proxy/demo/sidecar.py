"""The sidecar of the demo: the real one, as a process of its own, with a folder and ports of its own."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp
from rich.text import Text

STARTS_WITHIN: Final = 15.0
LOGS_WITHIN: Final = 5.0
STOPS_WITHIN: Final = 3.0
LOOKS_EVERY: Final = 0.02
_PORTS: Final = range(12_000, 32_000)

# Without `-P` a folder called `proxy` in the working directory would be taken for ours.
COMMAND: Final = (sys.executable, "-P", "-m", "proxy.cli")

T = TypeVar("T")


class Unable(Exception):
    """The demo cannot be played, or not to its end: a sentence for whoever started it."""


class Sidecar:
    """A running sidecar, and what can be seen of it from outside. `folder` has its policy, log and journal."""

    def __init__(self, folder: Path, policy: str, holes: Mapping[str, object]) -> None:
        """Choose free ports, and write the policy: it has holes for the ports and the journal's path, and perhaps others."""
        self.policy_file = folder / "waterclock.yaml"
        self._log = folder / "steps.jsonl"
        self._complaints = folder / "stderr.txt"
        outbound, control, self._metrics = free_ports(3)
        self.proxy = f"http://127.0.0.1:{outbound}"
        self.control = f"http://127.0.0.1:{control}"
        journal = json.dumps(str(folder / "journal.db"))
        ports = {"outbound": outbound, "control": control, "metrics": self._metrics}
        text = policy.format(**ports, journal=journal, **holes)
        self.policy_file.write_text(text)

    async def serve(self) -> Process:
        """Start the process, and return it."""
        with self._log.open("wb") as log, self._complaints.open("wb") as complaints:
            return await asyncio.create_subprocess_exec(
                *COMMAND, "run", "-c", str(self.policy_file), stdin=DEVNULL, stdout=log, stderr=complaints
            )

    async def ready(self, process: Process, session: aiohttp.ClientSession) -> None:
        """Wait until calls can be sent through it. Raises Unable."""
        await ready(process, session, "The sidecar", self._metrics, self.complaints)
        await self.ask(session, "/")  # the control API is loaded when it is first asked

    def complaints(self) -> str:
        """Return what it said on standard error."""
        return self._complaints.read_text(errors="replace").strip() or "nothing"

    async def records(self, ids: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return these lines of the step log, by their record ids, once all of them are written. Raises Unable."""

        async def look() -> dict[str, dict[str, Any]] | None:
            lines = (line for line in self._lines() if "event" not in line)
            found = {line["record"]: line for line in lines if line["record"] in ids}
            return found if len(found) == len(ids) else None

        return await until(
            look, LOGS_WITHIN, f"The step log had not all of the records {', '.join(sorted(ids))}"
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of the step log that tell of such an event, as far as they are written."""
        return [line for line in self._lines() if line.get("event") == name]

    def _lines(self) -> list[dict[str, Any]]:
        whole, _, _ = self._log.read_bytes().rpartition(b"\n")
        return [json.loads(line) for line in whole.splitlines()]

    async def ask(self, session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
        """Return what the control API answers."""
        async with session.get(self.control + path) as answer:
            document: dict[str, Any] = await answer.json()
            return document

    async def samples(self, session: aiohttp.ClientSession) -> dict[str, float]:
        """Return what its metrics say: `name` or `name{labels}` to its value."""
        return await samples(session, self._metrics)

    async def close(self, session: aiohttp.ClientSession, budget_id: str) -> dict[str, Any]:
        """Say that a job is done, and return the ledger's record of it. Raises Unable."""
        async with session.post(f"{self.control}/budgets/{budget_id}/close") as answer:
            record: dict[str, Any] = await answer.json()
        if answer.status != 200:
            raise Unable(f"The budget {budget_id} could not be closed. {record.get('detail')}")
        return record

    async def command(self, *words: str, width: int = 80) -> Text:
        """Run a `waterclock` command against this sidecar, and return what it prints, complaints and colours included."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            "-c",
            str(self.policy_file),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env=os.environ | {"COLUMNS": str(width), "FORCE_COLOR": "1"},
        )
        try:
            printed, _ = await process.communicate()
        finally:
            await stop(process)
        return Text.from_ansi(printed.decode(errors="replace"))


@asynccontextmanager
async def running(
    folder: Path, policy: str, session: aiohttp.ClientSession, **holes: object
) -> AsyncIterator[Sidecar]:
    """Run a sidecar until the block is left. Raises Unable."""
    sidecar = Sidecar(folder, policy, holes)
    process = await sidecar.serve()
    try:
        await sidecar.ready(process, session)
        yield sidecar
    finally:
        await stop(process)


async def ready(
    process: Process, session: aiohttp.ClientSession, name: str, port: int, complaints: Callable[[], str]
) -> None:
    """Wait until a process says that it is ready. Raises Unable, with what it complains of if it has ended instead."""

    async def look() -> bool:
        if process.returncode is not None:
            raise Unable(f"{name} did not start. It said: {complaints()}")
        try:
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    await until(look, STARTS_WITHIN, f"{name} was not ready")


async def samples(session: aiohttp.ClientSession, port: int) -> dict[str, float]:
    """Return what the metrics on a port say: `name` or `name{labels}` to its value."""
    async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        text = await answer.text()
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def until(look: Callable[[], Awaitable[T | None]], within: float, otherwise: str) -> T:
    """Look again and again until there is something to see, and return it: what is waited for is another process.

    Raises Unable, with `otherwise`, after `within` seconds.
    """
    try:
        async with asyncio.timeout(within):
            while not (seen := await look()):  # noqa: ASYNC110 - no event of ours tells of another process
                await asyncio.sleep(LOOKS_EVERY)
            return seen
    except TimeoutError:
        raise Unable(f"{otherwise} within {within:g} s.") from None


async def stop(process: Process) -> None:
    """End a process, gently at first; one that has ended by itself is only waited for."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOPS_WITHIN):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody listens on.

    They are below the range that the kernel takes ports of outgoing connections from, so that none of these comes to sit
    on one before the sidecar does.
    """
    return list(islice((port for port in random.sample(_PORTS, len(_PORTS)) if _is_free(port)), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
