"""The server behind the sidecar in a soak, and an echo for what comes through tunnels. Run with their two ports.

/small /orders/N /laddered/N   100 bytes at once; of a POST, when its body is there
/cached/N                      1 KiB that may be kept for 10 s
/slow?ms=400                   100 bytes after so long; never, when it is 0
/events?count=20&every=50      events at that distance in milliseconds, then the end of the stream
/readyz                        that it listens
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import parse_qs, urlsplit

import httptools
import uvloop

_SMALL: Final = b"water " * 16 + b"ends"
_LARGE: Final = b"kept" * 256
_STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _whole(body: bytes, fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), fields, body)


def _event(number: int) -> bytes:
    text = b'id: %d\ndata: {"n":%d}\n\n' % (number, number)
    return b"%x\r\n%b\r\n" % (len(text), text)


class _Serving(asyncio.Protocol):
    """One connection, with one request at a time on it."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._later: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_message_complete(self) -> None:
        url, self._url = urlsplit(self._url.decode()), b""
        given = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
        if url.path == "/slow":
            if given["ms"]:
                self._after(given["ms"], self._answer)
        elif url.path == "/events":
            self._transport.write(_STREAM)
            self._events(1, given["count"], given["every"])
        elif url.path.startswith("/cached/"):
            self._transport.write(_whole(_LARGE, b"Cache-Control: max-age=10\r\n"))
        else:
            self._answer()

    def _answer(self) -> None:
        self._transport.write(_whole(_SMALL))

    def _events(self, number: int, count: int, every: int) -> None:
        if number > count:
            self._transport.write(b"0\r\n\r\n")
            return
        self._transport.write(_event(number))
        self._after(every, lambda: self._events(number + 1, count, every))

    def _after(self, ms: int, do: Callable[[], None]) -> None:
        self._later = asyncio.get_running_loop().call_later(ms / 1000, do)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._later is not None:
            self._later.cancel()


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def _serve(port: int, echo: int) -> None:
    loop = asyncio.get_running_loop()
    echoing = await loop.create_server(_Echo, "127.0.0.1", echo, backlog=1024)
    serving = await loop.create_server(_Serving, "127.0.0.1", port, backlog=4096)
    async with echoing, serving:
        await serving.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
