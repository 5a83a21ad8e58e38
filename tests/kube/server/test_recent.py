"""A pod that was injected a moment ago is known again, once, and not for long."""

from __future__ import annotations

from proxy.kube.recent import MOST, SPAN, Recent

ONE, OTHER = ("agents", "a-", "1"), ("agents", "b-", "2")


def test_as_often_as_it_was_injected() -> None:
    """Replicas of one controller look the same."""
    recent = Recent()
    recent.note(ONE, 0)
    recent.note(ONE, 1)
    assert [recent.take(key, 2) for key in (OTHER, ONE, ONE, ONE)] == [False, True, True, False]


def test_not_for_long() -> None:
    recent = Recent()
    recent.note(ONE, 0)
    recent.note(ONE, SPAN)
    assert recent.take(ONE, SPAN + 1)
    assert not recent.take(ONE, SPAN + 1)


def test_within_bounds() -> None:
    """Those that nobody asks about are forgotten: however many kinds of them are made, and however many of one kind."""
    recent = Recent()
    for second in range(1000):
        recent.note(ONE, second * SPAN)
    assert [recent.take(ONE, 999 * SPAN) for _ in range(3)] == [True, True, False]
    for number in range(MOST + 1):
        recent.note(("agents", str(number), ""), 0)
    assert not recent.take(("agents", "0", ""), 0)
    assert recent.take(("agents", str(MOST), ""), 0)
