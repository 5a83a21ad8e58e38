"""Responses: open items and parts are done before the response is incomplete, and what they repeat is what was said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.degrade.endings.openai_responses import KEPT
from tests.degrade.endings.feeding import added, followed
from tests.degrade.responses_transcripts import RESPONSE_ID, response
from tests.degrade.transcript import MARK, data

CREATED = {"type": "response.created", "response": response("in_progress"), "sequence_number": 0}
ITEM = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
BEGUN: list[dict[str, Any]] = [
    CREATED,
    {"type": "response.output_item.added", "output_index": 0, "item": ITEM, "sequence_number": 1},
    {
        "type": "response.content_part.added",
        **AT,
        "part": {"type": "output_text", "text": "", "annotations": []},
        "sequence_number": 2,
    },
]


def delta(words: str, number: int = 3, **more: Any) -> dict[str, Any]:
    """A piece of the text."""
    return {"type": "response.output_text.delta", **AT, "delta": words, "sequence_number": number, **more}


def types(values: list[Any]) -> list[str]:
    """What the events are, in short."""
    return [value["type"].removeprefix("response.") for value in values]


def test_an_open_part_is_done_with_all_that_it_said() -> None:
    values = added(followed(*BEGUN, delta("Tea "), delta("is", 4)))
    assert types(values) == [
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "incomplete",
    ]
    assert [value["sequence_number"] for value in values] == [5, 6, 7, 8, 9]
    part = {"type": "output_text", "text": f"Tea is{MARK}", "annotations": [], "logprobs": []}
    assert values[0] == {
        "type": "response.output_text.delta",
        **AT,
        "delta": MARK,
        "logprobs": [],
        "sequence_number": 5,
    }
    assert (values[1]["text"], values[2]["part"]) == (part["text"], part)
    assert values[3]["item"] == {**ITEM, "status": "incomplete", "content": [part]}
    last = values[4]["response"]
    assert last == {
        **response("incomplete", [values[3]["item"]]),
        "incomplete_details": {"reason": "max_output_tokens"},
    }


def test_a_response_without_an_open_message_gets_one_for_the_mark() -> None:
    """Before the first item, behind the last one that is done, and beside one that only reasons."""
    values = added(followed(CREATED))
    assert types(values) == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "incomplete",
    ]
    item = values[0]["item"]
    assert (item["role"], item["content"], values[0]["output_index"]) == ("assistant", [], 0)
    assert item["id"] == f"msg_truncated_{RESPONSE_ID.removeprefix('resp_')}"[:64]
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "x" * 9}
    added_item = {"type": "response.output_item.added", "output_index": 0, "item": reasoning}
    beside = added(followed(CREATED, added_item))
    assert [each["type"] for each in beside[-1]["response"]["output"]] == ["reasoning", "message"]
    assert beside[0] == {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {"id": "rs_1", "type": "reasoning", "status": "incomplete", "summary": []},
        "sequence_number": 1,
    }


def test_a_text_that_was_told_is_not_told_again() -> None:
    """Its part is only done; the mark stands in a part of its own."""
    told = {"type": "response.output_text.done", **AT, "text": "Tea", "sequence_number": 4}
    values = added(followed(*BEGUN, delta("Tea"), told))
    assert types(values)[:4] == [
        "content_part.added",
        "output_text.delta",
        "content_part.done",
        "output_text.done",
    ]
    assert [part["text"] for part in values[-2]["item"]["content"]] == ["Tea", MARK]


def test_annotations_are_repeated() -> None:
    cited = {"type": "url_citation", "url": "https://tea.example", "start_index": 0, "end_index": 3}
    event = {
        "type": "response.output_text.annotation.added",
        **AT,
        "annotation": cited,
        "annotation_index": 0,
    }
    values = added(followed(*BEGUN, delta("Tea"), event))
    assert values[-2]["item"]["content"][0]["annotations"] == [cited]


def test_a_part_that_was_never_announced_is_not_said_to_be_done() -> None:
    values = added(followed(*BEGUN[:2], delta("Tea")))
    assert types(values) == ["output_text.delta", "output_text.done", "output_item.done", "incomplete"]


def test_half_a_character_may_be_in_each_of_two_pieces() -> None:
    """Half a surrogate pair is a piece that JSON can write, and UTF-8 cannot."""
    ending = followed(*BEGUN)
    for half in ("\ud83e", "\uded6"):
        ending.feed(b"data: " + json.dumps(delta(half)).encode() + b"\n\n")
    values = added(ending)
    text = values[1]["text"]
    assert json.loads(json.dumps(text)) == f"🫖{MARK}"


def test_without_numbers_none_are_made_up() -> None:
    bare = [{name: each for name, each in event.items() if name != "sequence_number"} for event in BEGUN]
    assert not [value for value in added(followed(*bare)) if "sequence_number" in value]


@pytest.mark.parametrize(
    "kind",
    [
        "function_call",
        "custom_tool_call",
        "mcp_call",
        "web_search_call",
        "computer_call",
        "something_new",
        "",
    ],
)
def test_an_open_call_has_no_end(kind: str) -> None:
    """Nor has an item that nobody here knows: it may be one. When it is done, it is whole, and stays."""
    call = {"type": kind, "id": "fc_1", "name": "order", "arguments": ""}
    ending = followed(CREATED, {"type": "response.output_item.added", "output_index": 0, "item": call})
    assert ending.close(MARK) is None
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**call, "arguments": "{}"}}
    ending.feed(data(done))
    assert added(ending)[-1]["response"]["output"][0] == done["item"]


def test_more_than_is_kept_is_given_up() -> None:
    """The end would have to repeat it."""
    words = "x" * 1000
    fits = KEPT // len(words) - 1
    ending = followed(*BEGUN, *(delta(words) for _ in range(fits)))
    assert added(ending)[1]["text"] == words * fits + MARK
    ending.feed(data(delta(words)) + data(delta(words)))
    assert ending.close(MARK) is None


def test_items_that_are_done_count_once() -> None:
    """Their parts are let go of when the item comes whole."""
    words = "x" * (KEPT // 3)
    part = {"type": "output_text", "text": words, "annotations": []}
    ending = followed(
        *BEGUN,
        delta(words),
        {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "content": [part]}},
        {"type": "response.output_item.added", "output_index": 1, "item": {**ITEM, "id": "msg_2"}},
        delta(words, output_index=1),
    )
    assert [len(item["content"][0]["text"]) for item in added(ending)[-1]["response"]["output"]] == [
        len(words),
        len(words) + len(MARK),
    ]


def test_long_members_of_the_response_are_left_out() -> None:
    """Its instructions and tools, which the client has sent itself."""
    tools = [{"type": "function", "name": f"tool_{number}", "description": "x" * 300} for number in range(9)]
    first = {
        **CREATED,
        "response": response("in_progress", instructions="x" * 50_000, tools=tools, user="me"),
    }
    last = added(followed(first))[-1]["response"]
    assert "instructions" not in last
    assert "tools" not in last
    assert (last["user"], last["tool_choice"]) == ("me", "auto")


@pytest.mark.parametrize("kind", ["response.failed", "response.cancelled"])
def test_a_response_that_has_failed(kind: str) -> None:
    ending = followed(*BEGUN, {"type": kind, "response": response("failed", error={"code": "server_error"})})
    assert (ending.over, ending.failed, ending.close(MARK)) == (True, True, b"")


def test_an_error_event() -> None:
    ending = followed(*BEGUN, {"type": "error", "code": "server_error", "message": "sorry"}, named=True)
    assert (ending.over, ending.failed, ending.close(MARK)) == (False, True, None)


@pytest.mark.parametrize(
    "event",
    [
        {"type": 7},
        {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
        {"type": "response.output_item.added", "output_index": -1, "item": ITEM},
        {"type": "response.output_item.added", "output_index": 1, "item": []},
        {"type": "response.content_part.added", **AT, "part": {"type": "output_audio"}},
        {"type": "response.output_text.delta", **AT, "delta": 7},
        {"type": "response.output_text.delta", **AT, "output_index": 5, "delta": "x"},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "x"},
        {"type": "response.created", "response": {}},
        {"type": "response.in_progress", "response": response("in_progress", output=[ITEM])},
    ],
)
def test_what_cannot_be_followed_is_given_up(event: dict[str, Any]) -> None:
    assert followed(*BEGUN, event).close(MARK) is None


def test_events_that_are_not_known_only_count() -> None:
    ending = followed(*BEGUN, delta("Tea"), {"type": "keepalive", "sequence_number": 4})
    assert added(ending)[0]["sequence_number"] == 5
