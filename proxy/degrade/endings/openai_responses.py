"""OpenAI's responses: a response of output items, a message of content parts, each with an event when it begins and one
when it is done.

The last events repeat what has been said: a part's text, an item's parts, a response's items. So this is the one dialect
of which the text is kept, up to a bound; beyond it there is no truthful end.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, ClassVar, Final

from proxy.degrade.endings.ending import Unreadable
from proxy.degrade.endings.members import SHORT, members, place, small, text
from proxy.degrade.endings.reading import value_of
from proxy.degrade.endings.response_items import PARTS, TEXTS, Item
from proxy.degrade.endings.writing import event, written

KEPT: Final = 128 * 1024
"""How much is kept of what a stream has said (bytes)."""

_ANNOUNCED: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDED: Final = {
    "response.completed": False,
    "response.incomplete": False,
    "response.failed": True,
    "response.cancelled": True,
}
_SAID_ANEW: Final = frozenset(
    {"status", "incomplete_details", "error", "output", "output_text", "usage", "completed_at"}
)
_ID_LENGTH: Final = 64


class OpenAIResponses:
    """The response as it was announced, and its items: those that are open, and those that are done as JSON."""

    __slots__ = ("_done", "_head", "_kept", "_open", "_sequence", "_usage", "failed", "over")

    name: ClassVar[str] = "openai-responses"

    def __init__(self) -> None:
        self.over = False
        self.failed = False
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self._sequence: int | None = None
        self._open: dict[int, Item] = {}
        self._done: dict[int, str] = {}
        self._kept = 0

    @classmethod
    def speaks(cls, value: dict[str, Any], path: str) -> bool:
        """Say whether this is the announcement of a response."""
        kind = value.get("type")
        return type(kind) is str and kind in _ANNOUNCED and type(value.get("response")) is dict

    # -- what passes -----------------------------------------------------------------------------------------------

    def take(self, value: dict[str, Any]) -> None:
        """Take an event. One of a type that is not known here changes nothing that is, but for the numbering."""
        kind = text(value, "type")
        number = value.get("sequence_number")
        if type(number) is int:
            self._sequence = number
        stem, _, what = kind.rpartition(".")
        if stem in TEXTS:
            self._say(stem, what, value)
        elif stem in PARTS:
            self._change(stem, what, value)
        elif stem == "response.output_item":
            self._begin_or_end(what, value)
        elif kind == "response.output_text.annotation.added":
            self._annotate(value)
        elif kind in _ANNOUNCED:
            self._announce(members(value, "response"))
        elif kind in _ENDED:
            self.over = True
            self.failed = _ENDED[kind]

    def _announce(self, response: dict[str, Any]) -> None:
        if not 0 < len(text(response, "id")) <= SHORT or response.get("output"):
            raise Unreadable("a response without an id, or one that was begun elsewhere")
        self._head = small({name: each for name, each in response.items() if name not in _SAID_ANEW})
        self._usage = small(members(response, "usage")) or None

    def _say(self, stem: str, what: str, value: dict[str, Any]) -> None:
        side, kind = TEXTS[stem]
        item = self._item(value)
        part = item.part((side, place(value, f"{side}_index")), kind)
        if what == "done":
            part.told = True
        elif what == "delta":
            self._spend(item, part.say(text(value, "delta")))

    def _change(self, stem: str, what: str, value: dict[str, Any]) -> None:
        side = PARTS[stem]
        item = self._item(value)
        at = side, place(value, f"{side}_index")
        part = members(value, "part")
        if what == "added":
            self._spend(item, SHORT + item.begin(at, stem, part))
        elif what == "done":
            item.part(at, text(part, "type")).done = True

    def _annotate(self, value: dict[str, Any]) -> None:
        item = self._item(value)
        annotation = small(members(value, "annotation"))
        item.part(("content", place(value, "content_index")), "output_text").annotations.append(annotation)
        self._spend(item, SHORT)

    def _begin_or_end(self, what: str, value: dict[str, Any]) -> None:
        index = place(value, "output_index")
        if what == "added":
            if index in self._open or index in self._done:
                raise Unreadable("an item that has begun begins again")
            item = self._open[index] = Item(members(value, "item"))
            self._spend(item, SHORT)
        elif what == "done":
            whole = self._done[index] = written(members(value, "item"))
            before = self._open.pop(index, None)
            self._kept += len(whole) - (before.kept if before is not None else 0)
            self._hold()

    def _item(self, value: dict[str, Any]) -> Item:
        item = self._open.get(place(value, "output_index"))
        if item is None:
            raise Unreadable("an item goes on that is not open")
        return item

    def _spend(self, item: Item, size: int) -> None:
        item.kept += size
        self._kept += size
        self._hold()

    def _hold(self) -> None:
        if self._kept > KEPT:
            raise Unreadable("more has been said than is kept")

    # -- how it ends -----------------------------------------------------------------------------------------------

    def close(self, mark: str) -> bytes | None:
        """Finish the open items, the last message with the mark, and the response for its limit of tokens."""
        if not self._head:
            raise Unreadable("a response that was not announced")
        if not all(item.finishable for item in self._open.values()):
            return None
        last = b""
        for number, value in enumerate(self._events(deepcopy(self._open), mark), 1):
            if self._sequence is not None:
                value["sequence_number"] = self._sequence + number
            last += event(value, value["type"])
        return last

    def _events(self, items: dict[int, Item], mark: str) -> Iterator[dict[str, Any]]:
        messages = [index for index, item in items.items() if item.kind == "message"]
        for index, item in items.items():
            if index in messages[-1:]:
                yield from item.mark(index, mark)
            yield from item.finish(index)
        if not messages:
            index = 1 + max([*items, *self._done], default=-1)
            item = items[index] = Item({"id": self._new_id(), "type": "message", "role": "assistant"})
            yield {"type": "response.output_item.added", "output_index": index, "item": item.announced()}
            yield from item.mark(index, mark)
            yield from item.finish(index)
        output = {index: value_of(whole.encode()) for index, whole in self._done.items()}
        output |= {index: item.rendered() for index, item in items.items()}
        said = {
            "status": "incomplete",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [output[index] for index in sorted(output)],
            "usage": self._usage,
        }
        yield {"type": "response.incomplete", "response": {**self._head, **said}}

    def _new_id(self) -> str:
        """Return an id for a message of our own, which nobody else's can be."""
        return f"msg_truncated_{text(self._head, 'id').removeprefix('resp_')}"[:_ID_LENGTH]
