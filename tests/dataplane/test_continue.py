"""`Expect: 100-continue`: who is asked, who is told, and that nobody waits for a word that does not come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dataplane.world import World, request, response

GO_ON = response(100, b"")


def _head(method: str, length: int | None = 5, **fields: Any) -> bytes:
    framing: dict[str, Any] = (
        {"Transfer_Encoding": "chunked"} if length is None else {"Content_Length": length}
    )
    return request(method, Expect="100-continue", **framing, **fields)


def test_a_read_or_idempotent_call_leaves_it_to_the_two_ends() -> None:
    """The tool is asked, its word is passed on, and then the body."""
    world = World()
    client = world.client().sends(_head("PUT"))
    assert client.received == b""
    assert world.upstream().field("Expect") == "100-continue"
    world.upstream().says(GO_ON)
    assert client.statuses == [100]
    client.sends(b"hello")
    assert world.sent.endswith(b"hello")
    world.upstream().answers()
    assert client.statuses == [100, 200]


def test_a_write_is_asked_for_its_body_by_the_sidecar() -> None:
    """It is held for its fingerprint; the tool is asked before it is sent the body, and answered by it."""
    world = World()
    client = world.client().sends(_head("POST"))
    assert client.statuses == [100]
    assert world.upstreams == []
    client.sends(b"hello")
    assert world.upstream().field("Expect") == "100-continue"
    assert not world.sent.endswith(b"hello")
    world.upstream().says(GO_ON)
    assert world.sent.endswith(b"hello")
    assert world.sent.count(b"hello") == 1
    world.upstream().answers()
    assert client.statuses == [100, 200], "it was told once"


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_refusal_comes_before_the_body(method: str) -> None:
    """A tool that says no is not sent the body, and its connection, which still awaits one, is not used again."""
    world = World()
    client = world.client().sends(_head(method))
    if method == "POST":
        client.sends(b"hello")
    world.upstream().answers(b"too large", 413)
    assert client.statuses[-1] == 413
    assert b"hello" not in world.sent
    assert world.upstream().closed
    # A client that was not told to go on may do so or not: nobody can know what its next byte is.
    assert client.field("Connection") == ("close" if method == "PUT" else None)


def test_a_tool_that_does_not_know_the_word_gets_the_body_after_a_while() -> None:
    """RFC 9110 §10.1.1: a client does not wait for ever."""
    world = World()
    client = world.client().sends(_head("POST") + b"hello")
    world.advance(999)
    assert not world.sent.endswith(b"hello")
    world.advance(2)
    assert world.sent.endswith(b"hello")
    world.upstream().says(GO_ON)
    world.upstream().answers()
    assert client.statuses == [100, 200]
    assert world.sent.count(b"hello") == 1


def test_a_large_write_is_told_once() -> None:
    """One that turns out too large to be held was told by the sidecar, so the tool's word is not passed on."""
    world = World()
    client = world.client().sends(_head("POST", None))
    assert client.statuses == [100]
    client.sends(b"180000\r\n" + b"x" * 0x180000 + b"\r\n")
    world.upstream().says(GO_ON)
    client.sends(b"0\r\n\r\n")
    world.upstream().answers()
    assert client.statuses == [100, 200]


def test_a_write_announced_as_too_large_leaves_it_to_the_two_ends() -> None:
    """It is not held, so it is the tool that says when."""
    world = World()
    client = world.client().sends(_head("POST", 2_000_000))
    assert client.received == b""
    world.upstream().says(GO_ON)
    assert client.statuses == [100]


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_silence_is_cut(method: str) -> None:
    """(a) Nobody answers: no deadlock. A body that was never sent on is no doubt but a `sending` one."""
    world = World()
    client = world.client().sends(
        _head(method, Budget_Remaining_Ms=100) + (b"hello" if method == "POST" else b"")
    )
    world.advance(100)
    assert client.statuses[-1] == (424 if method == "POST" else 504)
    assert b"hello" not in world.sent
    assert world.upstream().closed


def test_http_1_0_knows_no_interim_answer() -> None:
    """The field is ignored there, and nothing is parked."""
    world = World()
    client = world.client().sends(_head("POST", version="1.0") + b"hello")
    assert client.received == b""
    assert world.sent.endswith(b"hello")
    world.upstream().says(GO_ON)
    world.upstream().answers()
    assert client.statuses == [200]


def test_a_word_that_nobody_waits_for() -> None:
    """A 100 without an expectation is not passed on."""
    world = World()
    client = world.client().asks("PUT", body=b"hello")
    world.upstream().says(GO_ON)
    world.upstream().answers()
    assert client.statuses == [200]
