"""A tool: it answers after as long as it is told (`?wait=MS`), and counts what it has done.

A write counts, and is remembered by its body, before the tool begins to wait: whoever goes meanwhile does not know.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

WRITES: list[str] = []
READS: list[str] = []


async def pause(request: web.Request) -> None:
    """Wait for as long as the request says."""
    await asyncio.sleep(int(request.query.get("wait", "0")) / 1000)


async def read(request: web.Request) -> web.Response:
    """Answer a read."""
    READS.append(request.query.get("name", ""))
    await pause(request)
    return web.json_response({"read": len(READS), "headers": dict(request.headers)})


async def write(request: web.Request) -> web.Response:
    """Do a write at once, and answer later."""
    WRITES.append(await request.text())
    await pause(request)
    return web.json_response({"written": len(WRITES)}, status=201)


async def seen(request: web.Request) -> web.Response:
    """Say what has been done."""
    return web.json_response({"reads": READS, "writes": WRITES})


async def healthz(request: web.Request) -> web.Response:
    """Say that it is there."""
    return web.Response(text="ok\n")


def main() -> None:
    """Serve on port 8080."""
    app = web.Application()
    app.add_routes(
        [
            web.get("/read", read),
            web.post("/write", write),
            web.get("/seen", seen),
            web.get("/healthz", healthz),
        ]
    )
    web.run_app(app, port=8080, print=None, shutdown_timeout=0.5)  # nobody waits for what it was told to wait


main()
