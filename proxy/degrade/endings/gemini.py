"""Gemini's `streamGenerateContent` as an event stream (`alt=sse`): each event has the parts that are new of each candidate.

There is no last event: the stream is over when every candidate that has begun has its `finishReason`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from proxy.degrade.endings.ending import Unreadable
from proxy.degrade.endings.members import members, objects, place, small, text
from proxy.degrade.endings.writing import event

_HEAD: Final = ("modelVersion", "responseId", "createTime")
_UNSPECIFIED: Final = "FINISH_REASON_UNSPECIFIED"


class Gemini:
    """The candidates that are open, and what all have in common."""

    __slots__ = ("_calling", "_finished", "_head", "_open", "_usage", "failed", "over")

    name: ClassVar[str] = "gemini"

    def __init__(self) -> None:
        self.over = False
        self.failed = False
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._open: set[int] = set()
        self._finished: set[int] = set()
        self._calling: set[int] = set()

    @classmethod
    def speaks(cls, value: dict[str, Any], path: str) -> bool:
        """Say whether this is an answer of its kind. One without candidates says so by what else it has, or by its path."""
        if type(value.get("candidates")) is list:
            return True
        has_usage = type(value.get("usageMetadata")) is dict
        return has_usage and ("modelVersion" in value or path.endswith(":streamGenerateContent"))

    def take(self, value: dict[str, Any]) -> None:
        """Take an answer."""
        self.over = False
        if value.get("responseId") != self._head.get("responseId") or not self._head:
            self._head = small(value, _HEAD)
        self._usage = small(members(value, "usageMetadata")) or self._usage
        for candidate in objects(value, "candidates"):
            self._grow(candidate)
        blocked = bool(members(value, "promptFeedback").get("blockReason"))
        self.over = not self._open and (bool(self._finished) or blocked)

    def _grow(self, candidate: dict[str, Any]) -> None:
        index = place(candidate, "index", 0)
        parts = objects(members(candidate, "content"), "parts")
        if index in self._finished:
            if any(part.get("text") or "functionCall" in part for part in parts):
                raise Unreadable("a candidate goes on behind its finishReason, which then says nothing")
            return
        for part in parts:
            if "functionCall" in part:
                # A call stands whole in one part, unless it says that it goes on in the next.
                goes_on = members(part, "functionCall").get("willContinue") is True
                (self._calling.add if goes_on else self._calling.discard)(index)
        if text(candidate, "finishReason") in ("", _UNSPECIFIED):
            self._open.add(index)
        else:
            self._finished.add(index)
            self._open.discard(index)
            self._calling.discard(index)

    def close(self, mark: str) -> bytes | None:
        """End each open candidate at its limit of tokens."""
        if self._calling:
            return None
        candidates = [
            {
                "content": {"parts": [{"text": mark}], "role": "model"},
                "finishReason": "MAX_TOKENS",
                "index": index,
            }
            for index in sorted(self._open or {0})
        ]
        usage = {"usageMetadata": self._usage} if self._usage else {}
        return event({"candidates": candidates, **usage, **self._head})
