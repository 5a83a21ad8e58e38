"""What a value may look like from outside: as much of a reader's rule as a schema can state.

Each scalar reader carries its shape, made of the same patterns and bounds that it reads by. A shape may allow more than
its reader takes, and never less: `kube.policies.schema` makes a JSON schema of the tables and their shapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """How a value is written. `NUMBER`, `FRACTION` and `TRUTH` stand without quotes; `JSON` is any value that JSON has."""

    TEXT = "text"
    SPAN = "span"
    SIZE = "size"
    NUMBER = "number"
    FRACTION = "fraction"
    TRUTH = "truth"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Shape:
    r"""The form of a value, and its bounds.

    `pattern`: what the whole of a text matches, with `\Z` at its end. Go, JavaScript and Python must read it alike: no
    lookaround, no count over 1000. `longest`: the most characters of a text. `words`: all the texts there are; beside a
    number or a span, those that may stand in its place. `low` and `high`: the least and the most of a number, of a span in
    nanoseconds, of a size in bytes. `never`: what is refused all the same.
    """

    form: Form = Form.TEXT
    pattern: re.Pattern[str] | None = None
    longest: int | None = None
    words: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    never: tuple[str | int, ...] = ()


ANY_TEXT = Shape()
