"""How a stream is read and cut, by its Content-Type. Which dialect it speaks is told from its first events."""

from __future__ import annotations

import re
from typing import Final

from proxy.degrade.endings.anthropic_messages import AnthropicMessages
from proxy.degrade.endings.ending import Dialect, Ending
from proxy.degrade.endings.gemini import Gemini
from proxy.degrade.endings.ollama import Ollama
from proxy.degrade.endings.openai_chat import OpenAIChat
from proxy.degrade.endings.openai_responses import OpenAIResponses
from proxy.degrade.endings.structured import EventsEnding, LinesEnding
from proxy.degrade.endings.text import TextEnding
from proxy.wire.boundary import Boundary
from proxy.wire.characters import CharacterBoundary
from proxy.wire.eventstream import EventBoundary
from proxy.wire.lines import LineBoundary

_IN_EVENTS: Final[tuple[type[Dialect], ...]] = (OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini)
_IN_LINES: Final[tuple[type[Dialect], ...]] = (Ollama,)

_EVENTS: Final = frozenset({b"text/event-stream"})
_LINES: Final = frozenset(
    {
        b"application/json-lines",
        b"application/json-seq",
        b"application/jsonl",
        b"application/jsonlines",
        b"application/ndjson",
        b"application/stream+json",
        b"application/x-json-stream",
        b"application/x-jsonl",
        b"application/x-jsonlines",
        b"application/x-ndjson",
    }
)
_TEXT: Final = frozenset({b"text/markdown", b"text/plain"})
_CHARSET: Final = re.compile(rb";\s*charset\s*=\s*\"?([^\s;\"]+)")
_UTF_8: Final = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})


def ending_for(content_type: bytes, path: str) -> Ending | None:
    """Return what follows a stream of this Content-Type, asked for at this path; None: nothing that is read here as a stream.

    It takes the bytes of an answer without Content-Encoding.
    """
    kind = _kind(content_type)
    asked = path.partition("?")[0]
    if kind in _EVENTS:
        return EventsEnding(_IN_EVENTS, asked)
    if kind in _LINES:
        return LinesEnding(_IN_LINES, asked)
    return TextEnding() if _is_text(kind, content_type) else None


def boundary_for(content_type: bytes) -> Boundary | None:
    """Return what finds the places where a stream of this Content-Type can be cut; None where there is no ending for it."""
    kind = _kind(content_type)
    if kind in _EVENTS:
        return EventBoundary()
    if kind in _LINES:
        return LineBoundary()
    return CharacterBoundary() if _is_text(kind, content_type) else None


def _kind(content_type: bytes) -> bytes:
    """Return the media type in lower case."""
    return content_type.partition(b";")[0].strip().lower()


def _is_text(kind: bytes, content_type: bytes) -> bool:
    """Say whether it is text in UTF-8. The others are in nothing else, whatever they say."""
    charset = _CHARSET.search(content_type.lower())
    return kind in _TEXT and (charset is None or charset[1] in _UTF_8)
