"""The semantic cache of the demo: a real `waterclock cache`, as a process of its own."""

from __future__ import annotations

import asyncio
import re
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import aiohttp

from proxy.demo.sidecar import COMMAND, Unable, free_ports, ready, samples, stop, until

KEEPS_WITHIN: Final = 3.0
LOCAL: Final = "which compares texts by local embeddings"
BY_THE_MODEL: Final = (
    "which asks the demo's own model for embeddings, since the package wordllama is not installed"
)
_ENTRIES: Final = "waterclock_semantic_entries"
_MISSED: Final = re.compile(
    r'waterclock_semantic_finds_total\{reason="(?P<reason>[^"]*)",result="missed"\}\Z'
)


class Service:
    """A running service. `how`: who makes its vectors, for those who watch."""

    def __init__(self, port: int, *, local: bool) -> None:
        """Take where it listens. `local`: it makes vectors of texts by itself."""
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self.how = LOCAL if local else BY_THE_MODEL

    async def has_kept(self, session: aiohttp.ClientSession) -> bool:
        """Say whether there is an answer in it: a sidecar hands one over without waiting for it, so that takes a moment."""

        async def look() -> bool:
            return (await samples(session, self._port)).get(_ENTRIES, 0) > 0

        try:
            return await until(look, KEEPS_WITHIN, "Nothing was kept")
        except Unable:
            return False

    async def why_missed(self, session: aiohttp.ClientSession) -> list[str]:
        """Return why it has found nothing, of the questions so far for which it has not."""
        counted = (await samples(session, self._port)).items()
        matches = ((_MISSED.match(name), count) for name, count in counted)
        return [match["reason"] for match, count in matches if match is not None and count]


@asynccontextmanager
async def running(folder: Path, model: str, session: aiohttp.ClientSession) -> AsyncIterator[Service]:
    """Run a service until the block is left. `model`: who makes vectors where the local ones are missing. Raises Unable."""
    (port,) = free_ports(1)
    words = ["cache", "--listen", f"127.0.0.1:{port}"]
    local = find_spec("wordllama") is not None
    if not local:
        words += ["--embeddings", f"{model}/v1", "--model", "toy", "--words", "0"]
    log = folder / "cache.txt"
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, *words, stdin=DEVNULL, stdout=said, stderr=said
        )

    def complaints() -> str:
        return log.read_text(errors="replace").strip() or "nothing"

    try:
        await ready(process, session, "`waterclock cache`", port, complaints)
        yield Service(port, local=local)
    finally:
        await stop(process)
