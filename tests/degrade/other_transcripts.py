"""Streams as Anthropic, Gemini and Ollama send them, and streams of nothing but words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.degrade.transcript import LINES, WORDS, Transcript, data, named

# -- Anthropic, messages ------------------------------------------------------------------------------------------------

MESSAGES = "/v1/messages"


def _start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, kind: str, member: str, words: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, member: words}}


def _stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def _text_block(index: int, words: Iterable[str] = WORDS) -> list[dict[str, Any]]:
    deltas = (_delta(index, "text_delta", "text", word) for word in words)
    return [_start(index, {"type": "text", "text": ""}), *deltas, _stop(index)]


def _of_messages(name: str, blocks: list[dict[str, Any]], reason: str, calls: range = range(0)) -> Transcript:
    message: dict[str, Any] = {
        "id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-sonnet-4-20250514",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 25, "cache_read_input_tokens": 0, "output_tokens": 3},
    }
    last = {"stop_reason": reason, "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "ping"},
        *blocks,
        {"type": "message_delta", "delta": last, "usage": {"output_tokens": 15}},
        {"type": "message_stop"},
    ]
    return Transcript(name, "anthropic-messages", MESSAGES, named(events), calls=calls)


_THOUGHT = [
    _start(0, {"type": "thinking", "thinking": "", "signature": ""}),
    _delta(0, "thinking_delta", "thinking", "Tea is "),
    _delta(0, "thinking_delta", "thinking", "warm."),
    _delta(0, "signature_delta", "signature", "EqQBCgIYAhIM"),
    _stop(0),
]
_USED = [
    _start(1, {"type": "tool_use", "id": "toolu_01", "name": "order_tea", "input": {}}),
    *(_delta(1, "input_json_delta", "partial_json", part) for part in ("", '{"cups"', ": 2}")),
    _stop(1),
]
MESSAGES_PLAIN = _of_messages("messages", _text_block(0), "end_turn")
MESSAGES_THINKING = _of_messages("messages that think", [*_THOUGHT, *_text_block(1)], "end_turn")
MESSAGES_CALLING = _of_messages(
    "messages that call", [*_text_block(0, WORDS[:2]), *_USED], "tool_use", calls=range(6, 10)
)

# -- Gemini -------------------------------------------------------------------------------------------------------------

GEMINI = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"


def answer(
    parts: list[dict[str, Any]], count: int, finish: str | None = None, index: int = 0
) -> dict[str, Any]:
    """One event of Gemini's."""
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": index}
    if finish is not None:
        candidate["finishReason"] = finish
    details = [{"modality": "TEXT", "tokenCount": 4}]
    usage = {"promptTokenCount": 4, "candidatesTokenCount": count, "totalTokenCount": 4 + count}
    return {
        "candidates": [candidate],
        "usageMetadata": {**usage, "promptTokensDetails": details},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "mZ0aaLGzJ4Sh",
    }


def _of_gemini(name: str, events: list[dict[str, Any]], calls: range = range(0)) -> Transcript:
    pieces = [data(event).replace(b"\n", b"\r\n") for event in events]
    return Transcript(name, "gemini", GEMINI, pieces, calls=calls)


_TOLD = [answer([{"text": word}], count) for count, word in enumerate(WORDS, 1)]
GEMINI_PLAIN = _of_gemini("gemini", [*_TOLD, answer([{"text": ""}], 9, "STOP")])
GEMINI_THINKING = _of_gemini(
    "gemini that thinks",
    [answer([{"text": "Hm", "thought": True}], 0), *_TOLD, answer([{"text": "!"}], 9, "STOP")],
)
GEMINI_OF_TWO = _of_gemini(
    "gemini with two candidates",
    [
        *(
            each
            for word in WORDS
            for each in (answer([{"text": word}], 1), answer([{"text": "x"}], 1, index=1))
        ),
        answer([{"text": "y"}], 9, "STOP", index=1),
        answer([{"text": "!"}], 9, "STOP"),
    ],
)
_CALL_PARTS: list[dict[str, Any]] = [
    {"functionCall": {"name": "order_tea", "willContinue": True}},
    {"functionCall": {"partialArgs": [{"jsonPath": "$.cups", "numberValue": 2}], "willContinue": True}},
    {"functionCall": {}},
]
GEMINI_CALLING = _of_gemini(
    "gemini that calls in pieces",
    [*_TOLD[:2], *(answer([part], 3) for part in _CALL_PARTS), answer([], 9, "STOP")],
    calls=range(2, 4),
)

# -- Ollama -------------------------------------------------------------------------------------------------------------

_COUNTS = {
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}


def _line(value: dict[str, Any], number: int) -> bytes:
    head = {"model": "llama3.2", "created_at": f"2026-08-04T08:52:19.{number}54807Z"}
    return json.dumps({**head, **value}, ensure_ascii=False).encode() + b"\n"


def _of_ollama(name: str, path: str, says: Any, before: list[dict[str, Any]] | None = None) -> Transcript:
    told = [*(before or []), *({**says(word), "done": False} for word in WORDS)]
    last = {**says(""), "done": True, "done_reason": "stop", **_COUNTS}
    lines = [_line(value, number) for number, value in enumerate([*told, last])]
    return Transcript(name, "ollama", path, lines, content_type=LINES)


def _chat(words: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": words}}


OLLAMA_CHAT = _of_ollama("ollama's chat", "/api/chat", _chat)
OLLAMA_GENERATE = _of_ollama("ollama's generate", "/api/generate", lambda words: {"response": words})
OLLAMA_THINKING = _of_ollama(
    "ollama that thinks and calls",
    "/api/chat",
    _chat,
    [
        {"message": {"role": "assistant", "content": "", "thinking": "Hm"}, "done": False},
        {
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "order_tea", "arguments": {"cups": 2}}}],
            },
            "done": False,
        },
    ],
)

# -- words alone --------------------------------------------------------------------------------------------------------

PLAIN_EVENTS = Transcript(
    "plain events",
    "events",
    "/stream",
    [b": hello\n\n", *(data(word.rstrip("\n")) for word in WORDS), data("[DONE]")],
    from_=2,
)
NAMED_EVENTS = Transcript(
    "plain events of one name", "events", "/stream", [data(word.rstrip("\n"), "token") for word in WORDS]
)
PLAIN_TEXT = Transcript(
    "plain text",
    "text",
    "/stream",
    [word.encode() for word in WORDS],
    content_type="text/plain; charset=utf-8",
    from_=0,
)
