"""Whatever passes: nothing raises, no more is kept than a bound, and no time is spent that a stream could choose."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.reading import LONGEST
from proxy.degrade.endings.recognise import boundary_for, ending_for
from tests.degrade.chat_transcripts import chat_chunk
from tests.degrade.endings.feeding import followed
from tests.degrade.transcript import MARK, Transcript, data
from tests.degrade.transcripts import JSON_TRANSCRIPTS, TRANSCRIPTS
from tests.wire.feeding import pieces

KINDS = st.sampled_from([b"text/event-stream", b"application/x-ndjson", b"text/plain"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("x" * 500)
NAMES = st.sampled_from(
    ["index", "type", "error", "choices", "delta", "id", "text", "output_index", "parts", ""]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def footprint(ending: Ending) -> int:
    """All the bytes that an ending holds on to."""
    seen: set[int] = set()
    waiting: list[Any] = [ending]
    size = 0
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | ModuleType | FunctionType):
            continue
        seen.add(id(value))
        size += sys.getsizeof(value)
        waiting += gc.get_referents(value)
    return size


def check(ending: Ending) -> None:
    """Every question has an answer."""
    last = ending.close(MARK)
    assert last is None or type(last) is bytes
    assert ending.over is (last == b"")
    assert not (ending.failed and last)
    assert ending.dialect


@given(KINDS, st.binary(max_size=200), st.data())
def test_any_bytes(kind: bytes, wire: bytes, drawn: st.DataObject) -> None:
    ending, boundary = ending_for(kind, "/"), boundary_for(kind)
    assert ending is not None
    assert boundary is not None
    for piece in drawn.draw(pieces(wire)):
        ending.feed(boundary.feed(piece))
        check(ending)
    ending.feed(boundary.flush())
    check(ending)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places within a value."""
    yield path
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in within:
        yield from places(each, (*path, name))


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    """The value with another at one place."""
    if not path:
        return to
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = changed(value[path[0]], path[1:], to)
    return copied


def said_in(transcript: Transcript, piece: bytes) -> tuple[bytes, Any]:
    """One piece as what stands before its value, and that value."""
    if transcript.dialect == "ollama":
        return b"", json.loads(piece)
    before, _, said = piece.replace(b"\r", b"").partition(b"data: ")
    return before, json.loads(said) if said.startswith(b"{") else said


@given(st.sampled_from(JSON_TRANSCRIPTS), st.data())
def test_any_value_at_any_place(transcript: Transcript, drawn: st.DataObject) -> None:
    """One event of a stream is other than it should be: wrong types, wrong numbers, too long, missing, out of order."""
    ending = ending_for(transcript.content_type.encode(), transcript.path)
    assert ending is not None
    at = drawn.draw(st.integers(0, len(transcript.pieces) - 1))
    for number, piece in enumerate(transcript.pieces):
        before, value = said_in(transcript, piece)
        if number == at and isinstance(value, dict):
            path = drawn.draw(st.sampled_from(list(places(value))))
            value = changed(value, path, drawn.draw(VALUES))
            said = json.dumps(value).encode()
            piece = said + b"\n" if transcript.dialect == "ollama" else before + b"data: " + said + b"\n\n"
        elif number == at:
            continue
        ending.feed(piece)
        check(ending)


@given(st.lists(st.sampled_from([piece for each in JSON_TRANSCRIPTS for piece in each.pieces]), max_size=12))
def test_any_order_of_any_events(mixed: list[bytes]) -> None:
    for kind in (b"text/event-stream", b"application/x-ndjson"):
        ending = ending_for(kind, "/v1/chat/completions")
        assert ending is not None
        for piece in mixed:
            ending.feed(piece)
            check(ending)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_little_is_kept_of_a_long_stream(transcript: Transcript) -> None:
    """Of text that no end repeats, nothing is."""
    ending = ending_for(transcript.content_type.encode(), transcript.path)
    assert ending is not None
    half = len(transcript.pieces) // 2
    for piece in transcript.pieces[:half]:
        ending.feed(piece)
    before = footprint(ending)
    for _ in range(2000):
        ending.feed(transcript.pieces[half - 1])
    more = 2000 * 20 if transcript.dialect == "openai-responses" else 1000
    assert footprint(ending) - before <= more


@pytest.mark.parametrize(
    "values",
    [
        [chat_chunk({"content": "a"}, index=number) for number in range(5000)],
        [chat_chunk({"tool_calls": [1]}, index=number) for number in range(5000)],
        [chat_chunk({}, "stop", index=number) for number in range(5000)],
        [
            chat_chunk({"content": "a"}, id="x" * 10_000, usage={f"{number}": "y" * 200})
            for number in range(999)
        ],
        [
            chat_chunk(
                {"content": "a"}, usage={f"{n}": {f"{m}": "y" * 200 for m in range(60)} for n in range(60)}
            )
        ],
    ],
    ids=["choices", "calls", "ends", "ids", "usage"],
)
def test_what_grows_with_the_stream_has_a_bound(values: list[Any]) -> None:
    """Ids and counts are kept of so many parts only, and each is small."""
    ending = followed(*values)
    check(ending)
    assert footprint(ending) < 2 * LONGEST


def test_what_a_response_repeats_has_a_bound() -> None:
    """The one dialect that keeps text, counted with all that it keeps beside."""
    created = {"type": "response.created", "response": {"id": "resp_1", "model": "m"}}
    item = {"id": "x" * 200, "type": "message", "role": "assistant"}
    ending = followed(created)
    for number in range(1000):
        ending.feed(data({"type": "response.output_item.added", "output_index": number, "item": item}))
        for part in range(9):
            at = {"output_index": number, "content_index": part, "delta": "x" * 100}
            ending.feed(data({"type": "response.output_text.delta", **at}))
    check(ending)
    assert footprint(ending) < 8 * LONGEST


def test_an_event_that_never_ends_is_let_go_of() -> None:
    ending = followed(chat_chunk({"content": "a"}))
    for _ in range(100):
        ending.feed(b"data: " + b"x" * 16_384)
        assert footprint(ending) < 3 * LONGEST
    assert ending.close(MARK) is None
