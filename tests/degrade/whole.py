"""Reads a whole stream as strictly as its dialect allows, and fails where it is not one. Knows nothing of the code under test."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.degrade.transcript import Transcript


@dataclass
class Whole:
    """What a client has once the stream has ended. By choice, candidate or (where there is one answer) under 0."""

    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str | None] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    heads: set[str] = field(default_factory=set)
    last: dict[str, Any] = field(default_factory=dict)

    def say(self, index: int, words: str) -> None:
        """One of the answers goes on."""
        assert self.reasons.get(index) is None, "it has ended"
        self.texts[index] = self.texts.get(index, "") + words
        self.reasons.setdefault(index, None)


def events(wire: bytes) -> list[tuple[str, str]]:
    """All events with data, as the HTML standard reads them. There is nothing behind the last."""
    *lines, rest = re.split("\r\n|\n|\r", wire.decode())
    assert rest == "", "the stream ends inside a line"
    found, name, said = [], "", list[str]()
    for text in lines:
        if text:
            key, _, value = text.partition(":")
            if key == "data":
                said.append(value.removeprefix(" "))
            elif key == "event":
                name = value.removeprefix(" ")
        else:
            if said:
                found.append((name, "\n".join(said)))
            name, said = "", []
    assert not said, "the stream ends inside an event"
    return found


def read(transcript: Transcript, wire: bytes) -> Whole:
    """Read a stream of the transcript's dialect to its end."""
    match transcript.dialect:
        case "openai-chat":
            return _chat(events(wire))
        case "openai-responses":
            return _responses(events(wire))
        case "anthropic-messages":
            return _messages(events(wire))
        case "gemini":
            return _gemini(events(wire))
        case "ollama":
            return _ollama(wire)
        case "events":
            return Whole(texts={0: "".join(said for _, said in events(wire))})
        case _:
            return Whole(texts={0: wire.decode()})


def _chat(found: list[tuple[str, str]]) -> Whole:
    whole = Whole()
    *chunks, last = found
    assert last == ("", "[DONE]")
    for name, said in chunks:
        chunk = json.loads(said)
        assert name == ""
        assert whole.usage is None or chunk["choices"], "the usage is the last chunk"
        if chunk["id"]:
            whole.heads.add(
                json.dumps(
                    [chunk.get(each) for each in ("id", "object", "created", "model", "system_fingerprint")]
                )
            )
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {"content": choice.get("text")}
            whole.say(choice["index"], delta.get("content") or delta.get("refusal") or "")
            whole.reasons[choice["index"]] = choice["finish_reason"]
        if not chunk["choices"] and chunk.get("usage"):
            whole.usage = chunk["usage"]
    assert None not in whole.reasons.values()
    return whole


def _messages(found: list[tuple[str, str]]) -> Whole:
    whole = Whole(texts={0: ""})
    began, kinds, state = 0, dict[int, str](), "new"
    for name, said in found:
        event = json.loads(said)
        assert name == event["type"]
        match name:
            case "message_start":
                assert state == "new"
                state = "started"
                whole.usage = event["message"]["usage"]
            case "content_block_start":
                assert (state, event["index"]) == ("started", began), "blocks are numbered as they start"
                kinds[began] = event["content_block"]["type"]
                began += 1
            case "content_block_delta":
                assert event["index"] in kinds, "only an open block grows"
                if event["delta"]["type"] == "text_delta":
                    assert kinds[event["index"]] == "text"
                    whole.say(0, event["delta"]["text"])
            case "content_block_stop":
                del kinds[event["index"]]
            case "message_delta":
                assert not kinds, "all blocks are stopped"
                assert state == "started"
                state = "reason"
                whole.reasons[0] = event["delta"]["stop_reason"]
                whole.usage = {**(whole.usage or {}), **event["usage"]}
            case "message_stop":
                assert state == "reason"
                state = "stopped"
            case _:
                assert name == "ping"
    assert state == "stopped"
    return whole


class _Responses:
    """Follows the items and parts of a response."""

    def __init__(self) -> None:
        self.whole = Whole(texts={0: ""})
        self.items: dict[int, Any] = {}
        self.done: dict[int, Any] = {}
        self.parts: dict[tuple[int, str, int], str] = {}
        self.told: set[tuple[int, str, int]] = set()

    def of_item(self, what: str, index: int, item: dict[str, Any]) -> None:
        """An item begins, or is done."""
        if what == "added":
            assert index == len(self.items), "items are numbered as they begin"
            self.items[index] = item
            return
        begun = self.items[index]
        assert (begun["id"], begun["type"]) == (item["id"], item["type"])
        assert not [each for each in self.parts if each[0] == index], "all parts are done"
        assert item.get("status") != "in_progress"
        self.done[index] = item

    def of_part(self, stem: str, what: str, event: dict[str, Any]) -> None:
        """A part begins, goes on, or is done."""
        side = "summary" if "summary" in stem else "content"
        at = (event["output_index"], side, event.get(f"{side}_index", -1))
        assert at[0] in self.items
        assert at[0] not in self.done
        if what == "added":
            assert event["item_id"] == self.items[at[0]]["id"]
            self.parts[at] = ""
        elif stem.endswith("_part"):
            assert at in self.told
            assert self.parts.pop(at) == event["part"].get("text", event["part"].get("refusal"))
        elif at not in self.parts:
            assert "arguments" in stem
        elif what == "delta":
            assert at not in self.told
            self.parts[at] += event["delta"]
            if side == "content":
                self.whole.say(0, event["delta"])
        else:
            assert self.parts[at] == event.get("text", event.get("refusal"))
            self.told.add(at)

    def end(self, last: dict[str, Any], name: str) -> None:
        """The response ends."""
        assert sorted(self.done) == list(range(len(self.items))), "all items are done"
        assert last["output"] == [self.done[index] for index in sorted(self.done)]
        assert f"response.{last['status']}" == name
        self.whole.last = last
        self.whole.reasons[0] = (last["incomplete_details"] or {"reason": "completed"})["reason"]
        self.whole.usage = last["usage"]


def _responses(found: list[tuple[str, str]]) -> Whole:
    following = _Responses()
    for number, (name, said) in enumerate(found):
        event = json.loads(said)
        assert not following.whole.last, "nothing follows the end"
        assert (event["type"], event["sequence_number"]) == (name, number)
        stem, _, what = name.rpartition(".")
        if stem == "response.output_item":
            following.of_item(what, event["output_index"], event["item"])
        elif "output_index" in event:
            following.of_part(stem, what, event)
        elif name in ("response.completed", "response.incomplete"):
            following.end(event["response"], name)
        if "response" in event:
            head = [event["response"][each] for each in ("id", "object", "created_at", "model")]
            following.whole.heads.add(json.dumps(head))
    assert following.whole.last
    return following.whole


def _gemini(found: list[tuple[str, str]]) -> Whole:
    whole = Whole()
    for name, said in found:
        event = json.loads(said)
        assert name == ""
        for candidate in event["candidates"]:
            index = candidate.get("index", 0)
            parts = candidate["content"]["parts"]
            whole.say(index, "".join(part.get("text", "") for part in parts if not part.get("thought")))
            whole.reasons[index] = candidate.get("finishReason")
        whole.usage = event.get("usageMetadata", whole.usage)
        whole.heads.add(json.dumps([event["modelVersion"], event["responseId"]]))
    assert None not in whole.reasons.values()
    return whole


def _ollama(wire: bytes) -> Whole:
    whole = Whole(texts={0: ""})
    *lines, rest = wire.decode().split("\n")
    assert rest == ""
    for number, text in enumerate(lines):
        value = json.loads(text)
        assert value["done"] is (number == len(lines) - 1), (
            "the last line, and no other, says that it is done"
        )
        whole.say(0, value["message"]["content"] if "message" in value else value["response"])
        whole.reasons[0] = value.get("done_reason")
        whole.heads.add(value["model"])
        assert value["created_at"]
        whole.usage = {name: each for name, each in value.items() if name.endswith(("_count", "_duration"))}
    return whole
