"""Streams of responses, as OpenAI sends them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.degrade.transcript import TEXT, WORDS, Transcript, named

RESPONSES = "/v1/responses"
RESPONSE_ID = "resp_67c9fdcecf488190bdd9a0409de3a1ec07b8b0ad4e5eb654"
MESSAGE_ID = "msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654"
REASONING_ID = "rs_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654"


def response(status: str, output: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A response, with what one repeats of its request."""
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": 1741290958,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": "You are a helpful assistant.",
        "max_output_tokens": None,
        "model": "gpt-4.1-2025-04-14",
        "output": output or [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **more,
    }


def _numbered(values: Iterable[dict[str, Any]]) -> list[bytes]:
    return named({**value, "sequence_number": number} for number, value in enumerate(values))


def _begun() -> list[dict[str, Any]]:
    return [
        {"type": f"response.{what}", "response": response("in_progress")}
        for what in ("created", "in_progress")
    ]


def _part(words: str, kind: str = "output_text") -> dict[str, Any]:
    if kind == "refusal":
        return {"type": kind, "refusal": words}
    return {"type": kind, "text": words, "annotations": [], "logprobs": []}


def _message(index: int = 0, kind: str = "output_text") -> list[dict[str, Any]]:
    """All events of one message."""
    item = {"id": MESSAGE_ID, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    at = {"item_id": MESSAGE_ID, "output_index": index, "content_index": 0}
    more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    words = {"text" if kind == "output_text" else "refusal": TEXT}
    whole = {**item, "status": "completed", "content": [_part(TEXT, kind)]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.content_part.added", **at, "part": _part("", kind)},
        *({"type": f"response.{kind}.delta", **at, "delta": word, **more} for word in WORDS),
        {"type": f"response.{kind}.done", **at, **words, **more},
        {"type": "response.content_part.done", **at, "part": _part(TEXT, kind)},
        {"type": "response.output_item.done", "output_index": index, "item": whole},
    ]


def _reasoning(index: int = 0) -> list[dict[str, Any]]:
    """All events of a reasoning item with a summary."""
    item: dict[str, Any] = {"id": REASONING_ID, "type": "reasoning", "summary": []}
    at = {"item_id": REASONING_ID, "output_index": index, "summary_index": 0}
    summary = {"type": "summary_text", "text": "**Tea** is warm"}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}},
        {"type": "response.reasoning_summary_text.delta", **at, "delta": "**Tea**"},
        {"type": "response.reasoning_summary_text.delta", **at, "delta": " is warm"},
        {"type": "response.reasoning_summary_text.done", **at, "text": summary["text"]},
        {"type": "response.reasoning_summary_part.done", **at, "part": summary},
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**item, "summary": [summary]},
        },
    ]


def _called(index: int = 0) -> list[dict[str, Any]]:
    """All events of a call of a function."""
    item = {
        "id": "fc_1",
        "type": "function_call",
        "status": "in_progress",
        "arguments": "",
        "call_id": "call_1",
    }
    item["name"] = "order_tea"
    at = {"item_id": "fc_1", "output_index": index}
    whole = {**item, "status": "completed", "arguments": '{"cups": 2}'}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        *(
            {"type": "response.function_call_arguments.delta", **at, "delta": part}
            for part in ('{"cups"', ": 2", "}")
        ),
        {"type": "response.function_call_arguments.done", **at, "arguments": '{"cups": 2}'},
        {"type": "response.output_item.done", "output_index": index, "item": whole},
    ]


def _completed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    output = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    usage = {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 123,
    }
    return [{"type": "response.completed", "response": response("completed", output, usage=usage)}]


def _of_responses(name: str, events: list[dict[str, Any]], calls: range = range(0)) -> Transcript:
    pieces = _numbered([*_begun(), *events, *_completed(events)])
    return Transcript(name, "openai-responses", RESPONSES, pieces, calls=calls)


RESPONSES_PLAIN = _of_responses("responses", _message())
RESPONSES_REFUSING = _of_responses("responses that refuse", _message(kind="refusal"))
RESPONSES_REASONING = _of_responses("responses that reason", [*_reasoning(), *_message(1)])
RESPONSES_CALLING = _of_responses("responses that call", [*_called(), *_message(1)], calls=range(2, 7))
