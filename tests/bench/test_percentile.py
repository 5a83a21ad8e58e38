"""The percentile of all tables."""

from __future__ import annotations

from bench.percentile import percentile


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """The smallest that so many do not exceed."""
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([7.0], 0.5) == 7.0
