"""What becomes of answers on their way back: what is held, what passes, and how what is cut ends."""

from __future__ import annotations

import json

import pytest

from proxy.core.policy import Policy, Writes
from tests.dataplane.world import World, request, response

CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _sse(extra: bytes = b"") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        + extra
        + b"\r\n"
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_what_may_be_repeated_is_not_held(method: str) -> None:
    """A head goes on at once, and the body as it comes."""
    world = World()
    client = world.client().asks(method)
    world.upstream().says(CHUNKS)
    assert client.statuses == [200]
    world.upstream().says(_chunk(b"one"))
    assert client.body == _chunk(b"one")


def test_the_answer_to_a_write_is_held_until_it_is_whole() -> None:
    """Not a byte before its end, so that a cut can still be told with a status."""
    world = World()
    client = world.client().asks("POST", body=b"{}")
    world.upstream().says(CHUNKS + _chunk(b"one"))
    world.advance(249)
    assert client.received == b""
    world.upstream().says(_chunk(b"two") + b"0\r\n\r\n")
    assert client.statuses == [200]
    assert client.body == _chunk(b"onetwo") + b"0\r\n\r\n"


def test_the_answer_to_a_write_is_held_for_no_longer_than_that() -> None:
    """Counted from its head, not from the request."""
    world = World()
    client = world.client().asks("POST", body=b"{}")
    world.advance(1000)
    world.upstream().says(CHUNKS + _chunk(b"one"))
    world.advance(249.9)
    assert client.received == b""
    world.advance(0.2)
    assert client.statuses == [200]
    assert client.body == _chunk(b"one")


def test_the_answer_to_a_write_is_held_up_to_a_size() -> None:
    """What is larger is passed on as it comes from there on."""
    world = World(Policy(writes=Writes(hold_back_bytes=1000)))
    client = world.client().asks("POST", body=b"{}")
    world.upstream().says(CHUNKS + _chunk(b"x" * 1000))
    assert client.received == b""
    world.upstream().says(_chunk(b"y"))
    assert client.body == _chunk(b"x" * 1000 + b"y")


@pytest.mark.parametrize(
    "kind",
    [
        "text/event-stream",
        "text/event-stream; charset=utf-8",
        "Text/Event-Stream",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/json-seq",
        "application/grpc-web+proto",
        "application/vnd.amazon.eventstream",
        "multipart/x-mixed-replace; boundary=x",
    ],
)
def test_streams_are_never_held(kind: str) -> None:
    """What is made to be read as it comes passes as it comes, also in answer to a write."""
    world = World()
    client = world.client().asks("POST", body=b"{}")
    world.upstream().says(
        b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % kind.encode()
    )
    assert client.statuses == [200]
    world.upstream().says(_chunk(b"data: 1\n\n"))
    assert client.body == _chunk(b"data: 1\n\n")


def test_an_event_stream_is_passed_event_by_event() -> None:
    """What has come of an event that is not whole is kept back: a client that is cut must not take it for one."""
    world = World()
    client = world.client().asks()
    world.upstream().says(_sse() + _chunk(b"data: 1\n\ndata: 2"))
    assert client.body == _chunk(b"data: 1\n\n")
    world.upstream().says(_chunk(b"\r\n\r\ndata: 3\n\n"))
    assert client.body == _chunk(b"data: 1\n\n") + _chunk(b"data: 2\r\n\r\ndata: 3\n\n")


@pytest.mark.parametrize("tail", [b"", b"data: half an ev"], ids=["between events", "within an event"])
def test_a_cut_event_stream_ends_in_its_own_form(tail: bytes) -> None:
    """With an error event, before the allowance ends, and never with a last chunk. Of half an event nobody has seen a thing."""
    world = World()
    client = world.client().asks(Budget_Remaining_Ms=1000)
    world.upstream().says(_sse() + _chunk(b"data: 1\n\n" + tail))
    world.advance(989)
    assert world.records == []
    world.advance(1.5)
    assert world.record.outcome == "deadline_exceeded"
    _, _, after = client.body.partition(_chunk(b"data: 1\n\n"))
    assert not client.body.endswith(b"0\r\n\r\n")
    assert client.transport.lost
    event = after.partition(b"\r\n")[2].decode()
    assert event.startswith("event: error\ndata: ")
    error = json.loads(event.partition("data: ")[2])["error"]
    assert (error["type"], error["record"]) == ("deadline_exceeded", world.record.record)


def test_a_short_allowance_takes_less_from_a_stream() -> None:
    """The end of a stream is early by a tenth of its allowance at most."""
    world = World()
    world.client().asks(Budget_Remaining_Ms=20)
    world.upstream().says(_sse())
    world.advance(17.9)
    assert world.records == []
    world.advance(0.2)
    assert len(world.records) == 1


def test_a_compressed_or_sized_stream_is_cut_like_any_body() -> None:
    """What cannot be read here, or has a length that would no longer fit, gets no event."""
    for head in (
        _sse(b"Content-Encoding: gzip\r\n"),
        _sse().replace(b"Transfer-Encoding: chunked", b"Content-Length: 99"),
    ):
        world = World()
        client = world.client().asks(Budget_Remaining_Ms=100)
        world.upstream().says(head)
        world.advance(99)
        assert world.records == []
        world.advance(1)
        assert client.body == b""
        assert client.transport.lost


def test_events_that_came_with_the_break_are_passed_on() -> None:
    """What a server sent before it broke off arrived, even when both were heard at once."""
    world = World()
    client = world.client().asks()
    world.upstream().says(_sse())
    world.upstream().says(_chunk(b"data: 1\n\n") + b"no chunk size\r\n")
    assert client.body.startswith(_chunk(b"data: 1\n\n"))
    assert b"upstream_failed" in client.body


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("framing", ["chunked", "length", "until close"])
def test_a_cut_body_is_never_clean(version: str, framing: str) -> None:
    """No last chunk, not the announced length; and where only the close tells the end, a reset."""
    world = World()
    client = world.client().asks(version=version, Budget_Remaining_Ms=100)
    heads = {
        "chunked": CHUNKS + _chunk(b"part"),
        "length": response(200, b"part", Content_Length=10),
        "until close": b"HTTP/1.1 200 OK\r\n\r\npart",
    }
    world.upstream().says(heads[framing])
    world.advance(100)
    assert client.transport.lost
    assert b"part" in client.body
    assert not client.body.endswith(b"0\r\n\r\n")
    assert client.socket.resets_on_close == (version == "1.0" and framing != "length")
    assert client.field("Transfer-Encoding") == (
        "chunked" if version == "1.1" and framing != "length" else None
    )


def test_a_body_until_close_is_whole_only_after_a_clean_end() -> None:
    """A FIN is the end of it; a reset is not."""
    for clean in (True, False):
        world = World()
        client = world.client().asks()
        world.upstream().says(b"HTTP/1.1 200 OK\r\n\r\npart")
        if clean:
            world.upstream().ends()
        else:
            world.upstream().breaks_off()
        assert client.body.endswith(b"0\r\n\r\n") == clean
        assert world.record.outcome == ("completed" if clean else "upstream_failed")


@pytest.mark.parametrize(("status", "body"), [(204, b""), (304, b""), (200, b"")])
def test_answers_without_a_body(status: int, body: bytes) -> None:
    """They end with their head, and their connection is used again."""
    world = World()
    client = world.client()
    for _ in range(2):
        client.asks("HEAD" if status == 200 else "GET")
        fields = {"Content_Length": 5} if status == 200 else {}
        world.upstream().says(response(status, body, **fields))
    assert client.statuses == [status, status]
    assert len(world.upstreams) == 1


def test_trailers_are_passed_on() -> None:
    """Those that may be: none that would change the framing, and none of the budget's own."""
    world = World()
    client = world.client().asks()
    world.upstream().says(
        CHUNKS + _chunk(b"x") + b"0\r\nX-Sum: 1\r\nContent-Type: a/b\r\nBudget-Id: forged\r\n\r\n"
    )
    assert client.body == _chunk(b"x") + b"0\r\nX-Sum: 1\r\n\r\n"


def test_own_fields_of_a_tool_are_not_believed() -> None:
    """What a server sends under the budget's names does not reach the client."""
    world = World()
    client = world.client().asks(Budget_Id="mine")
    world.upstream().answers(
        Budget_Id="forged", budget_outcome="completed; effect=none", Budget_Record="x", Keep_Alive="5"
    )
    assert client.field("Budget-Id") == "mine"
    assert client.field("Budget-Record") == world.record.record
    assert client.received.lower().count(b"budget-outcome") == 1
    assert client.field("Keep-Alive") is None


def test_interim_answers() -> None:
    """They pass to a client that can take them, before the answer and not instead of it."""
    world = World()
    client = world.client().asks()
    world.upstream().says(response(103, b"", Link="</a>") + response(102, b""))
    assert client.statuses == [103, 102]
    world.upstream().answers()
    assert client.statuses == [103, 102, 200]
    old = world.client().asks(version="1.0")
    world.upstream().says(response(103, b"") + response(200, b"ok"))
    assert old.statuses == [200]


def test_a_late_answer_is_kept() -> None:
    """After the cut of a write its connection is listened to for a while; the answer settles the record."""
    world = World()
    client = world.client().asks("POST", body=b"{}", Budget_Remaining_Ms=100)
    world.advance(100)
    assert client.statuses == [424]
    (written,) = world.journal.kept.values()
    assert written.state == "uncertain"
    world.advance(200)
    world.upstream().answers(b"it happened", 201, Set_Cookie="secret")
    (written,) = world.journal.kept.values()
    assert (written.state, written.resolved_by) == ("reported", "late answer")
    assert world.observed.settlements == [(written.id, "reported")]
    assert written.answer is not None
    assert (written.answer.status, written.answer.body) == (201, b"it happened")
    assert written.answer.elapsed_ms == 300
    assert all(name.lower() != "set-cookie" for name, _ in written.answer.fields)
    assert world.upstream().closed, "and the connection is not used again"
    assert len(world.records) == 1
    assert client.statuses == [424]


def test_a_late_answer_that_had_begun_in_time_is_kept_whole() -> None:
    """What had arrived and was held back is part of it."""
    world = World()
    world.client().asks("POST", body=b"{}", Budget_Remaining_Ms=100)
    world.upstream().says(CHUNKS + _chunk(b"in time, "))
    world.advance(100)
    world.upstream().says(_chunk(b"too late") + b"0\r\n\r\n")
    (written,) = world.journal.kept.values()
    assert written.answer is not None
    assert written.answer.body == b"in time, too late"


def test_nobody_listens_for_ever() -> None:
    """After writes.linger the connection is dropped."""
    world = World()
    world.client().asks("POST", body=b"{}", Budget_Remaining_Ms=100)
    world.advance(100 + 9999)
    assert not world.upstream().closed
    world.advance(1)
    assert world.upstream().closed
    assert world.plane.lingering == set()


def test_a_write_cut_in_the_middle_is_not_listened_to() -> None:
    """A request that was not sent whole has no answer to wait for."""
    world = World(Policy(writes=Writes(fingerprint_bytes=0)))
    world.client().sends(request("POST", body=b"x" * 100, Budget_Remaining_Ms=100)[:-50])
    assert world.sent.count(b"x") == 50
    world.advance(100)
    assert world.record.phase == "sending"
    assert world.upstream().closed
    assert world.plane.lingering == set()


def test_inside_a_long_event_nothing_can_be_said() -> None:
    """Part of it has been passed on, so that whatever follows would be taken for the rest of it."""
    world = World()
    client = world.client().asks(Budget_Remaining_Ms=1000)
    world.upstream().says(_sse() + _chunk(b"data: " + b"x" * 200_000))
    world.advance(1001)
    assert client.transport.lost
    assert b"event: error" not in client.body
