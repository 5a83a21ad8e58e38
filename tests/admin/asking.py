"""A plain HTTP/1.1 client over a socket, which sends exactly what a test says and follows nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11

from proxy.admin.server import Listening, Site, listen
from proxy.core.policy import Address

ANY_PORT = Address("127.0.0.1", 0)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def served(site: Site) -> AsyncIterator[Listening]:
    listening = await listen(site, ANY_PORT, "listen.control")
    try:
        yield listening
    finally:
        await listening.close()


async def ask(
    at: Listening,
    target: str,
    method: str = "GET",
    *,
    host: str | None = None,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """One request on a connection of its own."""
    fields = [
        ("Host", host or f"127.0.0.1:{at.address.port}"),
        ("Connection", "close"),
        *(headers or {}).items(),
    ]
    if body:
        fields.append(("Content-Length", str(len(body))))
    head = (
        f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
    )
    return parsed(await exchange(at, head.encode() + body), method)


async def exchange(at: Listening, sent: bytes) -> bytes:
    """Send bytes, and return all that comes until the other side closes."""
    reader, writer = await asyncio.open_connection(at.address.host, at.address.port)
    writer.write(sent)
    received = await rest(reader)
    writer.close()
    return received


async def rest(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side ends the connection, in whatever way."""
    received = b""
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionResetError):
            while part := await reader.read(1 << 20):
                received += part
    return received


def parsed(data: bytes, method: str = "GET") -> Answer:
    """Read one answer with an independent parser."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    connection.receive_data(data)
    connection.receive_data(b"")
    response = connection.next_event()
    assert isinstance(response, h11.Response), response
    body = bytearray()
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data)
        body += event.data
    headers = {name.decode().lower(): value.decode() for name, value in response.headers}
    return Answer(response.status_code, headers, bytes(body))
