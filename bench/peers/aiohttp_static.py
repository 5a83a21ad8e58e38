"""The least that aiohttp can do as a server: one answer, which it holds, to whatever is asked. Run with the port and its file."""

from __future__ import annotations

import sys
from pathlib import Path

from aiohttp import web


def _application(body: bytes) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


if __name__ == "__main__":
    application = _application(Path(sys.argv[2]).read_bytes())
    web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
