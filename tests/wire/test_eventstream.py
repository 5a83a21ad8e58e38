"""Event streams: what may be passed on, and where they can be cut without harm."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.boundary import HELD
from proxy.wire.eventstream import EventBoundary, error_event, read_as_it_comes
from tests.wire.feeding import pieces

LINE_ENDS = ["\n", "\r\n", "\r"]
STREAMS = st.lists(
    st.sampled_from(["data: x", "event: y", ": comment", "", "\n", "\r\n", "\r", "data", "é"]), max_size=30
).map(lambda parts: "".join(parts).encode())


def whole_events(stream: bytes) -> list[bytes]:
    """Parse a stream as the HTML standard says: the blocks of lines that an empty line has ended."""
    lines = re.split(rb"\r\n|\n|\r", stream)
    blocks: list[list[bytes]] = [[]]
    for text in lines[:-1]:
        if text:
            blocks[-1].append(text)
        else:
            blocks.append([])
    return [b"\n".join(block) for block in blocks[:-1] if block]


@pytest.mark.parametrize(
    ("first", "second"), [pair for pair in product(LINE_ENDS, LINE_ENDS) if pair != ("\r", "\n")]
)
def test_every_way_to_end_an_event(first: str, second: str) -> None:
    """Two line ends in a row, of any kind. CR LF is one, not two."""
    event = f"data: 1{first}{second}".encode()
    boundary = EventBoundary()
    assert boundary.feed(event + b"data: 2") == event
    assert not boundary.between_events
    assert boundary.feed(event[7:]) == b"data: 2" + event[7:]
    assert boundary.between_events


def test_a_line_end_is_not_an_event_end() -> None:
    """CR LF, cut in the middle or not."""
    boundary = EventBoundary()
    assert boundary.feed(b"data: 1\r") == b""
    assert boundary.feed(b"\n") == b""
    assert boundary.feed(b"data: 2\r\n") == b""
    assert boundary.feed(b"\r\n") == b"data: 1\r\ndata: 2\r\n\r\n"


def test_heartbeats_pass() -> None:
    """An empty line between events, and the second half of one that was cut, are nobody's beginning."""
    boundary = EventBoundary()
    assert boundary.feed(b"data: 1\r\n\r") == b"data: 1\r\n\r"
    assert boundary.between_events
    assert boundary.feed(b"\n") == b"\n"
    assert boundary.feed(b"\n\r\n") == b"\n\r\n"
    assert boundary.between_events


def test_the_end_of_a_stream() -> None:
    """What is kept back is passed on at the end, and the stream then ended inside an event."""
    boundary = EventBoundary()
    assert boundary.feed(b"data: 1\n\ndata: 2") == b"data: 1\n\n"
    assert boundary.flush() == b"data: 2"
    assert boundary.flush() == b""
    assert not boundary.between_events


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\r\n\n"])
@pytest.mark.parametrize("size", [100, 1_460, 10 * HELD])
def test_a_long_event_passes_as_it_comes(end: bytes, size: int) -> None:
    """No more than a bound is kept back; then the stream is inside an event until that one ends."""
    wire = b"data: 1\n\ndata: " + b"x" * 5 * HELD + end
    boundary = EventBoundary()
    passed = b""
    for at in range(0, len(wire), size):
        fed = wire[: at + size]
        passed += boundary.feed(wire[at : at + size])
        assert len(fed) - len(passed) <= HELD
        assert boundary.between_events is (len(fed) == len(wire))
    assert passed == wire


def test_an_empty_line_cut_behind_a_long_event() -> None:
    """The line end that an empty line begins with is not passed on too early."""
    boundary = EventBoundary()
    event = b"data: " + b"x" * HELD
    assert boundary.feed(event + b"\r\n") == event
    assert not boundary.between_events
    assert boundary.feed(b"\r\n") == b"\r\n\r\n"
    assert boundary.between_events


@given(STREAMS, st.data())
def test_only_whole_events_pass_and_no_byte_is_lost(stream: bytes, data: st.DataObject) -> None:
    """Whenever it stands between events, one more event can be added and all before it is as it was."""
    boundary = EventBoundary()
    passed = b""
    fed = b""
    for piece in data.draw(pieces(stream)):
        fed += piece
        passed += boundary.feed(piece)
        assert fed.startswith(passed)
        assert whole_events(passed + error_event(b"{}")) == [*whole_events(fed), b"event: error\ndata: {}"]
        assert boundary.between_events is (passed == fed)
    assert passed + boundary.flush() == stream


def test_error_event() -> None:
    """The form that the clients of language models raise on."""
    payload = json.dumps({"error": {"type": "deadline_exceeded"}}).encode()
    assert error_event(payload) == b'event: error\ndata: {"error": {"type": "deadline_exceeded"}}\n\n'


@pytest.mark.parametrize(
    "content_type",
    [
        b"text/event-stream",
        b"Text/Event-Stream; charset=utf-8",
        b"application/x-ndjson",
        b"application/jsonl ; charset=utf-8",
        b"application/json-seq",
        b"application/stream+json",
        b"multipart/x-mixed-replace; boundary=b",
        b"application/grpc",
        b"application/grpc-web+proto",
        b"application/connect+json",
        b"application/vnd.amazon.eventstream",
        b'multipart/mixed; boundary="-"; deferSpec=20220824',
    ],
)
def test_answers_that_are_read_as_they_come(content_type: bytes) -> None:
    """Held back, they would be of no use."""
    assert read_as_it_comes(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"application/json",
        b"text/plain",
        b"multipart/mixed; boundary=b",
        b"application/x-text/event-stream",
    ],
)
def test_answers_that_are_read_whole(content_type: bytes) -> None:
    """Everything else."""
    assert not read_as_it_comes(content_type)
