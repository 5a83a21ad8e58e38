"""Messages: which blocks may be stopped anywhere, and where the mark stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.degrade.endings.feeding import added, followed
from tests.degrade.other_transcripts import MESSAGES_PLAIN
from tests.degrade.transcript import MARK, data

START = {
    "type": "message_start",
    "message": {"id": "msg_1", "role": "assistant", "usage": {"input_tokens": 25, "output_tokens": 3}},
}


def block(index: int, **what: Any) -> dict[str, Any]:
    """A block starts."""
    return {"type": "content_block_start", "index": index, "content_block": what}


def grows(index: int, **what: Any) -> dict[str, Any]:
    """A block goes on."""
    return {"type": "content_block_delta", "index": index, "delta": what}


def stops(index: int) -> dict[str, Any]:
    """A block ends."""
    return {"type": "content_block_stop", "index": index}


LAST = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "max_tokens", "stop_sequence": None},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
]
TEXT = block(0, type="text", text="")


def marked(index: int) -> list[dict[str, Any]]:
    """The mark, and the end of the text that it stands in."""
    return [grows(index, type="text_delta", text=MARK), stops(index)]


def test_an_open_text_takes_the_mark() -> None:
    assert added(followed(START, TEXT)) == [*marked(0), *LAST]


@pytest.mark.parametrize(
    "before",
    [
        [],
        [TEXT, stops(0)],
        [
            block(0, type="tool_use", id="t", name="order", input={}),
            grows(0, type="input_json_delta"),
            stops(0),
        ],
    ],
)
def test_without_an_open_text_there_is_a_new_one(before: list[dict[str, Any]]) -> None:
    """Behind what is whole, a call of a tool too: its arguments are all there."""
    index = 1 if before else 0
    assert added(followed(START, *before)) == [block(index, type="text", text=""), *marked(index), *LAST]


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking", "web_search_tool_result"])
def test_other_blocks_are_stopped(kind: str) -> None:
    """A thought has then no signature; the mark is no part of it."""
    values = added(followed(START, block(0, type=kind)))
    assert values == [stops(0), block(1, type="text", text=""), *marked(1), *LAST]


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use", "something_new", ""])
def test_an_open_call_has_no_end(kind: str) -> None:
    """Nor has a block that nobody here knows."""
    assert followed(START, TEXT, stops(0), block(1, type=kind)).close(MARK) is None


def test_arguments_make_a_call_of_any_block() -> None:
    ending = followed(START, TEXT, grows(0, type="input_json_delta", partial_json="{"))
    assert ending.close(MARK) is None


def test_a_message_that_has_its_reason_is_only_stopped() -> None:
    """Nothing of its text was cut."""
    said = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
    assert added(followed(START, TEXT, stops(0), said)) == [LAST[1]]


def test_events_have_the_names_that_the_client_goes_by() -> None:
    ending = followed(START, TEXT)
    last = ending.close(MARK)
    assert last is not None
    assert last.count(b"event: ") == last.count(b"data: ") == len(marked(0)) + len(LAST)
    assert last.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


def test_usage_is_what_was_told_last() -> None:
    said = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9}}
    usages = [each.get("usage") for each in added(followed(START, TEXT, said))]
    assert usages == [None, None, {"output_tokens": 9}, None]
    unknown = {"type": "message_start", "message": {"id": "msg_1"}}
    assert added(followed(unknown))[-2]["usage"] == {"output_tokens": 0}


def test_an_error_is_a_failure() -> None:
    ending = followed(
        START, {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}, named=True
    )
    assert (ending.failed, ending.close(MARK)) == (True, None)


def test_pings_may_come_first() -> None:
    ending = followed({"type": "ping"}, named=True)
    assert (ending.dialect, ending.close(MARK)) == ("unknown", None)
    ending.feed(data(START, "message_start"))
    assert added(ending)[-1] == LAST[1]


@pytest.mark.parametrize(
    "event",
    [
        block(-1, type="text"),
        block(5000, type="text"),
        {"type": "content_block_start", "index": 0, "content_block": []},
        {"type": "content_block_start", "content_block": {"type": "text"}},
        grows(3, type="text_delta", text="x"),
        {"type": "message_delta", "delta": {"stop_reason": 5}},
        {"type": "message_delta", "delta": {}, "usage": []},
    ],
)
def test_what_cannot_be_followed_is_given_up(event: dict[str, Any]) -> None:
    assert followed(START, TEXT, event).close(MARK) is None


def test_the_end_of_a_whole_stream() -> None:
    ending = followed()
    ending.feed(MESSAGES_PLAIN.wire)
    assert (ending.over, ending.failed) == (True, False)
