"""The least of servers: it answers what probes ask, and nothing that arrives troubles it."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admin import plain
from proxy.admin.plain import PlainSite, Reply
from proxy.admin.problems import Problem
from proxy.admin.server import Listening
from proxy.wire.events import RequestHead
from tests.admin.asking import ask, exchange, parsed, rest, served

GET = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"


async def hello(head: RequestHead) -> Reply:
    return Reply(b"hello " + (head.get(b"x-name") or b"you"), "text/plain; charset=utf-8")


async def large(_: RequestHead) -> Reply:
    return Reply(b"x" * 10_000_000, "text/plain")


async def broken(_: RequestHead) -> Reply:
    raise ZeroDivisionError("ours")


@pytest.fixture
async def at() -> AsyncIterator[Listening]:
    site = PlainSite({"/hello": hello, "/large": large, "/broken": broken})
    async with served(site) as listening:
        yield listening


async def test_page(at: Listening) -> None:
    """With a query or without, the page gets the request's head."""
    answer = await ask(at, "/hello?a=b", headers={"X-Name": "there"})
    assert (answer.status, answer.body) == (200, b"hello there")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert (answer.headers["content-length"], answer.headers["connection"]) == ("11", "close")


async def test_head_is_get_without_the_body(at: Listening) -> None:
    """Its length is still told."""
    answer = await ask(at, "/hello", "HEAD")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "9")


async def test_page_that_is_not_there(at: Listening) -> None:
    """The answer shows those that are."""
    answer = await ask(at, "/nothing")
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json["remedy"] == "This port has /hello, /large, /broken."
    assert (await ask(at, "http://x/hello")).status == 404


async def test_other_methods(at: Listening) -> None:
    """Refused before their body has come, and the answer is not lost by closing on what is still being sent."""
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        answer = await ask(at, "/hello", method, body=b"x" * 3_000_000)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_own_fault_is_logged_and_answered(at: Listening, caplog: pytest.LogCaptureFixture) -> None:
    """A page that fails is no closed connection, and no secret."""
    answer = await ask(at, "/broken")
    assert (answer.status, answer.json["title"]) == (500, "Internal Server Error")
    assert b"ours" not in answer.body
    assert [record.getMessage() for record in caplog.records] == ["GET /broken failed"]


async def test_large_answer_arrives_whole(at: Listening) -> None:
    """More than the socket's buffers hold, to a reader that takes its time."""
    reader, writer = await asyncio.open_connection(at.address.host, at.address.port)
    writer.write(GET.replace(b"hello", b"large"))
    data = b""
    while part := await reader.read(1_000_000):
        data += part
        await asyncio.sleep(0.01)
    assert len(parsed(data).body) == 10_000_000
    writer.close()


async def test_head_in_pieces(at: Listening) -> None:
    """However the bytes are cut, it is one request."""
    reader, writer = await asyncio.open_connection(at.address.host, at.address.port)
    for at_byte in range(len(GET)):
        writer.write(GET[at_byte : at_byte + 1])
        await asyncio.sleep(0)
    assert parsed(await rest(reader)).body == b"hello you"
    writer.close()


async def test_client_that_closes_its_side_is_answered(at: Listening) -> None:
    """`nc -N` and its kind send the end of their side along."""
    reader, writer = await asyncio.open_connection(at.address.host, at.address.port)
    writer.write(GET)
    writer.write_eof()
    assert parsed(await rest(reader)).body == b"hello you"
    writer.close()


async def test_one_request_to_a_connection(at: Listening) -> None:
    """What is sent after it is not answered, as `Connection: close` said."""
    answer = await exchange(at, GET * 3)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert parsed(answer).body == b"hello you"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /hello HTTP/9.9\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n", 431),
    ],
)
async def test_bytes_that_are_no_request(
    at: Listening, sent: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever sent them is told, the log stays as it is, and the next one is served."""
    caplog.set_level(logging.WARNING)
    assert parsed(await exchange(at, sent)).status == status
    assert caplog.records == []
    assert (await ask(at, "/hello")).status == 200


async def test_request_that_never_ends(at: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs a connection for a while, and no more; silence too."""
    monkeypatch.setattr(plain, "_REQUEST_WITHIN_S", 0.1)
    for sent in (b"", b"GET /hel"):
        assert await exchange(at, sent) == b""


async def test_answer_that_nobody_reads(at: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends, and what was to be sent is let go."""
    monkeypatch.setattr(plain, "_ANSWER_WITHIN_S", 0.1)
    reader, writer = await asyncio.open_connection(at.address.host, at.address.port)
    writer.write(GET.replace(b"hello", b"large"))
    await asyncio.sleep(0.3)
    assert len(await rest(reader)) < 10_000_000
    writer.close()


async def test_client_that_leaves_ends_its_page() -> None:
    """Nothing goes on for nobody."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(_: RequestHead) -> Reply:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        raise AssertionError

    async with served(PlainSite({"/hello": endless})) as at, asyncio.timeout(5):
        _, writer = await asyncio.open_connection(at.address.host, at.address.port)
        writer.write(GET)
        await begun.wait()
        reset = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()
        await ended.wait()


def test_problem_of_a_page() -> None:
    """A page can say what is wrong in its own words."""

    async def refusing(_: RequestHead) -> Reply:
        raise Problem(HTTPStatus.CONFLICT, "Not now.", "Later.")

    async def asked() -> int:
        async with served(PlainSite({"/": refusing})) as at:
            return (await ask(at, "/")).status

    assert asyncio.run(asked()) == 409


class Recorder(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def write_eof(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


@given(pieces=st.lists(st.binary(max_size=200) | st.sampled_from([GET, GET[:10], GET[10:], b"\r\n\r\n"])))
def test_nothing_that_arrives_raises(pieces: list[bytes]) -> None:
    """Whatever comes, it is at most one answer, and what is written is HTTP."""

    async def feed() -> Recorder:
        protocol, transport = PlainSite({"/hello": hello}).accept(), Recorder()
        protocol.connection_made(transport)
        for piece in pieces:
            protocol.data_received(piece)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        protocol.connection_lost(None)
        return transport

    transport = asyncio.run(feed())
    if transport.written:
        assert parsed(transport.written).status in (200, 400, 404, 405, 414, 431, 501, 505)
        assert transport.closed
