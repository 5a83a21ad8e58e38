"""Each dialect, cut at every place: what has passed and what closes it are a whole stream, which says that it was cut."""

from __future__ import annotations

import json
import re

import pytest

from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.recognise import boundary_for, ending_for
from tests.degrade.transcript import MARK, Transcript
from tests.degrade.transcripts import JSON_TRANSCRIPTS, TRANSCRIPTS
from tests.degrade.whole import events, read
from tests.wire.feeding import byte_by_byte

REASONS = {
    "openai-chat": "length",
    "openai-responses": "max_output_tokens",
    "anthropic-messages": "max_tokens",
    "gemini": "MAX_TOKENS",
    "ollama": "length",
}
BY_NAME = pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
IN_EVENTS = pytest.mark.parametrize(
    "transcript", [each for each in JSON_TRANSCRIPTS if each.dialect != "ollama"], ids=lambda each: each.name
)


def following(transcript: Transcript) -> Ending:
    """What follows a stream like this one."""
    ending = ending_for(transcript.content_type.encode(), transcript.path)
    assert ending is not None
    return ending


def cut_behind(transcript: Transcript, passed: int) -> bytes | None:
    """What closes the stream once so many of its pieces have passed."""
    ending = following(transcript)
    for piece in transcript.pieces[:passed]:
        ending.feed(piece)
    return ending.close(MARK)


@BY_NAME
def test_what_has_passed_and_what_closes_it_are_a_whole_stream(transcript: Transcript) -> None:
    """Wherever it is cut, unless a call is open. The mark is the last of the text, and the reason is one that is true."""
    for passed in range(transcript.from_, len(transcript.pieces)):
        last = cut_behind(transcript, passed)
        if passed - 1 in transcript.calls:
            assert last is None
            continue
        assert last is not None
        said = b"".join(transcript.pieces[:passed])
        whole = read(transcript, said + last)
        open_before = MARK.encode() in last or json.dumps(MARK).encode() in last
        for index, text in whole.texts.items():
            reason = whole.reasons.get(index)
            assert text.endswith(MARK) is (reason == REASONS.get(transcript.dialect)), index
        if not open_before:
            assert REASONS.get(transcript.dialect) not in whole.reasons.values()
        assert len(whole.heads) <= 1, "what is added calls itself what the stream does"


@BY_NAME
def test_a_stream_that_has_ended_gets_nothing_more(transcript: Transcript) -> None:
    ending = following(transcript)
    ending.feed(b"".join(transcript.pieces[:-1]))
    words_alone = transcript.dialect in ("events", "text")
    assert ending.unfinished is not words_alone, "they may end anywhere"
    ending.feed(transcript.pieces[-1])
    assert not ending.unfinished
    assert not ending.failed
    if transcript.dialect == "text" or transcript.name == "plain events of one name":
        assert not ending.over, "it has no last event"
        return
    assert ending.over
    assert ending.close(MARK) == b""
    read(transcript, transcript.wire)


@BY_NAME
def test_the_whole_text_is_there_but_for_what_was_cut(transcript: Transcript) -> None:
    """What has passed stays as it was: the mark is added to it, and nothing else."""
    passed = next(
        number for number in range(len(transcript.pieces) - 3, 0, -1) if number - 1 not in transcript.calls
    )
    last = cut_behind(transcript, passed)
    assert last is not None
    whole = read(transcript, b"".join(transcript.pieces[:passed]) + last)
    complete = read(transcript, transcript.wire)
    for index, text in whole.texts.items():
        said = text.removesuffix(MARK)
        assert complete.texts[index].removesuffix("[DONE]").startswith(said)


@BY_NAME
def test_asking_twice_changes_nothing(transcript: Transcript) -> None:
    """The stream may go on after it was asked how it would end."""
    ending = following(transcript)
    for passed, piece in enumerate(transcript.pieces, 1):
        ending.feed(piece)
        first = ending.close(MARK)
        assert ending.close("another mark") is not None or first is None
        assert ending.close(MARK) == first == cut_behind(transcript, passed)


@BY_NAME
def test_cut_at_any_byte(transcript: Transcript) -> None:
    """Only whole events pass the boundary, so that a cut inside one, or inside a character, is a cut before it."""
    boundary = boundary_for(transcript.content_type.encode())
    assert boundary is not None
    ending = following(transcript)
    ends = {}
    length = 0
    for number, piece in enumerate(transcript.pieces, 1):
        length += len(piece)
        ends[length] = number
    passed = b""
    expected = following(transcript).close(MARK)
    for byte in byte_by_byte(transcript.wire):
        passed += (more := boundary.feed(byte))
        ending.feed(more)
        # CR alone ends the empty line already. The LF behind it says nothing more, but there are readers that look for it.
        half = passed.endswith(b"\n\r")
        ended = ends.get(len(passed) + half)
        if ended is not None:
            expected = cut_behind(transcript, ended)
        assert ending.close(MARK) == (b"\n" + expected if half and expected else expected)
    assert passed == transcript.wire


@BY_NAME
def test_the_size_of_pieces_does_not_matter(transcript: Transcript) -> None:
    """Fed byte by byte without a boundary, it knows by itself where it stands: inside an event, nothing can be added."""
    if transcript.dialect == "text":
        return
    ending = following(transcript)
    length, passed = 0, 0
    for at, byte in enumerate(byte_by_byte(transcript.wire), 1):
        ending.feed(byte)
        if at == length + len(transcript.pieces[passed]):
            length, passed = at, passed + 1
            assert ending.close(MARK) == cut_behind(transcript, passed)
        elif at < length + len(transcript.pieces[passed]) - 3 and not ending.over:
            assert ending.close(MARK) is None


@IN_EVENTS
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("space", [b" ", b""])
def test_every_way_to_write_an_event(transcript: Transcript, end: bytes, space: bytes) -> None:
    """Line ends of any kind, with and without the space, comments and keep-alives between, and data in several lines."""
    boundary = boundary_for(b"text/event-stream")
    assert boundary is not None
    ending = following(transcript)
    for passed, (name, said) in enumerate(events(transcript.wire), 1):
        value = json.loads(said) if said != "[DONE]" else said
        data = json.dumps(value, indent=2) if said != "[DONE]" else said
        rows = [b"data:" + space + row for row in data.encode().split(b"\n")]
        named = [b"event:" + space + name.encode()] if name else []
        event = end.join([b": keep-alive", b"", b"id: 7", *rows, *named, b"", b": more", b"", b""])
        ending.feed(boundary.feed(event))
        closed = ending.close(MARK)
        assert closed == cut_behind(_without_comments(transcript), passed)


def _without_comments(transcript: Transcript) -> Transcript:
    return transcript._replace(pieces=[each for each in transcript.pieces if not each.startswith(b":")])


@pytest.mark.parametrize(
    "transcript", [each for each in TRANSCRIPTS if each.dialect == "ollama"], ids=lambda each: each.name
)
def test_lines_may_end_in_two_bytes_and_be_empty(transcript: Transcript) -> None:
    ending = following(transcript)
    for passed, piece in enumerate(transcript.pieces, 1):
        ending.feed(b"\r\n" + piece.replace(b"\n", b"\r\n") + b"\n")
        assert ending.close(MARK) == cut_behind(transcript, passed)


@pytest.mark.parametrize("transcript", JSON_TRANSCRIPTS, ids=lambda each: each.name)
def test_what_is_added_is_written_in_ascii(transcript: Transcript) -> None:
    """So that a mark in any script is safe, and nothing in it can end a line."""
    for mark in ("✂", "one\ntwo\r\rthree", '"}', "\u2028", "\ud83d"):
        ending = following(transcript)
        ending.feed(b"".join(transcript.pieces[: transcript.from_ + 1]))
        last = ending.close(mark)
        assert last is not None
        assert last.isascii()
        assert not re.search(rb"[\r\x00]", last)
        assert (
            read(transcript, b"".join(transcript.pieces[: transcript.from_ + 1]) + last)
            .texts[0]
            .endswith(mark)
        )
