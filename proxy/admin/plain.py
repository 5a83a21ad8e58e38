"""As much of an HTTP server as probes and scrapers need: GET and HEAD of a few pages, one request to a connection.

Requests are read by `wire`, as strictly as calls are. A body is never looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, cast

from proxy.admin.problems import PROBLEM_JSON, Problem, log, own_fault
from proxy.wire.events import RequestHead, WireFault
from proxy.wire.limits import Limits
from proxy.wire.parser import RequestParser
from proxy.wire.render import line, response_head

_LIMITS: Final = Limits(head_bytes=16 * 1024, field_count=100, target_bytes=2048)
_REQUEST_WITHIN_S: Final = 10.0
_ANSWER_WITHIN_S: Final = 60.0  # from the request's arrival until its answer has been read
_CLOSE_WITHIN_S: Final = 1.0  # for a client that goes on sending after it was answered


class Reply(NamedTuple):
    """The answer of a page."""

    body: bytes
    content_type: str
    status: HTTPStatus = HTTPStatus.OK


Page = Callable[[RequestHead], Awaitable[Reply]]


class PlainSite:
    """Serves pages by their paths."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        """Take the pages. The paths are shown to who asks for another one."""
        self._pages = pages

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Connection(self)

    async def close(self) -> None:
        """Nothing is open but connections, and those are closed by who accepted them."""

    async def reply(self, head: RequestHead) -> Reply:
        """Return the answer to a request."""
        try:
            return await self._page(head)(head)
        except Problem as problem:
            return reply_of(problem)
        except Exception:  # noqa: BLE001 - reported here, and answered like any other error
            log.exception("%s %s failed", head.method, head.target.partition("?")[0])
            return reply_of(own_fault())

    def _page(self, head: RequestHead) -> Page:
        path = head.target.partition("?")[0]
        page = self._pages.get(path)
        if page is None:
            paths = ", ".join(self._pages)
            raise Problem(HTTPStatus.NOT_FOUND, f"There is nothing at {path}.", f"This port has {paths}.")
        if head.method not in ("GET", "HEAD"):
            raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not take {head.method}.", "Use GET.")
        return page


def reply_of(problem: Problem) -> Reply:
    """Return the answer that shows a problem."""
    return Reply(problem.body(), PROBLEM_JSON, problem.status)


def _of_fault(fault: WireFault) -> Reply:
    return reply_of(
        Problem(HTTPStatus(fault.status), fault.detail, "Send one GET of HTTP/1.1 to a connection.")
    )


class _Connection(asyncio.Protocol):
    """One connection: a request, its answer, and the end."""

    def __init__(self, site: PlainSite) -> None:
        self._site = site
        self._loop = asyncio.get_running_loop()
        self._parser = RequestParser(_LIMITS)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # the first thing that is made known
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._end_within(_REQUEST_WITHIN_S)

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport.is_closing():
            return
        for event in self._parser.feed(data):
            if isinstance(event, RequestHead):
                self._end_within(_ANSWER_WITHIN_S)
                self._answering = self._loop.create_task(self._answer(event))
                return
            if isinstance(event, WireFault):
                self._send(_of_fault(event))
                return

    def eof_received(self) -> bool:
        """Who has sent its request and closed its side is still waiting for the answer."""
        return self._answering is not None and not self._answering.done()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    async def _answer(self, head: RequestHead) -> None:
        self._send(await self._site.reply(head), bodiless=head.method == "HEAD")

    def _send(self, reply: Reply, *, bodiless: bool = False) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        lines = [
            line(b"Content-Type", reply.content_type.encode()),
            line(b"Content-Length", b"%d" % len(reply.body)),
            line(b"Connection", b"close"),
        ]
        if reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append(line(b"Allow", b"GET, HEAD"))
        transport.write(response_head(reply.status, None, lines) + (b"" if bodiless else reply.body))
        # Closing both sides at once, with a body still arriving, would reset the connection and the answer with it.
        transport.write_eof()
        self._end_within(_ANSWER_WITHIN_S if transport.get_write_buffer_size() else _CLOSE_WITHIN_S)

    def _end_within(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, self._transport.abort)
