"""Feeding an ending with events and lines, and reading what it adds."""

from __future__ import annotations

import json
from typing import Any

from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.recognise import ending_for
from tests.degrade.transcript import EVENTS, LINES, MARK, data
from tests.degrade.whole import events


def followed(*values: Any, path: str = "/", named: bool = False) -> Ending:
    """An ending behind these events."""
    ending = ending_for(EVENTS.encode(), path)
    assert ending is not None
    for value in values:
        ending.feed(data(value, value["type"] if named else ""))
    return ending


def followed_lines(*values: Any) -> Ending:
    """An ending behind these lines."""
    ending = ending_for(LINES.encode(), "/")
    assert ending is not None
    for value in values:
        ending.feed(json.dumps(value).encode() + b"\n")
    return ending


def added(ending: Ending, mark: str = MARK) -> list[Any]:
    """The values of the events that close it."""
    last = ending.close(mark)
    assert last is not None
    return [json.loads(said) if said != "[DONE]" else said for _, said in events(last)]
