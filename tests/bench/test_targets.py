"""What must be reached: which side of a border is good, and that nothing measured is no success."""

from __future__ import annotations

import pytest

from bench.report import as_text, must_reach, told
from bench.targets import Target, judge

FASTER = Target("requests/s against Envoy", least=1.5, aim=2, better="more", unit="×")
SMALLER = Target("memory", least=45, aim=40, better="less", unit="MiB")


@pytest.mark.parametrize(
    ("target", "measured", "reached"),
    [
        (FASTER, 1.49, "missed"),
        (FASTER, 1.5, "met"),
        (FASTER, 1.99, "met"),
        (FASTER, 2, "beyond aim"),
        (SMALLER, 45.1, "missed"),
        (SMALLER, 45, "met"),
        (SMALLER, 40, "beyond aim"),
        (SMALLER, 0, "beyond aim"),
        (SMALLER, None, "not measured"),
    ],
)
def test_a_figure_is_judged_by_both_borders(target: Target, measured: float | None, reached: str) -> None:
    """Both belong to what they bound."""
    assert judge(target, measured).reached == reached


def test_what_was_not_measured_is_not_met() -> None:
    """A claim needs its figure."""
    assert not judge(SMALLER, None).met
    assert judge(SMALLER, 45).met
    assert not judge(SMALLER, 46).met


@pytest.mark.parametrize(("least", "aim", "better"), [(2, 1.5, "more"), (40, 45, "less")])
def test_an_aim_below_the_least_is_refused(least: float, aim: float, better: str) -> None:
    """It would call a miss an aim that was reached."""
    with pytest.raises(ValueError, match="asks for less"):
        Target("memory", least, aim, better)  # type: ignore[arg-type]


def test_the_table_shouts_where_something_is_missed() -> None:
    """And gives both borders beside each figure."""
    text = as_text(
        must_reach("Must", [judge(FASTER, 0.72), judge(SMALLER, 36.5, "of 9 starts"), judge(SMALLER, None)])
    )
    rows = [" ".join(line.split()) for line in text.splitlines()[2:]]
    assert rows == [
        "MISSED requests/s against Envoy 1.5 × 2 × 0.72 ×",
        "beyond aim memory 45 MiB 40 MiB 36.5 MiB of 9 starts",
        "NOT MEASURED memory 45 MiB 40 MiB –",
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "", "0"),
        (0.651, "×", "0.65 ×"),
        (1.0, "×", "1 ×"),
        (44.96, "MiB", "45 MiB"),
        (2840.4, "ms", "2,840 ms"),
        (100, "", "100"),
    ],
)
def test_figures_have_three_digits_or_so(value: float, unit: str, text: str) -> None:
    """More would claim more than was measured."""
    assert told(value, unit) == text
