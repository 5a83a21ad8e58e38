"""The dialects of streams: the same is known of a stream however it comes, and what closes it is readable.

The first line of an input is the Content-Type and the path, the rest is the stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.recognise import boundary_for, ending_for
from trials.fuzz.target import Seen, Target, hold
from trials.fuzz.targets._cuts import cuts

_MARK: Final = '[response "truncated" \u2702]'
_STREAMS: Final = b"text/event-stream"
_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")


def check(data: bytes) -> Seen:
    """Follow the stream whole and in pieces, and close it where it may be cut."""
    first, _, stream = data.partition(b"\n")
    content_type, _, asked = first.strip().partition(b" ")
    path = asked.decode("latin-1") or "/"
    ending, boundary = ending_for(content_type, path), boundary_for(content_type)
    if ending is None or boundary is None:
        return {"not followed"}
    passed = boundary.feed(stream)
    ending.feed(passed)
    state = _state(ending)
    for feeds in cuts(stream):
        again, cut = ending_for(content_type, path), boundary_for(content_type)
        assert again is not None
        assert cut is not None
        for piece in feeds:
            again.feed(cut.feed(piece))
        hold(_state(again) == state, "same-end-however-cut", state, _state(again))
    dialect, over, failed, unfinished, last = state
    hold(not (over and last), "what-is-over-needs-no-end", state)
    hold(not failed or over or last is None, "what-has-failed-has-no-end", state)
    if last:
        hold(boundary.passed_whole, "closed-only-between-events", passed)
        _readable(content_type, path, passed, last)
    kind = "none" if last is None else "some" if last else "nothing"
    return {
        f"{dialect} over {over} failed {failed} unfinished {unfinished} end {kind}",
        f"{type(ending).__name__}",
    }


def _state(ending: Ending) -> tuple[str, bool, bool, bool, bytes | None]:
    first = ending.close(_MARK)
    hold(ending.close(_MARK) == first, "it-may-be-asked-again")
    return ending.dialect, ending.over, ending.failed, ending.unfinished, first


def _readable(content_type: bytes, path: str, passed: bytes, last: bytes) -> None:
    """What closes a stream is whole events or lines, which a reader of the dialect takes for its end."""
    follower, boundary = ending_for(content_type, path), boundary_for(content_type)
    assert follower is not None
    assert boundary is not None
    hold(boundary.feed(passed + last) == passed + last, "the-end-is-whole", last)
    follower.feed(passed + last)
    hold(not follower.failed, "the-end-is-no-failure", last)
    hold(follower.close(_MARK) is not None, "the-end-can-be-read", last)
    if follower.dialect not in ("events", "text", "unknown"):
        hold(follower.over and not follower.unfinished, "the-end-is-one", follower.dialect, last)
    for said in _values(content_type, last):
        json.loads(said)


def _values(content_type: bytes, last: bytes) -> Sequence[bytes]:
    """The JSON texts of what was added; none where it is plain text."""
    if content_type.partition(b";")[0].strip().lower() == _STREAMS:
        found = [line[5:].strip() for line in _LINE_ENDS.split(last) if line.startswith(b"data:")]
        return [said for said in found if said.startswith(b"{")]
    return [line for line in last.splitlines() if line.startswith(b"{")]


TARGET: Final = Target(
    "endings",
    "the dialects of streams: the same is known however a stream comes, and one that is closed is readable and over",
    check,
    tokens=(
        b"text/event-stream /v1/chat/completions\n",
        b"text/event-stream /v1/responses\n",
        b"text/event-stream /v1/messages\n",
        b"text/event-stream /v1beta/models/g:streamGenerateContent\n",
        b"application/x-ndjson /api/chat\n",
        b"text/plain; charset=utf-8 /\n",
        b"data: ",
        b"data: [DONE]\n\n",
        b"event: error\n",
        b"event: ping\n",
        b"\n\n",
        b"\r\n\r\n",
        b"\r",
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"{}",
        b"[]",
        b'""',
        b'"index":0',
        b'"index":1',
        b'"finish_reason":"stop"',
        b'"finish_reason":null',
        b'"delta":{"content":"a"}',
        b'"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{"}}]',
        b'"choices":[]',
        b'"usage":null',
        b'"type":"content_block_stop"',
        b'"type":"message_stop"',
        b'"type":"response.output_text.delta"',
        b'"sequence_number":',
        b'"output_index":',
        b'"content_index":',
        b'"done":true',
        b'"error":{}',
        b'"\\ud800"',
        b'"\\u0000"',
        b"\xff",
    ),
)
