"""`waterclock cache`, as the chart starts it: a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.semantic.shelves import find_body, keep_body
from tests.support.ports import free_port
from tests.support.sidecar import PROGRAM
from tests.support.waiting import PATIENCE


@asynccontextmanager
async def cache(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command, and end it."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "cache",
        *arguments,
        env={"PATH": os.environ["PATH"], **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ready(port: int) -> None:
    """Wait until it answers."""
    async with asyncio.timeout(2 * PATIENCE), aiohttp.ClientSession(trust_env=False) as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.02)


async def test_it_starts_answers_and_ends_in_peace() -> None:
    """With a line in its log for each of that."""
    port = free_port()
    async with cache("--listen", f"127.0.0.1:{port}", "--bytes", "8MiB", "--drain", "100ms") as process:
        await ready(port)
        url = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession(url, trust_env=False) as session:
            async with session.post("/v1/keep", json=keep_body("Is the ingest worker up?")) as response:
                assert response.status == 204
            async with session.post(
                "/v1/find", json=find_body("please, is the ingest worker up")
            ) as response:
                assert (await response.json())["found"] is True
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines] == ["started", "draining", "stopped"]
    assert (lines[0]["listen"], lines[0]["embeddings"], lines[0]["bytes"]) == (
        f"127.0.0.1:{port}",
        "local",
        8 << 20,
    )


async def said(*arguments: str, **environment: str) -> tuple[int | None, str]:
    """What the command says when it does not start: nothing in its log, since nothing has begun that could end."""
    async with cache(*arguments, **environment) as process, asyncio.timeout(2 * PATIENCE):
        out, err = await process.communicate()
    assert out == b""
    return process.returncode, err.decode()


async def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        status, err = await said("--listen", place)
    assert status == 1
    assert err == (
        f"waterclock: cannot start: {place} cannot be listened on: address already in use; "
        "end what listens there, or give --listen another address\n"
    )


@pytest.mark.parametrize("missing", ["usearch", "wordllama", "numpy"])
async def test_what_is_not_installed_is_told(missing: str, tmp_path: Path) -> None:
    """With the command that installs it."""
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('no', name='{missing}')\n")
    status, err = await said("--listen", f"127.0.0.1:{free_port()}", PYTHONPATH=str(tmp_path))
    assert status == 1
    assert f"{missing} is not installed; run: pip install 'waterclock[semantic]'" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("--listen", "10805"), "write one like 0.0.0.0:10805"),
        (("--listen", "cache:10805"), "write one like 0.0.0.0:10805"),
        (("--listen", "127.0.0.1:99999"), "write 1 to 65535"),
        (("--bytes", "256"), "write 256B, 512KiB"),
        (("--bytes", "1KiB"), "write one like 256MiB"),
        (("--timeout", "5"), "write 5s"),
        (("--timeout", "1h"), "write 10ms to 1m"),
        (("--drain", "1h"), "write 0s to 1m"),
        (("--embeddings", "openai"), "write local, or a URL"),
        (("--embeddings", "http://"), "write local, or a URL"),
        (("--words", "2"), "0<=x<=1"),
        (("--entries", "0"), "1<=x"),
    ],
)
async def test_a_value_that_is_none_is_told_with_what_to_write(
    arguments: tuple[str, ...], remedy: str
) -> None:
    status, err = await said(*arguments)
    assert status == 2
    assert remedy in " ".join(err.replace("│", " ").split())


OFFLINE = """
import logging, os, socket, sys
def no(*_): raise AssertionError("the network was asked for")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = no
from proxy.semantic.embeddings.local import LocalEmbeddings
from proxy.semantic.worker import Worker
import asyncio
[vector] = asyncio.run(LocalEmbeddings(Worker()).embed(["a table for two"]))
assert len(vector) == 256
assert not logging.getLogger().handlers and logging.getLogger().level == logging.WARNING
print(*os.listdir(os.environ["HOME"]))
"""


async def test_local_embeddings_need_no_network_and_write_nothing(tmp_path: Path) -> None:
    """Nor do they set up the logging of the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OFFLINE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, out.strip(), err) == (0, b"", b"")
