"""What a target is, and how it says that a promise does not hold."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple, TypeAlias

Seen: TypeAlias = Set[str]
"""What one input has shown: short words, of which a target has some hundreds at the most."""


class Target(NamedTuple):
    """Something that reads what comes from outside."""

    name: str
    about: str
    """What is held, in one line for `--list`."""
    check: Callable[[bytes], Seen]
    """Read one input. Raises Violated, or whatever the code under test lets escape: both are failures."""
    tokens: tuple[bytes, ...] = ()
    """What its inputs are made of, for the mutator."""
    largest: int = 4096
    """The longest input that is made (bytes)."""


class Violated(AssertionError):
    """A promise does not hold. `promise` is a short token that is the same for all inputs which break the same one."""

    def __init__(self, promise: str, detail: str = "") -> None:
        super().__init__(f"{promise}: {detail}" if detail else promise)
        self.promise = promise


def gist(said: str, most: int = 48) -> str:
    """Give the kind of a sentence: its words, up to what it quotes, without numbers. It tells behaviours apart, not inputs."""
    words = said.split('"', maxsplit=1)[0].split("'", maxsplit=1)[0].split()
    return " ".join(word for word in words if word.isalpha() and word.isascii())[:most]


def hold(holds: object, promise: str, *detail: object) -> None:
    """Raise Violated unless it holds. What explains it is rendered only then."""
    if not holds:
        raise Violated(promise, ", ".join(repr(each)[:2000] for each in detail))
