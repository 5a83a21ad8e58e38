"""A stream that runs out of time on a route with `on_cut: truncate`: closed in its own dialect, and said to be so."""

from __future__ import annotations

import json

import pytest

from proxy.core.calls import Kind, Outcome
from proxy.core.policy import Policy, Route, Truncate
from proxy.core.units import MILLISECOND
from tests.dataplane.world import FakeClient, World

SSE = b"text/event-stream"


def _world(**route: object) -> World:
    truncate = Truncate(margin=100 * MILLISECOND)
    return World(Policy(fallback=Route("fallback", effect=Kind.READ, truncate=truncate, **route)))  # type: ignore[arg-type]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _begun(world: World, kind: bytes, *pieces: bytes, left_ms: int = 1000, minor: int = 1) -> FakeClient:
    client = world.client()
    client.sends(
        b"POST http://model/v1/chat HTTP/1.%d\r\nHost: model\r\nBudget-Remaining-Ms: %d\r\n"
        b"Accept-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}" % (minor, left_ms)
    )
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % kind)
    for piece in pieces:
        world.upstream().says(_chunk(piece))
    return client


def _openai(text: str, **delta: object) -> bytes:
    said = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text, **delta}, "finish_reason": None}],
    }
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def _unchunked(body: bytes) -> tuple[bytes, bytes]:
    """The data of a chunked body, and what follows its last chunk."""
    data = b""
    while True:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return data, rest
        data += rest[:length]
        body = rest[length + 2 :]


def test_a_stream_is_closed_in_its_dialect_shortly_before_its_time_is_over() -> None:
    world = _world()
    client = _begun(world, SSE, _openai("Hello"))
    assert client.field("Trailer") == "Budget-Degraded, Budget-Outcome"
    assert world.upstream().field("Accept-Encoding") == "identity"
    world.advance(899)
    assert world.records == []
    world.advance(2)
    data, trailers = _unchunked(client.body)
    assert b"[response truncated]" in data
    assert b'"finish_reason":"length"' in data.replace(b" ", b"")
    assert data.endswith(b"data: [DONE]\n\n")
    assert b"Budget-Degraded: level=1; rung=truncated; reason=truncated\r\n" in trailers
    assert b"Budget-Outcome: deadline_exceeded" in trailers
    assert world.upstream().closed
    assert (world.record.outcome, world.record.degraded.why if world.record.degraded else None) == (
        Outcome.DEADLINE_EXCEEDED,
        "truncated",
    )
    assert not client.transport.closing  # it can ask again


def test_a_stream_that_ends_by_itself_is_left_alone() -> None:
    world = _world()
    client = _begun(world, SSE, _openai("Hello"), b"data: [DONE]\n\n")
    world.upstream().says(b"0\r\n\r\n")
    assert b"truncated" not in client.body
    assert world.record.outcome == Outcome.COMPLETED
    assert world.record.degraded is None


def test_a_stream_that_is_over_but_for_its_framing_is_complete() -> None:
    world = _world()
    client = _begun(world, SSE, _openai("Hello"), b"data: [DONE]\n\n")
    world.advance(901)
    assert b"truncated" not in client.body
    assert client.body.endswith(b"0\r\n\r\n") or b"0\r\n" in client.body
    assert world.record.outcome == Outcome.COMPLETED


def test_a_tool_call_that_is_cut_is_an_error() -> None:
    call = {
        "tool_calls": [
            {
                "index": 0,
                "id": "t",
                "type": "function",
                "function": {"name": "pay", "arguments": '{"amount": 1'},
            }
        ]
    }
    world = _world()
    client = _begun(world, SSE, _openai("", **call))
    world.advance(989)
    assert world.records == []
    world.advance(2)
    assert b"event: error" in client.body
    assert b"truncated]" not in client.body
    assert client.transport.lost
    assert world.record.degraded is None


@pytest.mark.parametrize("then", ["whole", "over"])
def test_a_tool_call_that_is_open_when_it_is_time_may_become_whole(then: str) -> None:
    """Nothing is gained by breaking off earlier than any other stream would be."""
    function = {"name": "pay", "arguments": '{"amount": 1'}
    world = _world()
    client = _begun(world, SSE, _openai("", tool_calls=[{"index": 0, "id": "t", "function": function}]))
    world.advance(950)
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    whole = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [last]}
    world.upstream().says(_chunk(b"data: " + json.dumps(whole).encode() + b"\n\n"))
    if then == "over":
        world.upstream().says(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    world.advance(45)
    data, _ = _unchunked(client.body)
    assert data.endswith(b"data: [DONE]\n\n")
    assert b"truncated]" not in data
    cut = then == "whole"
    assert world.record.outcome == (Outcome.DEADLINE_EXCEEDED if cut else Outcome.COMPLETED)
    assert (world.record.degraded is not None) is cut


def test_a_stream_that_begins_when_it_is_time_to_close_it_has_until_its_end() -> None:
    world = _world()
    client = world.client().asks(Budget_Remaining_Ms=1000)
    world.advance(950)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    world.upstream().says(head)
    world.advance(20)
    world.upstream().says(_chunk(_openai("Hello")))
    world.advance(25)
    data, _ = _unchunked(client.body)
    assert b"Hello" in data
    assert data.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("kind", [b"text/plain; charset=utf-8", b"text/plain"])
def test_text_ends_between_two_characters(kind: bytes) -> None:
    world = _world()
    client = _begun(world, kind, "Grüße".encode(), "é".encode()[:1])
    world.advance(901)
    data, _ = _unchunked(client.body)
    assert data.decode().startswith("Grüße")
    assert data.decode().endswith("[response truncated]")


def test_lines_end_between_two_lines() -> None:
    line = {
        "model": "m",
        "created_at": "2024-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "Hi"},
        "done": False,
    }
    world = _world()
    client = _begun(world, b"application/x-ndjson", json.dumps(line).encode() + b"\n", b'{"model":"m","mess')
    world.advance(901)
    data, _ = _unchunked(client.body)
    last = json.loads(data.splitlines()[-1])
    assert (last["done"], last["done_reason"]) == (True, "length")


def test_an_unknown_dialect_gets_the_error_event() -> None:
    world = _world()
    client = _begun(world, SSE, b'data: {"weather":"fine"}\n\n')
    world.advance(991)
    assert b"event: error" in client.body
    assert client.transport.lost


def test_lines_of_an_unknown_dialect_end_with_an_error_in_their_own_form() -> None:
    world = _world()
    client = _begun(world, b"application/x-ndjson", b'{"weather":"fine"}\n')
    world.advance(991)
    assert b'"error"' in client.body
    assert b"event: error" not in client.body
    assert client.transport.lost


def test_a_packed_stream_cannot_be_closed() -> None:
    world = _world()
    client = world.client().asks(Budget_Remaining_Ms=1000)
    world.upstream().says(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        + _chunk(b"\x1f\x8b")
    )
    world.advance(1001)
    assert client.transport.lost
    assert client.field("Trailer") is None


def test_an_old_client_sees_the_end_of_its_connection() -> None:
    world = _world()
    client = _begun(world, SSE, _openai("Hello"), minor=0)
    world.advance(901)
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.transport.closing


def test_a_short_allowance_gives_half_of_itself_at_most() -> None:
    world = _world()
    client = _begun(world, SSE, _openai("Hello"), left_ms=100)
    world.advance(49)
    assert world.records == []
    world.advance(2)
    assert b"[DONE]" in client.body


def test_an_answer_with_a_length_is_cut_as_ever() -> None:
    world = _world()
    client = world.client().asks(Budget_Remaining_Ms=1000)
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nhalf")
    world.advance(1001)
    assert client.transport.lost
