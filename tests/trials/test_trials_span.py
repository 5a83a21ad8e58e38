"""How long a trial runs, as a command line says it."""

from __future__ import annotations

import click
import pytest

from trials.span import span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("90s", 90), ("20m", 1200), ("1h", 3600), ("1.5h", 5400), ("24h", 86_400)],
)
def test_spans_are_read(text: str, seconds: int) -> None:
    """In seconds, as the policy writes them."""
    assert span(15).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "90", "14s", "25h", "-5m", "1d", "0s", "soon"])
def test_other_spans_are_told_what_is_allowed(text: str) -> None:
    """With the remedy."""
    with pytest.raises(click.BadParameter, match=r"write|the units are"):
        span(15).convert(text, None, None)


def test_a_default_is_taken_as_it_is() -> None:
    """It is in seconds already."""
    assert span().convert(3600, None, None) == 3600
