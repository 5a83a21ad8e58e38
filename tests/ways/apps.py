"""Agents' apps as people build them, each on a server of its own: `/run` makes one call to a tool through the sidecar.

`/run?tool=URL&proxy=URL` answers with what the tool said; `/stream` answers in pieces; `/hang` never does. Every app
calls its tool without a word of budgets, as an app does that nobody has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web

from tests.support.ports import free_port

PIECES = [b"first ", b"second ", b"third"]
App = Callable[[], AbstractContextManager[int]]


@contextlib.contextmanager
def with_aiohttp() -> Iterator[int]:
    """aiohttp's server, with a client of aiohttp inside; it speaks WebSocket too (`/ws`)."""
    app = web.Application()
    app.router.add_route("*", "/run", _run)
    app.router.add_get("/stream", _stream)
    app.router.add_get("/hang", _hang)
    app.router.add_get("/ws", _talk)
    port, loop = free_port(), asyncio.new_event_loop()
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _run(request: web.Request) -> web.Response:
    async with (
        aiohttp.ClientSession() as session,
        session.get(request.query["tool"], proxy=request.query["proxy"]) as response,
    ):
        return web.Response(body=await response.read())


async def _stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = "application/x-ndjson"
    await response.prepare(request)
    for piece in PIECES:
        await response.write(piece)
        await asyncio.sleep(0.02)
    return response


async def _hang(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response()


async def _talk(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        await socket.send_str(f"heard {message.data}")
    return socket


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path == "/hang":
            self.rfile.read(1)  # until the other side has left
            self.close_connection = True
        elif path == "/stream":
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in PIECES:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            handler = urllib.request.ProxyHandler({"http": query["proxy"][0]})
            with urllib.request.build_opener(handler).open(query["tool"][0], timeout=10) as response:
                body = response.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def with_http_server() -> Iterator[int]:
    """The standard library's threaded server, with urllib inside."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


APPS: dict[str, App] = {"aiohttp": with_aiohttp, "http.server": with_http_server}
