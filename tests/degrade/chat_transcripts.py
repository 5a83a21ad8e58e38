"""Streams of chat completions, and of the older text completions, as OpenAI and others like it send them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.degrade.transcript import WORDS, Transcript, data

CHAT = "/v1/chat/completions"
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 12,
    "total_tokens": 21,
    "prompt_tokens_details": {"cached_tokens": 0},
}


def chat_chunk(
    delta: dict[str, Any], finish: str | None = None, *, index: int = 0, **more: Any
) -> dict[str, Any]:
    """A chunk of one choice."""
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return chat_head(choices=[choice], **more)


def chat_head(**more: Any) -> dict[str, Any]:
    """What all chunks of a stream repeat."""
    return {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion.chunk",
        "created": 1741570283,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
        **more,
    }


def _said(words: Iterable[str], member: str = "content", **more: Any) -> list[dict[str, Any]]:
    return [chat_chunk({member: each}, **more) for each in words]


_ROLE = {"role": "assistant", "content": "", "refusal": None}
_CALL = {"index": 0, "id": "call_9", "type": "function", "function": {"name": "order_tea", "arguments": ""}}


def _arguments(part: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}


CHAT_PLAIN = Transcript(
    "chat",
    "openai-chat",
    CHAT,
    [
        data(each)
        for each in (
            chat_chunk(_ROLE, obfuscation="x9"),
            *_said(WORDS, obfuscation="aB3"),
            chat_chunk({}, "stop"),
            "[DONE]",
        )
    ],
)
CHAT_WITH_USAGE = Transcript(
    "chat with usage",
    "openai-chat",
    CHAT,
    [
        data(each)
        for each in (
            chat_chunk(_ROLE, usage=None),
            *_said(WORDS, usage=None),
            chat_chunk({}, "stop", usage=None),
            chat_head(choices=[], usage=USAGE),
            "[DONE]",
        )
    ],
)
CHAT_COUNTING = Transcript(
    "chat that counts as it goes",
    "openai-chat",
    CHAT,
    [
        data(each)
        for each in (
            chat_chunk(_ROLE, usage={**USAGE, "completion_tokens": 0, "total_tokens": 9}),
            *(
                chat_chunk(
                    {"content": each}, usage={**USAGE, "completion_tokens": count, "total_tokens": 9 + count}
                )
                for count, each in enumerate(WORDS, 1)
            ),
            chat_chunk({}, "stop"),
            chat_head(choices=[], usage={**USAGE, "completion_tokens": 6, "total_tokens": 15}),
            "[DONE]",
        )
    ],
)
CHAT_OF_TWO = Transcript(
    "chat of two choices",
    "openai-chat",
    CHAT,
    [
        data(each)
        for each in (
            chat_chunk(_ROLE),
            chat_chunk(_ROLE, index=1),
            *(chunk for word in WORDS for chunk in _said([word]) + _said([word.upper()], index=1)),
            chat_chunk({}, "stop", index=1),
            *_said(["!"]),
            chat_chunk({}, "stop"),
            "[DONE]",
        )
    ],
)
CHAT_REFUSING = Transcript(
    "chat that refuses",
    "openai-chat",
    CHAT,
    [
        data(each)
        for each in (
            chat_chunk({"role": "assistant", "content": None, "refusal": ""}),
            *_said(WORDS, "refusal"),
            chat_chunk({}, "stop"),
            "[DONE]",
        )
    ],
)
CHAT_CALLING = Transcript(
    "chat that calls a tool",
    "openai-chat",
    CHAT,
    [
        data(each)
        for each in (
            chat_chunk(_ROLE),
            *_said(WORDS[:2]),
            chat_chunk({"tool_calls": [_CALL]}),
            *(chat_chunk(_arguments(part)) for part in ('{"cups"', ": 2", "}")),
            chat_chunk({}, "tool_calls"),
            "[DONE]",
        )
    ],
    calls=range(3, 7),
)
CHAT_OF_AZURE = Transcript(
    "chat that begins with its filters",
    "openai-chat",
    "/openai/deployments/tea/chat/completions?api-version=2024-10-21",
    [
        data(each)
        for each in (
            {
                "choices": [],
                "created": 0,
                "id": "",
                "model": "",
                "object": "",
                "prompt_filter_results": [{"prompt_index": 0}],
            },
            chat_chunk(_ROLE),
            *_said(WORDS),
            chat_chunk({}, "stop"),
            "[DONE]",
        )
    ],
)
CHAT_THINKING = Transcript(
    "chat that thinks first",
    "openai-chat",
    CHAT,
    [
        b": PROCESSING\n\n",
        *(
            data(each)
            for each in (
                chat_chunk({"role": "assistant", "content": None, "reasoning_content": "Hm, "}),
                *_said(["tea?"], "reasoning_content"),
                *_said(WORDS),
                chat_chunk({}, "stop"),
                "[DONE]",
            )
        ),
    ],
    from_=2,
)


def _completion(words: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"text": words, "index": 0, "logprobs": None, "finish_reason": finish}
    head = {
        "id": "cmpl-7iA7i",
        "object": "text_completion",
        "created": 1690759702,
        "model": "gpt-3.5-turbo-instruct",
    }
    return {**head, "choices": [choice]}


COMPLETIONS = Transcript(
    "completions",
    "openai-chat",
    "/v1/completions",
    [data(each) for each in (*map(_completion, WORDS), _completion("", "stop"), "[DONE]")],
)
