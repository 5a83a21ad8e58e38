"""What is followed at all, and how a dialect is known, or found to be none."""

from __future__ import annotations

import json

import pytest

from proxy.degrade.endings.reading import LONGEST
from proxy.degrade.endings.recognise import boundary_for, ending_for
from proxy.wire.characters import CharacterBoundary
from proxy.wire.eventstream import EventBoundary, read_as_it_comes
from proxy.wire.lines import LineBoundary
from tests.degrade.chat_transcripts import chat_chunk
from tests.degrade.endings.feeding import followed
from tests.degrade.transcript import MARK, Transcript, data
from tests.degrade.transcripts import TRANSCRIPTS


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"text/event-stream", EventBoundary),
        (b"Text/Event-Stream ; charset=latin-1", EventBoundary),
        (b"application/x-ndjson", LineBoundary),
        (b"application/jsonl; charset=utf-8", LineBoundary),
        (b"application/json-seq", LineBoundary),
        (b"text/plain", CharacterBoundary),
        (b'text/markdown;charset="UTF-8"', CharacterBoundary),
        (b"text/plain; charset=us-ascii; format=flowed", CharacterBoundary),
    ],
)
def test_what_can_be_cut_can_be_ended(content_type: bytes, boundary: type) -> None:
    assert type(boundary_for(content_type)) is boundary
    assert ending_for(content_type, "/") is not None


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"application/json",
        b"text/html",
        b"text/csv",
        b"text/plain; charset=iso-8859-1",
        b"text/plain;charset=utf-16",
        b"application/grpc",
        b"application/vnd.amazon.eventstream",
        b"multipart/x-mixed-replace; boundary=b",
        b"\xff\xfe",
    ],
)
def test_everything_else_is_not_followed(content_type: bytes) -> None:
    assert boundary_for(content_type) is None
    assert ending_for(content_type, "/") is None


def test_lines_are_among_what_is_read_as_it_comes() -> None:
    for kind in (
        b"json-lines",
        b"json-seq",
        b"jsonl",
        b"ndjson",
        b"x-ndjson",
        b"stream+json",
        b"x-json-stream",
    ):
        content_type = b"application/" + kind
        assert read_as_it_comes(content_type)
        assert type(boundary_for(content_type)) is LineBoundary


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_a_dialect_is_known_by_what_it_says(transcript: Transcript) -> None:
    """Whatever the path is. Only where the first event says too little does it help."""
    path = transcript.path if transcript.name == "chat that begins with its filters" else "/any"
    ending = ending_for(transcript.content_type.encode(), path)
    assert ending is not None
    for piece in transcript.pieces[: transcript.from_]:
        ending.feed(piece)
    assert ending.dialect == transcript.dialect


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/m:streamGenerateContent"]
)
def test_a_path_alone_makes_no_dialect(path: str) -> None:
    """Before the first event nothing is known: neither an id nor a model, nor whether there will be any text."""
    ending = ending_for(b"text/event-stream", path)
    assert ending is not None
    assert (ending.dialect, ending.close(MARK)) == ("unknown", None)
    ending.feed(b": hello\n\n")
    assert ending.close(MARK) is None
    ending.feed(data({"type": "text-delta", "delta": "Tea"}))
    assert (ending.dialect, ending.close(MARK)) == ("unknown", None)


@pytest.mark.parametrize(
    "first", [{}, {"id": 7}, [], [chat_chunk({})], '"Tea"', {"choices": "a"}, {"type": []}]
)
def test_json_that_is_not_known_is_given_up(first: object) -> None:
    ending = followed(first)
    assert (ending.dialect, ending.close(MARK)) == ("unknown", None)


def test_a_few_other_objects_may_come_first() -> None:
    said = chat_chunk({"content": "a"})
    assert followed({"meta": 1}, {"meta": 2}, {"meta": 3}, said).close(MARK) is not None
    assert followed(*[{"meta": 1}] * 4, said).close(MARK) is None


def test_an_error_is_seen_in_a_dialect_that_is_not_known() -> None:
    for last in ({"error": {"message": "sorry"}}, "[DONE]"):
        ending = followed(*[{"meta": 1}] * 9, last)
        assert ending.close(MARK) == (b"" if last == "[DONE]" else None)
        assert ending.failed is (last != "[DONE]")
        assert ending.over is (last == "[DONE]")
        assert not ending.unfinished


@pytest.mark.parametrize(
    "said",
    [
        b"data: {\n\n",
        b"data: \xff\n\n",
        b'data: {"a": "\0"}\n\n',
        b"data: " + b"[" * 5000 + b"\n\n",
        b"data: " + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n\n",
        b'data: {"a": ' + b"9" * 5000 + b"}\n\n",
        b"data: x\n\n",
        b"data: " + b"x" * LONGEST + b"\n\n",
        b"data: {}\n",
        b'data: {"cho',
        b"x",
    ],
    ids=lambda said: said[:20],
)
def test_what_cannot_be_read_is_given_up(said: bytes) -> None:
    """Nothing is added behind something that the client may have understood, and this side has not."""
    ending = followed(chat_chunk({"content": "a"}))
    assert ending.close(MARK) is not None
    ending.feed(said)
    assert ending.close(MARK) is None
    assert not ending.failed


def test_a_long_event_in_pieces_is_read_up_to_a_bound() -> None:
    """As it passes the boundary, which does not hold it back."""
    for size, known in ((LONGEST - 1000, True), (LONGEST + 1000, False)):
        wire = data(chat_chunk({"content": "x" * size}))
        ending = followed(chat_chunk({"content": "a"}))
        for at in range(0, len(wire), 16_384):
            ending.feed(wire[at : at + 16_384])
        assert (ending.close(MARK) is not None) is known
        ending.feed(data(chat_chunk({"content": "b"})))
        assert (ending.close(MARK) is not None) is known, "what was given up stays so"
        ending.feed(data("[DONE]"))
        assert ending.over


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    ending = ending_for(b"text/event-stream", "/")
    assert ending is not None
    ending.feed(b"\xef\xbb\xbf" + data(chat_chunk({"content": "a"})))
    assert ending.close(MARK) is not None


def test_a_sequence_of_json_texts() -> None:
    """RFC 7464 writes a control character before each."""
    ending = ending_for(b"application/json-seq", "/")
    assert ending is not None
    ending.feed(b"\x1e" + json.dumps({"response": "Tea", "done": False}).encode() + b"\n")
    assert ending.close(MARK) is not None
