"""What is wrong with a file, said so that it can be put right: where, which key, what, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `line` and `column` count from 1; None where no line is to blame (a missing file).

    `key` is the dotted path (`routes[1].cap`), empty for a fault of the file as a whole.
    """

    source: str
    line: int | None
    key: str
    problem: str
    remedy: str
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.source, self.line, self.column) if part is not None)
        what = f"{self.key}: {self.problem}" if self.key else self.problem
        return f"{place}: {what}; {self.remedy}"


class ConfigError(Exception):
    """A policy that cannot be used. `faults` holds every one that was found, in the order of their lines."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        """Keep the faults; the message has one line for each."""
        self.faults = sorted(faults, key=lambda fault: (fault.line or 0, fault.column or 0))
        super().__init__("\n".join(map(str, self.faults)))


class Refusal(Exception):
    """One value that cannot be taken, said by a reader that does not know where in the file it stands."""

    def __init__(self, problem: str, remedy: str) -> None:
        """Keep the two halves of the sentence."""
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy


def visible(text: str, most: int = 60) -> str:
    """Return text that a terminal shows as it is: shortened, with everything that does not print escaped."""
    shown = text if len(text) <= most else text[:most] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown)


def quoted(text: str, most: int = 60) -> str:
    """Return a value as faults show it."""
    return f'"{visible(without_user(text), most)}"'


def without_user(text: str) -> str:
    """Return a value without what may be the name and password of a URL: faults are logged, and those are not for everybody."""
    begin, end = text.find("://"), text.rfind("@")
    if end < 0:
        return text
    scheme = f"{text[:begin]}://" if 0 <= begin < end else ""  # however badly it is written
    return f"{scheme}(hidden){text[end:]}"


def listed(words: Sequence[str], conjunction: str = "or") -> str:
    """Return words as a sentence names them: `a, b or c`."""
    *rest, last = words
    return f"{', '.join(rest)} {conjunction} {last}" if rest else last
