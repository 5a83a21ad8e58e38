"""An agent that knows nothing of budgets: `POST /job` has a list of calls, which it makes one after the other.

It takes its proxy from the environment, or, with TRUST_ENV=no, knows nothing of proxies either. Its answer is what came
of each call.
"""

from __future__ import annotations

import os
import time
from typing import Any

from aiohttp import ClientSession, web

PORT = int(os.environ.get("APP_PORT", "8080"))
TRUST_ENV = os.environ.get("TRUST_ENV", "yes") == "yes"


async def call(session: ClientSession, told: dict[str, Any]) -> dict[str, Any]:
    """Make one call, and say how it went."""
    began = time.monotonic()
    async with session.request(
        told.get("method", "GET"), told["url"], data=told.get("body"), headers=told.get("headers")
    ) as answer:
        text = await answer.text()
        return {
            "status": answer.status,
            "headers": dict(answer.headers),
            "body": text,
            "ms": round((time.monotonic() - began) * 1000),
        }


async def job(request: web.Request) -> web.Response:
    """Do the job."""
    async with ClientSession(trust_env=TRUST_ENV) as session:
        done = [await call(session, told) for told in await request.json()]
    return web.json_response(done)


async def healthz(request: web.Request) -> web.Response:
    """Say that it is there."""
    return web.Response(text="ok\n")


def main() -> None:
    """Serve."""
    app = web.Application()
    app.add_routes([web.post("/job", job), web.get("/healthz", healthz)])
    web.run_app(app, port=PORT, print=None)


main()
