"""Settings of a scenario as options of the command line: each is a field of a dataclass, a whole number with its meaning."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

_Setting = TypeVar("_Setting")


def number(default: int, meaning: str) -> int:
    """Return the field of one setting."""
    return field(default=default, metadata={"help": meaning})


def add_options(parser: argparse.ArgumentParser, kind: type[Any], short: Mapping[str, int]) -> None:
    """Add an option for each setting. `short`: what some of them are with --short."""
    for each in fields(kind):
        assert each.default is not MISSING
        default = f"{each.default}, short {short[each.name]}" if each.name in short else f"{each.default}"
        parser.add_argument(
            f"--{each.name.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"{each.metadata['help']} ({default})",
        )


def settings_of(arguments: argparse.Namespace, kind: type[_Setting], short: Mapping[str, int]) -> _Setting:
    """Return the settings that the arguments choose."""
    given = {each.name: getattr(arguments, each.name) for each in fields(kind)}  # type: ignore[arg-type]
    asked = {name: value for name, value in given.items() if value is not None}
    return kind(**{**(short if arguments.short else {}), **asked})
