"""Streams of every dialect that stop at any byte, on a route that closes them: a client has a whole stream, or an error."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases.closing import standing_place, trailers
from tests.degrade.transcript import MARK, Transcript
from tests.degrade.transcripts import TRANSCRIPTS
from tests.degrade.whole import read
from tests.support.callers import Answer

AT_ONCE = 48


def places(transcript: Transcript) -> list[int]:
    """Where the bytes of a stream may end: within characters and strings, around the end of an event, and at both ends."""
    wire, pieces = transcript.wire, transcript.pieces
    inside = [at + 1 for within in ("茶".encode(), "🫖".encode(), b"\\") if (at := wire.find(within)) >= 0]
    first, middle = len(pieces[0]), len(b"".join(pieces[: len(pieces) // 2]))
    near = {0, 1, first - 1, first, first + 1, middle - 1, middle, len(wire) - 1, *inside}
    return sorted(near - {len(wire)})


CUTS = [(transcript, at) for transcript in TRANSCRIPTS for at in places(transcript)]


@pytest.fixture(scope="module")
def cut_anywhere() -> list[Answer]:
    """What became of each of them."""
    with standing_place() as place, ThreadPoolExecutor(AT_ONCE) as pool:
        asked = pool.map(lambda cut: place.ask(cut[0], 0, cut[0].wire[: cut[1]], route="marked"), CUTS)
        return list(asked)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_wherever_the_bytes_end_the_client_has_a_whole_stream_or_an_error(
    cut_anywhere: list[Answer], transcript: Transcript
) -> None:
    """A whole one where all that has passed can be closed truthfully; never half an event, half a character, or half a call."""
    seen = set()
    for (_, at), answer in (
        (cut, each) for cut, each in zip(CUTS, cut_anywhere, strict=True) if cut[0] is transcript
    ):
        passed = _passed(transcript, at)
        closable = passed >= transcript.from_ and passed - 1 not in transcript.calls
        assert answer.complete is closable, at
        seen.add(closable)
        if closable:
            whole = read(transcript, answer.body)
            assert any(text.endswith(MARK) for text in whole.texts.values()) is _marked(answer), at
            assert ("budget-degraded" in trailers(answer)) is (passed < len(transcript.pieces))
        else:
            assert MARK not in answer.body.decode()
            assert b"was cut then" in answer.body, at
            assert not answer.trailers
    assert True in seen


def _marked(answer: Answer) -> bool:
    return MARK.encode() in answer.body or json.dumps(MARK).strip('"').encode() in answer.body


def _passed(transcript: Transcript, at: int) -> int:
    """How many of the pieces are whole in so many bytes. The last LF of an event says nothing more behind a CR."""
    count = end = 0
    for piece in transcript.pieces:
        end += len(piece)
        count += at >= end - piece.endswith(b"\r\n")
    return count
