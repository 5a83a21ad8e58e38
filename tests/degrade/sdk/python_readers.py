"""The SDKs in Python, each as its users read a stream.

A reader is told where the service is (`base`, without the path that the SDK adds) and gives back what its user is left
with. What the SDK raises on the way is told too, with what had been heard until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import google.genai
import ollama
import openai

QUESTION: list[Any] = [{"role": "user", "content": "tea?"}]
GEMINI_MODEL = "gemini-2.5-flash"


@dataclass
class Heard:
    """What the user of an SDK has in the end. `error`: what it raised, by its class and its words."""

    text: str = ""
    reason: str | None = None
    usage: Any = None
    error: str | None = None


Reader = Callable[[str, Heard], None]


def _openai(base: str) -> openai.OpenAI:
    return openai.OpenAI(api_key="none", base_url=f"{base}/v1", max_retries=0)


def openai_chat(base: str, heard: Heard) -> None:
    """Chunk by chunk."""
    with _openai(base) as client:
        for piece in client.chat.completions.create(model="m", messages=QUESTION, stream=True):
            heard.usage = piece.usage or heard.usage
            for choice in piece.choices[:1]:
                heard.reason = choice.finish_reason or heard.reason
                if choice.index == 0:
                    heard.text += choice.delta.content or choice.delta.refusal or ""


def openai_chat_helper(base: str, heard: Heard) -> None:
    """The completion as the SDK puts it together. Its `get_final_completion` raises on every answer that ended for its length."""
    with _openai(base) as client, client.chat.completions.stream(model="m", messages=QUESTION) as stream:
        whole = stream.until_done().current_completion_snapshot
    (choice,) = [each for each in whole.choices if each.index == 0]
    heard.text = choice.message.content or choice.message.refusal or ""
    heard.reason, heard.usage = choice.finish_reason, whole.usage


def openai_completions(base: str, heard: Heard) -> None:
    """The older text completions."""
    with _openai(base) as client:
        for piece in client.completions.create(model="m", prompt="tea?", stream=True):
            choice: Any = piece.choices[0]
            heard.text += choice.text
            heard.reason = choice.finish_reason or heard.reason


def _last(response: Any, heard: Heard) -> None:
    heard.reason = response.incomplete_details.reason if response.incomplete_details else response.status
    heard.usage = response.usage


def openai_responses(base: str, heard: Heard) -> None:
    """Event by event."""
    with _openai(base) as client:
        for event in client.responses.create(model="m", input="tea?", stream=True):
            if event.type in ("response.output_text.delta", "response.refusal.delta"):
                heard.text += event.delta
            elif event.type in ("response.incomplete", "response.completed"):
                _last(event.response, heard)


def openai_responses_helper(base: str, heard: Heard) -> None:
    """The whole response, which the SDK checks against the events that led to it."""
    with _openai(base) as client, client.responses.stream(model="m", input="tea?") as stream:
        for event in stream:
            if event.type in ("response.incomplete", "response.completed"):
                whole: Any = event.response
                _last(whole, heard)
                parts = [part for item in whole.output if item.type == "message" for part in item.content]
                heard.text = "".join(
                    part.text if part.type == "output_text" else part.refusal for part in parts
                )


def _anthropic(base: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="none", base_url=base, max_retries=0)


def anthropic_messages(base: str, heard: Heard) -> None:
    """Event by event."""
    with _anthropic(base) as client:
        for event in client.messages.create(model="m", max_tokens=9, messages=QUESTION, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                heard.text += event.delta.text
            elif event.type == "message_delta":
                heard.reason, heard.usage = event.delta.stop_reason, event.usage


def anthropic_messages_helper(base: str, heard: Heard) -> None:
    """The whole message, as the SDK puts it together."""
    with (
        _anthropic(base) as client,
        client.messages.stream(model="m", max_tokens=9, messages=QUESTION) as stream,
    ):
        whole = stream.get_final_message()
    heard.text = "".join(block.text for block in whole.content if block.type == "text")
    heard.reason, heard.usage = whole.stop_reason, whole.usage


def _gemini(base: str) -> google.genai.Client:
    return google.genai.Client(api_key="none", http_options={"base_url": base})


def _answers(pieces: Any, heard: Heard) -> None:
    for piece in pieces:
        heard.usage = piece.usage_metadata or heard.usage
        for candidate in piece.candidates or []:
            if not candidate.index:
                reason = candidate.finish_reason
                heard.reason = reason.value if reason is not None else heard.reason
                parts = (candidate.content.parts if candidate.content else None) or []
                heard.text += "".join(part.text or "" for part in parts if not part.thought)


def gemini(base: str, heard: Heard) -> None:
    """Answer by answer."""
    with _gemini(base) as client:
        _answers(client.models.generate_content_stream(model=GEMINI_MODEL, contents="tea?"), heard)


def gemini_chat(base: str, heard: Heard) -> None:
    """A conversation, which keeps what it takes for a whole turn."""
    with _gemini(base) as client:
        chat = client.chats.create(model=GEMINI_MODEL)
        _answers(chat.send_message_stream("tea?"), heard)
        heard.text = "".join(
            part.text or ""
            for turn in chat.get_history()[1:]
            for part in turn.parts or []
            if not part.thought
        )


def _ollama(base: str) -> ollama.Client:
    return ollama.Client(host=base)


def ollama_chat(base: str, heard: Heard) -> None:
    """Line by line."""
    with _ollama(base) as client:
        for piece in client.chat(model="m", messages=QUESTION, stream=True):
            heard.text += piece.message.content or ""
            heard.reason = piece.done_reason or heard.reason


def ollama_generate(base: str, heard: Heard) -> None:
    """Line by line, of an answer to a prompt."""
    with _ollama(base) as client:
        for piece in client.generate(model="m", prompt="tea?", stream=True):
            heard.text += piece.response or ""
            heard.reason = piece.done_reason or heard.reason


READERS: dict[str, Reader] = {
    "openai chat": openai_chat,
    "openai chat helper": openai_chat_helper,
    "openai completions": openai_completions,
    "openai responses": openai_responses,
    "openai responses helper": openai_responses_helper,
    "anthropic messages": anthropic_messages,
    "anthropic messages helper": anthropic_messages_helper,
    "gemini": gemini,
    "gemini chat": gemini_chat,
    "ollama chat": ollama_chat,
    "ollama generate": ollama_generate,
}


def read(reader: str, base: str) -> Heard:
    """Let one SDK read one stream."""
    heard = Heard()
    try:
        READERS[reader](base, heard)
    except Exception as raised:  # noqa: BLE001 - whatever it is, it is what the user is left with
        heard.error = f"{type(raised).__name__}: {raised}"
    if heard.usage is not None:
        heard.usage = heard.usage.model_dump(mode="json")
    return heard
