"""How long an exact hit takes: the same question to the sidecar again and again, beside servers that hold the answer anyway.

One caller, one kept connection, from just before the request is written to the first byte of the answer. All servers are up,
and are asked in turn, block after block, so that a slow moment of the machine falls on all of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from bench.builds import BUILDS
from bench.degrade.callers import call_spread
from bench.degrade.figures import NGINX, Hits
from bench.peers.base import room_for
from bench.peers.waterclock import sidecar_plan
from bench.procs import HOST, Cores, Failed, Missing, Plan, Running, free_port, progress, running
from bench.upstream import nginx_serving
from proxy.demo.degrade import model
from proxy.demo.degrade.model import Model, Voice

PATH: Final = "/chat/v1/chat/completions"
BLOCKS: Final = 10
WORDS: Final = 300
_WARM_UP: Final = 100
_OK: Final = 200
_ASKS: Final = json.dumps({"model": "large", "messages": [{"role": "user", "content": "Again?"}]}).encode()
_HEADERS: Final = {
    "Accept-Encoding": "identity",
    "Authorization": "Bearer bench",
    "Content-Type": "application/json",
    "Budget-Remaining-Ms": "30000",
}


async def measure(count: int, parent: Path, cores: Cores) -> tuple[list[Hits], int]:
    """`count` hits on each server; returns them, and how many bytes the answer has."""
    async with _model() as large:
        with ExitStack() as stack:
            sidecars = [
                stack.enter_context(running(plan, cores.proxy)) for plan in _sidecars(large.url, parent)
            ]
            body = await _filled(sidecars, large)
            statics = [stack.enter_context(running(plan, cores.proxy)) for plan in _statics(body, parent)]
            up = [*sidecars, *statics]
            found = [Hits(each.plan.name) for each in up]
            await _call_all(up, found, count)
            for each in up:
                each.must_run()
        if len(large.chats) != len(sidecars):
            raise Failed(f"the model was asked {len(large.chats)} times, so some of the hits were none")
    return found, len(body)


@asynccontextmanager
async def _model() -> AsyncIterator[Model]:
    async with model.running(Model({"large": Voice(5, words=WORDS)})) as large:
        yield large


async def _filled(sidecars: Sequence[Running], large: Model) -> bytes:
    """Ask each sidecar twice: the first answer is the model's, the second must be a hit, to the letter."""
    loop = asyncio.get_running_loop()
    body = b""
    for each in sidecars:
        _, body, _ = await loop.run_in_executor(None, _ask, each.plan.port)
        status, again, told = await loop.run_in_executor(None, _ask, each.plan.port)
        if status != _OK or again != body or "hit" not in told:
            raise Failed(f"{each.plan.name}: the second answer is no hit: {status}, Cache-Status: {told!r}")
    if not large.chats:
        raise Failed("the model was never asked")
    return body


def _ask(port: int) -> tuple[int, bytes, str]:
    link = HTTPConnection(HOST, port, timeout=10)
    link.request("POST", PATH, body=_ASKS, headers=_HEADERS)
    answer = link.getresponse()
    body = answer.read()
    told = answer.headers.get("Cache-Status", "")
    link.close()
    return answer.status, body, told


async def _call_all(up: Sequence[Running], found: Sequence[Hits], count: int) -> None:
    for each in up:
        await call_spread(each.plan.port, _request(each.plan.port), 1, _WARM_UP, 0)
    before = [each.cpu_seconds() for each in up]
    for block in range(BLOCKS):
        progress(f"  hits: block {block + 1} of {BLOCKS}")
        for each, hits in zip(up, found, strict=True):
            calls = await call_spread(each.plan.port, _request(each.plan.port), 1, count // BLOCKS, 0)
            if any(call.status != _OK for call in calls):
                raise Failed(f"{each.plan.name} has given another answer than 200")
            hits.blocks.append([call.elapsed_ms for call in calls])
    for each, hits, spent in zip(up, found, before, strict=True):
        hits.cpu_seconds = each.cpu_seconds() - spent


def _request(port: int) -> bytes:
    lines = [f"{name}: {value}" for name, value in _HEADERS.items()]
    head = [f"POST {PATH} HTTP/1.1", f"Host: {HOST}:{port}", f"Content-Length: {len(_ASKS)}", *lines]
    return "\r\n".join([*head, "\r\n"]).encode() + _ASKS


# -- the servers -----------------------------------------------------------------------------------------------------


def _sidecars(upstream: str, parent: Path) -> list[Plan]:
    policy = (
        "routes:\n"
        f"  - {{name: chat, prefix: /chat, upstream: {upstream}, effect: read, cache: {{ttl: 1h, first: true}}}}\n"
    )
    plans = []
    for name in BUILDS:
        try:
            plans.append(sidecar_plan(room_for(parent, name), policy, name))
        except Missing as gap:
            progress(f"left out: {gap}")
    return plans


def _statics(body: bytes, parent: Path) -> list[Plan]:
    """nginx, if it is there, and a bare aiohttp, both with the answer at hand."""
    found = []
    try:
        found.append(_nginx(body, room_for(parent, "nginx")))
    except Missing as gap:
        progress(f"left out: {gap}")
    room, port = room_for(parent, "aiohttp"), free_port()
    (room / "body").write_bytes(body)
    program = Path(__file__).parent.parent / "peers" / "aiohttp_static.py"
    argv = (sys.executable, "-P", str(program), str(port), str(room / "body"))
    found.append(Plan("aiohttp", argv, port, port, "/readyz", room / "output.log", room))
    return found


def _nginx(body: bytes, room: Path) -> Plan:
    text = body.decode().replace("\\", "\\\\").replace('"', '\\"')
    return nginx_serving(
        NGINX, room, f'location / {{ default_type application/json; return 200 "{text}"; }}', "/readyz"
    )
