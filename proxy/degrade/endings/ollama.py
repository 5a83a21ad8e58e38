"""Ollama's `/api/chat` and `/api/generate`: lines that each have the text that is new, the last with `done` and the counts."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from proxy.degrade.endings.members import small
from proxy.degrade.endings.writing import line

_HEAD: Final = ("model", "created_at", "remote_model", "remote_host")
_COUNTS: Final = (
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)


class Ollama:
    """What each line repeats, and the counts as far as they have been told."""

    __slots__ = ("_chat", "_counts", "_head", "failed", "over")

    name: ClassVar[str] = "ollama"

    def __init__(self) -> None:
        self.over = False
        self.failed = False
        self._chat = False
        self._head: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}

    @classmethod
    def speaks(cls, value: dict[str, Any], path: str) -> bool:
        """Say whether this is a line of a chat, or of an answer to a prompt."""
        says = type(value.get("message")) is dict or type(value.get("response")) is str
        return says and type(value.get("done")) is bool

    def take(self, value: dict[str, Any]) -> None:
        """Take a line. A call of a tool always stands whole in one."""
        self._chat = "message" in value
        self._head = small(value, _HEAD)
        self._counts.update(small(value, _COUNTS))
        self.over = value.get("done") is True

    def close(self, mark: str) -> bytes | None:
        """Say the mark, and then that the answer is done, for its length."""
        last = {"done": True, "done_reason": "length", **self._counts}
        return line({**self._head, **self._says(mark), "done": False}) + line(
            {**self._head, **self._says(""), **last}
        )

    def _says(self, words: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": words}} if self._chat else {"response": words}
