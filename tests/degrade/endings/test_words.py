"""Streams that are text and nothing else: they end with the mark, or are found to be more than text after all."""

from __future__ import annotations

import pytest

from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.recognise import ending_for
from tests.degrade.transcript import MARK
from tests.degrade.whole import events


def stream(*pieces: bytes, content_type: bytes = b"text/event-stream") -> Ending:
    """An ending behind these bytes."""
    ending = ending_for(content_type, "/")
    assert ending is not None
    for piece in pieces:
        ending.feed(piece)
    return ending


def test_the_mark_is_an_event_like_the_others() -> None:
    assert stream(b"data: Tea\n\n").close(MARK) == f"data: {MARK}\n\n".encode()
    assert stream(b"event: token\ndata:Tea\r\n\r\n").close("…") == "event: token\ndata: …\n\n".encode()


def test_a_mark_of_several_lines_is_one_event() -> None:
    last = stream(b"data: Tea\n\n").close("\ncut\r\nhere\r")
    assert last is not None
    assert events(last) == [("", "\ncut\nhere\n")]


@pytest.mark.parametrize("first", [b"7", b"true", b"{", b"[1", b'"Tea', b"Tea {", b"-", b"{'a'"])
def test_text_may_look_like_json_in_part(first: bytes) -> None:
    ending = stream(b"data: " + first + b"\n\n", b"data: and more\n\n")
    assert ending.dialect == "events"
    assert ending.close(MARK) is not None


@pytest.mark.parametrize(
    "second",
    [
        b"data: {}\n\n",
        b"event: other\ndata: Tea\n\n",
        b"data: T\xe9\n\n",
        b"data: T\0\n\n",
        b"data: Tea",
        b"data: Tea\n",
        b": co",
        b"event: error\ndata: sorry\n\n",
    ],
)
def test_a_stream_that_says_more_than_text_is_given_up(second: bytes) -> None:
    assert stream(b"data: Tea\n\n", second).close(MARK) is None


def test_events_without_data_say_nothing() -> None:
    ending = stream(
        b"event: open\n\n", b"event: open\ndata:\n\n", b": hello\n\n", b"data: Tea\n\n", b"id: 7\n\n"
    )
    assert ending.close(MARK) == f"data: {MARK}\n\n".encode()


def test_a_failure_that_is_told_in_words() -> None:
    ending = stream(b"data: Tea\n\n", b"event: error\ndata: sorry\n\n")
    assert (ending.failed, ending.over) == (True, False)


def test_a_name_too_long_to_be_kept() -> None:
    assert stream(b"event: " + b"x" * 1000 + b"\ndata: Tea\n\n").close(MARK) is None


TEXT = b"text/plain; charset=UTF-8"


@pytest.mark.parametrize("said", ["", "Tea", "茶", "one\ntwo\n", '{"tea": "gr', "Note: hot", "[1] a", "🫖"])
def test_plain_text_ends_with_the_mark(said: str) -> None:
    ending = stream(said.encode(), content_type=TEXT)
    assert ending.close(MARK) == MARK.encode()
    assert (ending.dialect, ending.over, ending.failed) == ("text", False, False)


@pytest.mark.parametrize("said", [b"T\xe9a", b"Tea\0", "茶".encode()[:-1], b"\xff\xfe", b"\xed\xa0\x80"])
def test_what_is_no_text_has_no_end(said: bytes) -> None:
    ending = stream(b"Tea ", said, content_type=TEXT)
    assert ending.close(MARK) is None
    ending.feed(b"and more")
    assert ending.close(MARK) is None


@pytest.mark.parametrize(
    "said", [b"data: Tea\n\n", b"\n\nevent: x\n", b": hello\n\n", b"id:7\n", b"retry: 10\n"]
)
def test_events_under_another_name_have_no_end(said: bytes) -> None:
    """Their readers would pass over a line that is none of theirs, and take the answer for whole."""
    assert stream(said, content_type=TEXT).close(MARK) is None
    assert stream(*(said[at : at + 1] for at in range(len(said))), content_type=TEXT).close(MARK) is None
