"""The type of options whose values are written as elsewhere: in the policy, or in an annotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from proxy.config.faults import Refusal


class Said(click.ParamType[Any]):
    """A value that is written as it is there."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        """Name it for the help; `read` makes the value of its text, or raises Refusal."""
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read one. Fails with the problem and the remedy."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except Refusal as refusal:
            self.fail(f"{refusal.problem}; {refusal.remedy}", param, ctx)
