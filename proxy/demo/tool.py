"""The tool that the agent calls: a small HTTP server on the loopback, which takes as long as the URL says.

GET  /do/A?needs=740       answers after 740 ms
POST /orders?needs=1500    commits the order at once, and answers after 1500 ms
GET  /orders               how many orders were committed
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from proxy.demo.serving import serving


@dataclass(slots=True)
class Tool:
    """What the tool itself knows: its address, the bodies of committed orders, and how often each URL was asked for."""

    url: str = ""
    orders: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


@asynccontextmanager
async def running() -> AsyncIterator[Tool]:
    """Serve on a free port of the loopback until the block is left."""
    tool = Tool()
    async with serving(_app(tool), cancels=False) as tool.url:
        yield tool


def _app(tool: Tool) -> web.Application:
    async def step(request: web.Request) -> web.Response:
        tool.seen[request.path_qs] += 1
        await _take(request)
        return web.json_response({"step": request.match_info["name"]})

    async def order(request: web.Request) -> web.Response:
        tool.seen[request.path_qs] += 1
        tool.orders.append(await request.text())
        number = len(tool.orders)
        await _take(request)
        return web.json_response({"order": number}, status=201)

    async def count(_: web.Request) -> web.Response:
        return web.json_response({"orders": len(tool.orders)})

    app = web.Application()
    app.add_routes(
        [
            web.get("/do/{name}", step),
            web.get("/careful/{name}", step),
            web.post("/orders", order),
            web.get("/orders", count),
        ]
    )
    return app


async def _take(request: web.Request) -> None:
    await asyncio.sleep(int(request.query["needs"]) / 1000)
