"""What libraries say through `logging` comes out as lines of the one log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest

from proxy.observe.handler import EventHandler
from proxy.observe.lines import event_line
from proxy.observe.steplog import StepLog


class Memory:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, name: str, /, **fields: Any) -> None:
        self.events.append(json.loads(event_line(name, "now", fields)))


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def logger(memory: Memory) -> Iterator[logging.Logger]:
    logger = logging.getLogger("some.library")
    handler = EventHandler(cast(StepLog, memory))
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


def test_warning_becomes_an_event(logger: logging.Logger, memory: Memory) -> None:
    """Level, origin and message, each in a field of its own."""
    logger.warning("%d tasks were\nlost", 3)
    expected = {"time": "now", "event": "log", "level": "warning", "logger": "some.library"}
    assert memory.events == [expected | {"message": "3 tasks were\nlost"}]


def test_chatter_is_left_out(logger: logging.Logger, memory: Memory) -> None:
    """Below the level nothing is written."""
    logger.info("hello")
    assert memory.events == []


def test_traceback_is_kept(logger: logging.Logger, memory: Memory) -> None:
    """On one line, like everything else."""
    try:
        raise KeyError("x")
    except KeyError:
        logger.exception("went wrong")
    (event,) = memory.events
    assert event["exception"].startswith("Traceback")
    assert event["exception"].endswith("KeyError: 'x'")


def test_message_that_cannot_be_made_is_no_fault(
    logger: logging.Logger, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library's bad format string does not reach the caller of `logging`."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logger.warning("%d", "no number")
    assert memory.events == []
