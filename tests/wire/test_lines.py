"""Streams of lines: what may be passed on, and where they can be cut without harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.boundary import HELD
from proxy.wire.lines import LineBoundary
from tests.wire.feeding import byte_by_byte, pieces

STREAMS = st.lists(st.sampled_from(['{"a": 1}', "é", "\n", "\r\n", "\r", "\x1e{}", "\0"]), max_size=30).map(
    lambda parts: "".join(parts).encode()
)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_only_whole_lines_pass(end: bytes) -> None:
    boundary = LineBoundary()
    first = b'{"a": 1}' + end
    assert boundary.feed(first + b'{"b"') == first
    assert not boundary.between_events
    assert boundary.feed(b": 2}") == b""
    assert boundary.feed(end) == b'{"b": 2}' + end
    assert boundary.between_events


def test_a_carriage_return_alone_ends_no_line() -> None:
    boundary = LineBoundary()
    assert boundary.feed(b'{"a": 1}\r{"b": 2}\r') == b""
    assert boundary.feed(b"\n") == b'{"a": 1}\r{"b": 2}\r\n'


def test_empty_lines_pass_at_once() -> None:
    boundary = LineBoundary()
    assert boundary.feed(b"\n") == b"\n"
    assert boundary.feed(b"\n\n{") == b"\n\n"


def test_the_end_of_a_stream() -> None:
    """A last line without an end is passed on, and the stream then ended inside it."""
    boundary = LineBoundary()
    assert boundary.feed(b"{}\n{}") == b"{}\n"
    assert boundary.flush() == b"{}"
    assert boundary.flush() == b""
    assert not boundary.between_events


@pytest.mark.parametrize("size", [100, 1_460, 10 * HELD])
def test_a_long_line_passes_as_it_comes(size: int) -> None:
    """No more than a bound is kept back; then the stream is inside a line until that one ends."""
    wire = b"{}\n" + b"x" * 5 * HELD + b"\n"
    boundary = LineBoundary()
    passed = b""
    for at in range(0, len(wire), size):
        fed = wire[: at + size]
        passed += boundary.feed(wire[at : at + size])
        assert len(fed) - len(passed) <= HELD
        assert boundary.between_events is (len(fed) == len(wire))
    assert passed == wire


@given(STREAMS, st.data())
def test_no_byte_is_lost(stream: bytes, data: st.DataObject) -> None:
    """What has passed is as many whole lines as there are."""
    boundary = LineBoundary()
    passed = b""
    fed = b""
    for piece in data.draw(pieces(stream)):
        fed += piece
        passed += boundary.feed(piece)
        assert passed == fed[: fed.rfind(b"\n") + 1]
        assert boundary.between_events is (passed == fed)
    assert passed + boundary.flush() == stream


@given(STREAMS)
def test_byte_by_byte(stream: bytes) -> None:
    boundary = LineBoundary()
    assert b"".join(map(boundary.feed, byte_by_byte(stream))) + boundary.flush() == stream
