"""How commands speak: JSON for programs, text for people, and a complaint on standard error."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

if TYPE_CHECKING:
    from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def fail(message: str) -> NoReturn:
    """Say what is wrong, and end with status 1."""
    click.echo(f"waterclock: {harmless(message)}", err=True)
    sys.exit(1)


def print_json(value: Any) -> None:
    """Print a document."""
    click.echo(json.dumps(value, indent=2))


def show_signs() -> None:
    """Show the number of a sign that the terminal does not know, rather than end with an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def console() -> Console:
    """Return what tables and bars are printed with. Into a pipe it writes 80 columns without colours."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def harmless(value: Any) -> str:
    """Return a value so that it can be shown: what another side has said may not speak to the terminal."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else f"\\x{ord(each):02x}" for each in str(value)
    )


def one_line(value: Any) -> str:
    """Return a value so that it can be shown within a line."""
    return harmless(value).replace("\n", "\\n").replace("\t", "\\t")


def tame(document: Any, shown: Callable[[Any], str] = one_line) -> Any:
    """Return a document whose texts can all be shown: names too, whatever it is made of."""
    match document:
        case str():
            return shown(document)
        case dict():
            return {tame(name, shown): tame(value, shown) for name, value in document.items()}
        case list():
            return [tame(item, shown) for item in document]
        case _:
            return document


def seconds(milliseconds: float) -> str:
    """Return a span in seconds, to the millisecond."""
    return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".")


def ago(milliseconds: float) -> str:
    """Return an age in one unit, as people say it."""
    whole = int(milliseconds / 1000)
    for name, size in _UNITS:
        if whole >= 2 * size:
            return f"{whole // size} {name}"
    return f"{whole} s"


def many(count: int, one: str, more: str) -> str:
    """Return a count with its noun."""
    return f"{count} {one if count == 1 else more}"
