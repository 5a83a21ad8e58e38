"""The targets, by name, in the order in which the table shows them."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from trials.fuzz.target import Target

NAMES: Final = (
    "requests",
    "responses",
    "relay",
    "headers",
    "eventstream",
    "endings",
    "kinds",
    "json",
    "change",
    "sniff",
    "config",
    "admission",
    "policies",
    "steplog",
    "entries",
    "redis",
    "control",
    "answers",
)


def load(name: str) -> Target:
    """Return the target with this name. It is loaded only now: each needs another part of the program."""
    return cast(Target, import_module(f"trials.fuzz.targets.{name}").TARGET)
