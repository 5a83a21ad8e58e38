"""Anthropic's messages: blocks that start, grow and stop, one after another, between the start and the stop of a message."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from proxy.degrade.endings.ending import Unreadable
from proxy.degrade.endings.members import members, place, text
from proxy.degrade.endings.writing import event

# Blocks that may be stopped anywhere: no program acts on half of one. The results of tools that ran on the other side
# are whole when they start.
_STOPPED_ANYWHERE: Final = ("text", "thinking", "redacted_thinking")
_WHOLE: Final = "_tool_result"


class AnthropicMessages:
    """The blocks that are open, and the place of the next one."""

    __slots__ = ("_next", "_open", "_reason", "_started", "_tokens", "failed", "over")

    name: ClassVar[str] = "anthropic-messages"

    def __init__(self) -> None:
        self.over = False
        self.failed = False
        self._started = False
        self._reason = False
        self._open: dict[int, str] = {}
        self._next = 0
        self._tokens = 0

    @classmethod
    def speaks(cls, value: dict[str, Any], path: str) -> bool:
        """Say whether this is the start of a message."""
        return value.get("type") == "message_start" and type(value.get("message")) is dict

    def take(self, value: dict[str, Any]) -> None:
        """Take an event. One of a type that is not known here changes nothing that is."""
        match value.get("type"):
            case "content_block_delta":
                self._grow(value)
            case "content_block_start":
                index = place(value, "index")
                self._open[index] = text(members(value, "content_block"), "type")
                self._next = max(self._next, index + 1)
            case "content_block_stop":
                self._open.pop(place(value, "index"), None)
            case "message_start":
                self._started = True
                self._count(members(value, "message"))
            case "message_delta":
                self._reason = bool(text(members(value, "delta"), "stop_reason"))
                self._count(value)
            case "message_stop":
                self.over = True
            case _:
                pass

    def _grow(self, value: dict[str, Any]) -> None:
        index = place(value, "index")
        if index not in self._open:
            raise Unreadable("a block grows that is not open")
        if members(value, "delta").get("type") == "input_json_delta":
            self._open[index] = "input"

    def _count(self, value: dict[str, Any]) -> None:
        tokens = members(value, "usage").get("output_tokens")
        if type(tokens) is int and tokens >= 0:
            self._tokens = tokens

    def close(self, mark: str) -> bytes | None:
        """Stop the open blocks, the last text with the mark, and the message for its length."""
        if not self._started:
            raise Unreadable("a message that has not started")
        if not all(kind in _STOPPED_ANYWHERE or kind.endswith(_WHOLE) for kind in self._open.values()):
            return None
        stop = _event({"type": "message_stop"})
        if self._reason and not self._open:
            return stop
        texts = [index for index, kind in self._open.items() if kind == "text"]
        ends = [_stopped(index) for index in self._open if index not in texts[-1:]]
        if texts:
            marked = texts[-1]
        else:
            marked = self._next
            block = {"type": "text", "text": ""}
            ends.append(_event({"type": "content_block_start", "index": marked, "content_block": block}))
        delta = {"type": "text_delta", "text": mark}
        ends.append(_event({"type": "content_block_delta", "index": marked, "delta": delta}))
        ends.append(_stopped(marked))
        reason = {"stop_reason": "max_tokens", "stop_sequence": None}
        usage = {"output_tokens": self._tokens}
        ends.append(_event({"type": "message_delta", "delta": reason, "usage": usage}))
        return b"".join([*ends, stop])


def _stopped(index: int) -> bytes:
    return _event({"type": "content_block_stop", "index": index})


def _event(value: dict[str, Any]) -> bytes:
    return event(value, value["type"])
