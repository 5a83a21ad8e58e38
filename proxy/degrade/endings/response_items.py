"""The output items of OpenAI's responses while they are open: their parts, and the events that finish both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from proxy.degrade.endings.ending import Unreadable
from proxy.degrade.endings.members import small, text

TEXTS: Final = {
    "response.output_text": ("content", "output_text"),
    "response.refusal": ("content", "refusal"),
    "response.reasoning_text": ("content", "reasoning_text"),
    "response.reasoning_summary_text": ("summary", "summary_text"),
}
"""What the events that tell a text are called, and which part of an item they tell it of: its side, and its type."""

PARTS: Final = {
    "response.content_part": "content",
    "response.reasoning_part": "content",
    "response.reasoning_summary_part": "summary",
}
"""What the events that begin and end a part are called, and on which side of an item it stands."""

_TOLD_BY: Final = {kind: stem for stem, (_, kind) in TEXTS.items()}
_MARKED: Final = ("output_text", "refusal")
_LEFT_OUT: Final = frozenset({"status", "content", "summary", "encrypted_content"})
_FINISHED_ANYWHERE: Final = ("message", "reasoning")

Place = tuple[str, int]
"""Where a part stands: on which side of its item (`content` or `summary`), and which of them it is."""


class Part:
    """A part of an item, and what it has said. `stem`: what its own events are called; empty: it was never announced."""

    __slots__ = ("_said", "annotations", "done", "kind", "stem", "told")

    def __init__(self, kind: str, stem: str = "") -> None:
        """Begin. Raises Unreadable: it is of a kind that has no text."""
        if kind not in _TOLD_BY:
            raise Unreadable("a part whose end is not known")
        self.kind = kind
        self.stem = stem
        self.told = False
        self.done = False
        self.annotations: list[Any] = []
        self._said = bytearray()

    def say(self, words: str) -> int:
        """Go on, and return by how many bytes. Half a surrogate pair is kept as it is: the other half may follow."""
        said = words.encode(errors="surrogatepass")
        self._said += said
        return len(said)

    @property
    def words(self) -> str:
        """What it has said."""
        return self._said.decode(errors="surrogatepass")

    def rendered(self) -> dict[str, Any]:
        """Return the part as an item has it."""
        if self.kind == "refusal":
            return {"type": self.kind, "refusal": self.words}
        more = {"annotations": self.annotations, "logprobs": []} if self.kind == "output_text" else {}
        return {"type": self.kind, "text": self.words, **more}


class Item:
    """An item that is open. `kept`: how many bytes its parts take."""

    __slots__ = ("_head", "_parts", "kept", "kind")

    def __init__(self, added: dict[str, Any]) -> None:
        """Begin as it was announced."""
        self.kind = text(added, "type")
        self.kept = 0
        self._head = small({name: each for name, each in added.items() if name not in _LEFT_OUT})
        self._parts: dict[Place, Part] = {}

    @property
    def finishable(self) -> bool:
        """Whether it may end anywhere: it is no call of a tool."""
        return self.kind in _FINISHED_ANYWHERE

    def begin(self, at: Place, stem: str, part: dict[str, Any]) -> int:
        """Take a part that is announced, and return how many bytes of text it begins with."""
        begun = self._parts[at] = Part(text(part, "type"), stem)
        return begun.say(text(part, "text") or text(part, "refusal"))

    def part(self, at: Place, kind: str) -> Part:
        """Return a part that goes on, or one that has begun without an announcement."""
        part = self._parts.get(at)
        if part is None:
            part = self._parts[at] = Part(kind)
        return part

    def announced(self) -> dict[str, Any]:
        """Return the item as it is announced."""
        return {**self._head, "status": "in_progress", self._side: []}

    @property
    def _side(self) -> str:
        return "summary" if self.kind == "reasoning" else "content"

    def rendered(self) -> dict[str, Any]:
        """Return the item as it is when it is done before its end."""
        sides: dict[str, list[dict[str, Any]]] = {self._side: []}
        for (side, _), part in sorted(self._parts.items(), key=lambda each: each[0]):
            sides.setdefault(side, []).append(part.rendered())
        return {**self._head, "status": "incomplete", **sides}

    # -- how it ends -----------------------------------------------------------------------------------------------

    def mark(self, index: int, mark: str) -> Iterator[dict[str, Any]]:
        """Say the mark in the last text that is open, or in one of its own, and yield the events that tell it."""
        still = [
            at for at, part in self._parts.items() if part.kind in _MARKED and not part.told and not part.done
        ]
        if still:
            at = still[-1]
        else:
            at = "content", 1 + max((number for side, number in self._parts if side == "content"), default=-1)
            self._parts[at] = Part("output_text", "response.content_part")
            yield self._of_part(index, at, "response.content_part.added", part=self._parts[at].rendered())
        part = self._parts[at]
        part.say(mark)
        more: dict[str, Any] = {"logprobs": []} if part.kind == "output_text" else {}
        yield self._of_part(index, at, f"{_TOLD_BY[part.kind]}.delta", delta=mark, **more)

    def finish(self, index: int) -> Iterator[dict[str, Any]]:
        """Yield the events that finish its open parts, and then itself."""
        for at, part in self._parts.items():
            if part.done:
                continue
            rendered = part.rendered()
            if not part.told:
                words = {name: each for name, each in rendered.items() if name not in ("type", "annotations")}
                yield self._of_part(index, at, f"{_TOLD_BY[part.kind]}.done", **words)
            if part.stem:
                yield self._of_part(index, at, f"{part.stem}.done", part=rendered)
        yield {"type": "response.output_item.done", "output_index": index, "item": self.rendered()}

    def _of_part(self, index: int, at: Place, kind: str, **more: Any) -> dict[str, Any]:
        side, number = at
        whose = {"item_id": self._head.get("id"), "output_index": index, f"{side}_index": number}
        return {"type": kind, **whose, **more}
