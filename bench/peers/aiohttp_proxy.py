"""The least that aiohttp can do as a proxy: its server, its client, and nothing in between.

No limits, no log, no metrics, so this is an upper bound for a proxy built on it. Run with the port to listen on, and
with the authority's file where it shall speak TLS to whoever was asked for by http.
"""

from __future__ import annotations

import ssl
import sys

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"})
_SESSION = web.AppKey("session", ClientSession)
_TLS = web.AppKey("tls", bool)


async def _forward(request: web.Request) -> web.Response:
    body = await request.read() if request.can_read_body else None
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
    url = request.url.with_scheme("https") if request.app[_TLS] else request.url
    async with request.app[_SESSION].request(
        request.method, url, headers=headers, data=body, allow_redirects=False
    ) as answer:
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
        kept.pop("Content-Length", None)
        return web.Response(status=answer.status, headers=kept, body=await answer.read())


async def _ready(request: web.Request) -> web.Response:
    return web.Response(text="ready")


async def _application(ca: str | None) -> web.Application:
    app = web.Application()
    app[_TLS] = ca is not None
    trust = ssl.create_default_context(cafile=ca) if ca else True
    app[_SESSION] = ClientSession(
        connector=TCPConnector(limit=0, ssl=trust), cookie_jar=DummyCookieJar(), auto_decompress=False
    )
    app.on_cleanup.append(lambda app: app[_SESSION].close())
    app.router.add_get("/readyz", _ready)
    app.router.add_route("*", "/{path:.*}", _forward)
    return app


if __name__ == "__main__":
    port, *cas = sys.argv[1:]
    application = _application(cas[0] if cas else None)
    web.run_app(application, host="127.0.0.1", port=int(port), backlog=4096, access_log=None, print=None)
