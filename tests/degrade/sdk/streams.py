"""One stream as one SDK reads it, and what its user has to be left with."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.degrade.sdk.python_readers import Heard
from tests.degrade.sdk.served import closed
from tests.degrade.transcript import MARK, Transcript
from tests.degrade.whole import read

OWN_ERROR = r"(APIError|APIStatusError|ServerError|ResponseError|ApiError|Error): .*"
"""What an SDK raises that has understood what it was told; behind it, what that was."""

_CLOSED = {"length", "max_output_tokens", "max_tokens", "MAX_TOKENS"}
_COUNTS = ("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count")


class Stream(NamedTuple):
    """A transcript that was cut, as one reader reads it."""

    transcript: Transcript
    passed: int
    reader: str
    broken: bool = False

    def __str__(self) -> str:
        how = "broken" if self.broken else "closed"
        return f"{self.transcript.name} {how} at {self.passed} read by {self.reader}"


def check_whole(stream: Stream, heard: Heard) -> None:
    """What the user of an SDK has is what the stream says, and the stream says that it was cut."""
    last = closed(stream.transcript, stream.passed)
    assert last is not None
    whole = read(stream.transcript, b"".join(stream.transcript.pieces[: stream.passed]) + last)
    assert heard.error is None
    assert heard.text == whole.texts[0]
    assert heard.reason == whole.reasons[0]
    assert heard.text.endswith(MARK) is (heard.reason in _CLOSED)
    told = [whole.usage[count] for count in _COUNTS if whole.usage and count in whole.usage]
    if told:
        assert [heard.usage[count] for count in _COUNTS if count in heard.usage] == told


def check_broken(heard: Heard, why: str) -> None:
    """The SDK has raised, with what it was told."""
    assert heard.reason is None
    assert re.match(OWN_ERROR + re.escape(why), heard.error or "", re.DOTALL), heard.error
