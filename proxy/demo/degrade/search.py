"""The retrieval of the demo: a server that finds as many passages as it is asked for, and takes longer the more they are.

GET /search?q=water+clock&k=8   eight passages, the best first
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from typing import Final

from aiohttp import web

from proxy.demo.serving import serving

KEPT: Final = 20_000
MOST: Final = 50
AT_FIRST: Final = 10.0
EACH: Final = 6.0
"""What a search takes, and each passage that it finds, in milliseconds."""
_PASSAGES: Final = (
    "In the courts of Athens a clay jar was filled with water and emptied through a bronze spout.",
    "One such jar has been found. It holds two measures, and runs empty in about six minutes.",
    "Each speech had its measures: more of them the greater the sum that was in dispute.",
    "The water was stopped while laws and testimonies were read out.",
    "By night, and under clouds, it told the hours that no sundial could tell.",
    "The older clocks let water out of a vessel, the later ones let it in.",
    "Outflow slows down as the level falls, unless the walls of the vessel are made to allow for it.",
    "A float with a pointer made of the inflow clock a machine that shows the time.",
)


class Search:
    """What was asked for: `sought` has the number of passages of each search. `factor`: how much slower it is than usual."""

    def __init__(self) -> None:
        """Begin with nothing sought."""
        self.url = ""
        self.factor = 1.0
        self.sought: deque[int] = deque(maxlen=KEPT)

    def app(self) -> web.Application:
        """Return the server."""
        app = web.Application()
        app.router.add_get("/search", self._search)
        return app

    async def _search(self, request: web.Request) -> web.Response:
        wanted = request.query.get("k", "8")
        if not (wanted.isascii() and wanted.isdecimal() and int(wanted) <= MOST):
            return web.json_response({"error": f"k is a number of {MOST} at most"}, status=400)
        self.sought.append(int(wanted))
        await asyncio.sleep((AT_FIRST + EACH * int(wanted)) * self.factor / 1000)
        return web.json_response({"passages": list(islice(cycle(_PASSAGES), int(wanted)))})


@asynccontextmanager
async def running(search: Search) -> AsyncIterator[Search]:
    """Serve a retrieval until the block is left."""
    async with serving(search.app()) as search.url:
        yield search
