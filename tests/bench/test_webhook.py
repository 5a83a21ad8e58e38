"""What is promised of reviews is judged by what was measured, and what was not measured is missed."""

from __future__ import annotations

import pytest

from bench.report import MIB, as_markdown
from bench.webhook.command import Found, Row, floors, table


def found(*, rate: int = 200, ms: float = 4.0, failed: int = 0, mib: int = 80) -> Found:
    row = Row(rate, [1.0] * 98 + [ms] * 2, failed, 0.2, 0.7, mib * MIB)
    return Found(570.0, 80 * MIB, [row])


def test_all_is_met() -> None:
    assert [floor.met for floor in floors(found())] == [True, True, True]
    text = as_markdown(table(found()))
    assert "| 200/s | 100 | 1.00 | 4.00 | 4.00 | 0 | 20% | 0.70 | 80.0 |" in text
    assert "Ready 570 ms after exec; 80.0 MiB before the load." in text


@pytest.mark.parametrize(
    ("measured", "missed"),
    [
        (found(ms=50.1), 0),
        (found(rate=100), 0),
        (found(failed=1), 1),
        (found(mib=120), 2),
    ],
)
def test_each_can_be_missed(measured: Found, missed: int) -> None:
    assert [floor.met for floor in floors(measured)] == [number != missed for number in range(3)]
