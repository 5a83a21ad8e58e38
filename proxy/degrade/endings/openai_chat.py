"""OpenAI's chat completions and its older text completions, as many servers besides speak them.

Each event is a chunk with the choices that have grown. A choice ends with a `finish_reason`; an event without choices may
tell the usage; the last event is `[DONE]`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from proxy.degrade.endings.members import members, objects, place, small, text
from proxy.degrade.endings.writing import DONE, event

_HEAD: Final = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
_CHUNK: Final = "chat.completion.chunk"
_TEXT: Final = "text_completion"


class OpenAIChat:
    """The choices that are open, and in which member of each its text stands by now."""

    __slots__ = (
        "_calling",
        "_finished",
        "_head",
        "_open",
        "_says_usage",
        "_text",
        "_usage",
        "failed",
        "over",
    )

    name: ClassVar[str] = "openai-chat"

    def __init__(self) -> None:
        self.over = False
        self.failed = False
        self._text = False
        self._head: dict[str, Any] = {}
        self._open: dict[int, str] = {}
        self._finished: set[int] = set()
        self._calling: set[int] = set()
        self._says_usage = False
        self._usage: dict[str, Any] = {}

    @classmethod
    def speaks(cls, value: dict[str, Any], path: str) -> bool:
        """Say whether this is a chunk. Some say of none but the later ones what they are; there the path tells."""
        if type(value.get("choices")) is not list:
            return False
        return value.get("object") in (_CHUNK, _TEXT) or path.endswith("/completions")

    def take(self, value: dict[str, Any]) -> None:
        """Take a chunk."""
        if "choices" not in value:
            return
        if not self._head.get("id") or value.get("id") != self._head["id"]:
            self._head = small(value, _HEAD)
            self._text = value.get("object") == _TEXT
            self._head["object"] = _TEXT if self._text else _CHUNK
        if "usage" in value:
            self._says_usage = True
            self._usage = small(members(value, "usage")) or self._usage
        for choice in objects(value, "choices"):
            self._grow(choice)

    def _grow(self, choice: dict[str, Any]) -> None:
        index = place(choice, "index", 0)
        if index in self._finished:
            return
        if text(choice, "finish_reason"):
            self._finished.add(index)
            self._open.pop(index, None)
            self._calling.discard(index)
            return
        delta = members(choice, "delta")
        if delta.get("tool_calls") or delta.get("function_call"):
            self._calling.add(index)
        if index not in self._open or delta.get("content"):
            self._open[index] = "content"
        if delta.get("refusal"):
            self._open[index] = "refusal"

    def close(self, mark: str) -> bytes | None:
        """End each open choice for its length. A call cannot be told to be whole before its choice is."""
        if self._calling:
            return None
        begun = self._open or self._finished
        ends = [] if begun else [self._chunk(0, {"role": "assistant", "content": ""}, None)]
        for index, member in (self._open if begun else {0: "content"}).items():
            ends += [self._chunk(index, {member: mark}, None), self._chunk(index, {}, "length")]
        if ends and self._usage:
            ends.append(event({**self._head, "choices": [], "usage": self._usage}))
        return b"".join([*ends, DONE])

    def _chunk(self, index: int, delta: dict[str, str], finish_reason: str | None) -> bytes:
        grown: dict[str, Any] = {"text": delta.get("content", "")} if self._text else {"delta": delta}
        choice = {"index": index, **grown, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if self._says_usage else {}
        return event({**self._head, "choices": [choice], **usage})
