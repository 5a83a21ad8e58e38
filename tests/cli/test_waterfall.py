"""The waterfall of a job, drawn: golden pictures, and what holds for any of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admin.budget_views import Moment, record_view, timeline_view
from proxy.cli.waterfall import ASCII, UNICODE, Marks, bars_of, waterfall
from proxy.core.budget import Budget
from proxy.core.degrading import Why
from proxy.core.ledger import Ledger
from proxy.core.units import MILLISECOND, SECOND
from tests.admin.jobs import CUT, REFUSED, begun, ended, less, on_a_ladder, opened, tangled, worked_example
from tests.admin.writes import NOW, NOW_MS

MOMENT = Moment(NOW, NOW_MS)


def documents(budget: Budget) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the API says of a job."""
    return record_view(budget, (), MOMENT), timeline_view(budget, MOMENT)


def drawn(budget: Budget, width: int = 80, marks: Marks = UNICODE, *, fit: bool = False) -> str:
    lines = waterfall(*documents(budget), width=width, marks=marks, fit=fit)
    return "".join(f"{line.plain}\n" for line in lines)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_the_worked_example(ledger: Ledger) -> None:
    """C is given what is left, and cut when that is over; the reserve is not touched."""
    assert drawn(worked_example(ledger)) == (
        "step call            took 0                              9 10\n"
        "   1 GET /v1/find       4 ██████████████                  ···│ completed\n"
        "   2 GET /v1/find       4               ██████████████    ···│ completed\n"
        "   3 GET /v1/find       1                             ███×···│ deadline_exceeded\n"
        "All in seconds.  █ under way  × cut, failed or not started\n"
        "· reserve for cleanup  │ end of the budget\n"
    )


def test_a_job_that_runs(ledger: Ledger) -> None:
    """Waiting, running, cut, refused, and what is under way up to the line of the present."""
    assert drawn(tangled(ledger)) == (
        "step call               took 0                         9 10\n"
        "   1 GET /v1/find        1.5 ████               ┊       ···│ completed\n"
        "   2 GET /v1/find        2.3 ░░░░███            ┊       ···│ completed\n"
        "   3 POST /v1/orders       2        █████×      ┊       ···│ deadline_exceeded ?\n"
        "   4 GET /v1/find          0               ×    ┊       ···│ refused\n"
        "   5 -                   1.6               █████┊       ···│ under way\n"
        "   6 -                   1.2                ░░░░┊       ···│ waiting\n"
        "All in seconds.  █ under way  ░ waiting for its turn\n"
        "× cut, failed or not started  ? effect uncertain  · reserve for cleanup\n"
        "┊ now (6.2)  │ end of the budget\n"
    )


def test_in_ascii(ledger: Ledger) -> None:
    """Where the terminal knows no other signs, none is used."""
    text = drawn(tangled(ledger), 72, ASCII)
    assert text == (
        "step call               took 0                   10\n"
        "   1 GET /v1/find        1.5 ###           !     --| completed\n"
        "   2 GET /v1/find        2.3 ...##         !     --| completed\n"
        "   3 POST /v1/orders       2      ####x    !     --| deadline_exceeded ?\n"
        "   4 GET /v1/find          0           x   !     --| refused\n"
        "   5 -                   1.6           ####!     --| under way\n"
        "   6 -                   1.2            ...!     --| waiting\n"
        "All in seconds.  # under way  . waiting for its turn\n"
        "x cut, failed or not started  ? effect uncertain  - reserve for cleanup\n"
        "! now (6.2)  | end of the budget\n"
    )


def test_answers_that_are_less(ledger: Ledger) -> None:
    """Each has a mark that needs no colour, the rung and the reason as far as there is room."""
    budget = on_a_ladder(ledger)
    assert drawn(budget) == (
        "step call            took 0                    9 10\n"
        "   1 GET /v1/find       4 ██████████            ···│ completed\n"
        "   2 GET /v1/find       3           ████████    ···│ completed ↓ minimal (time)\n"
        "   3 GET /v1/find    0.01                   █   ···│ completed ↓ cached (failed)\n"
        "   4 GET /v1/find     1.8                   ███×···│ deadline_exceeded ↓ fast\n"
        "All in seconds.  █ under way  × cut, failed or not started\n"
        "↓ answered with less than asked  · reserve for cleanup  │ end of the budget\n"
    )
    assert "deadline_exceeded ↓ fast (truncated)\n" in drawn(budget, 110)
    narrow = drawn(budget, 60, ASCII)
    assert [line.rpartition("| ")[2] for line in narrow.splitlines()[1:5]] == [
        "completed",
        "completed v",
        "completed v",
        "deadline_exceeded v",
    ]
    assert "v answered with less than asked" in narrow


def test_what_was_answered_here_is_seen(ledger: Ledger) -> None:
    """Nothing was sent for it, and it was answered all the same."""
    budget = opened(ledger, "run", 5_000)
    here = {"phase": "not_sent", "tries": 0, "fresh": 0}
    ended(ledger, budget, 1, 0, 0.4, **less(3, "cached", Why.TIME), **here)
    assert drawn(budget).splitlines()[1].split()[4] == "█"


def test_what_goes_beyond_the_end(ledger: Ledger) -> None:
    """A job that was not held to its budget (mode: observe) runs through the line of its end."""
    budget = opened(ledger, "run", 20_000)
    ended(ledger, budget, 1, 0, 9_000)
    ended(ledger, budget, 2, 9_000, 4_000, would="cut")
    ledger.close(budget, budget.opened + 13 * SECOND, "request")
    assert drawn(budget) == (
        "step call            took 0                            9 10         13\n"
        "   1 GET /v1/find       9 ██████████████████████████████···│           completed\n"
        "   2 GET /v1/find       4                               ███│██████████ completed\n"
        "All in seconds.  █ under way  · reserve for cleanup  │ end of the budget\n"
    )


def test_fit(ledger: Ledger) -> None:
    """A short job in a long budget is drawn as long as it was: the budget's end is out of the picture."""
    budget = opened(ledger, "run", 2_000, total_ms=300_000)
    ended(ledger, budget, 1, 0, 200)
    ended(ledger, budget, 2, 200, 300, reason="route_cap", **CUT)
    ledger.close(budget, budget.opened + 500 * MILLISECOND, "request")
    assert drawn(budget, 66, fit=True) == (
        "step call            took 0                 0.5\n"
        "   1 GET /v1/find     0.2 ████████               completed\n"
        "   2 GET /v1/find     0.3         ████████████×  deadline_exceeded\n"
        "All in seconds.  █ under way  × cut, failed or not started\n"
    )
    assert "300" in drawn(budget).splitlines()[0]


def test_shortened(ledger: Ledger) -> None:
    """The end is where it is now, and the reserve before it."""
    budget = opened(ledger, "run", 1_000)
    ended(ledger, budget, 1, 0, 500)
    budget.restate(NOW, 3 * SECOND)
    heading, row, *_ = drawn(budget, 80).splitlines()
    assert heading.split()[-2:] == ["3", "4"]
    assert "···│" in row


def test_nothing_yet(ledger: Ledger) -> None:
    """There is nothing to draw."""
    assert drawn(opened(ledger, "run", 100)) == "No step has begun.\n"


def test_steps_that_are_no_longer_kept(ledger: Ledger) -> None:
    """A job without end says what is missing from its picture."""
    budget = opened(ledger, "run", 5_000)
    ended(ledger, budget, 1, 0, 100)
    assert budget.history is not None
    budget.history.slim()
    assert drawn(budget) == "Of 1 further steps only the counts are kept.\n"
    ended(ledger, budget, 2, 200, 100)
    assert "Of 1 further steps only the counts are kept.\n" in drawn(budget)


def test_waiting_without_events(ledger: Ledger) -> None:
    """A budget of one call has no timeline: its record says how long it waited."""
    budget = opened(ledger, "run", 5_000)
    ended(ledger, budget, 1, 0, 2_000, queued_ms=1_000.0)
    assert budget.history is not None
    budget.history.events.clear()
    (bar,) = bars_of(*documents(budget))
    assert bar.waits == ((0, 1_000),)


def test_waiting_in_vain(ledger: Ledger) -> None:
    """A call that was shed after it had waited never ran."""
    budget = opened(ledger, "run", 5_000)
    shed = REFUSED | {"outcome": "shed", "reason": "queue_deadline"}
    ended(ledger, budget, 1, 0, 2_000, queued_ms=2_000.0, **shed)
    (row,) = [line for line in drawn(budget).splitlines() if line.endswith("shed")]
    assert "█" not in row
    assert "░░░×" in row


def test_long_calls_keep_their_end(ledger: Ledger) -> None:
    """Which tells them apart better than the beginning; a wide terminal shows more of it."""
    budget = opened(ledger, "run", 5_000)
    ended(ledger, budget, 1, 0, 100, target="http://a.internal/api/v1/collections/orders/items?x=…")
    ended(ledger, budget, 2, 0, 100, target="a.internal:443", method="CONNECT")
    assert "GET …rders/items " in drawn(budget)
    assert "GET /api/v1/collections/orders/items" in drawn(budget, 110)
    assert "CONNECT …nal:443 " in drawn(budget)


def test_what_others_say_cannot_play_tricks(ledger: Ledger) -> None:
    """Not with the terminal, and not with the columns."""
    budget = opened(ledger, "run", 5_000)
    ended(ledger, budget, 1, 0, 100, target="http://a/\x1b[31m\r\n[bold]x")
    text = drawn(budget, 100)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "[bold]x" in text
    assert len(text.splitlines()) == 3


SPANS = st.integers(0, 12_000)


@given(
    steps=st.lists(st.tuples(SPANS, SPANS, st.integers(0, 5)), min_size=1, max_size=12),
    running=st.lists(st.tuples(SPANS, st.booleans()), max_size=4),
    ago=st.integers(1, 30_000),
    total=st.integers(0, 20_000),
    width=st.integers(60, 140),
    fit=st.booleans(),
    is_closed=st.booleans(),
)
def test_any_job_fits(
    steps: list[tuple[int, int, int]],
    running: list[tuple[int, bool]],
    ago: int,
    total: int,
    width: int,
    fit: bool,
    is_closed: bool,
) -> None:
    """Whatever happened when: a row for each step, all of one shape, within the columns there are."""
    ledger = Ledger()
    budget = opened(ledger, "run", ago, total_ms=total)
    truncated = CUT | less(1, "a-rung-with-a-long-name." * 2, Why.TRUNCATED)
    shapes: list[dict[str, Any]] = [
        {},
        CUT,
        REFUSED,
        {"queued_ms": 5.0},
        less(2, "fast", Why.TIME),
        truncated,
    ]
    for number, (start, took, shape) in enumerate(steps, 1):
        ended(ledger, budget, number, start, took, **shapes[shape])
    for number, (start, granted) in enumerate(running, len(steps) + 1):
        begun(ledger, budget, number, start, granted_ms=start + 10 if granted else None)
    if is_closed:
        ledger.close(budget, NOW, "request")
    for marks in (UNICODE, ASCII):
        text = drawn(budget, width, marks, fit=fit)
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert len([line for line in lines if line[:4].strip().isdigit()]) == len(steps) + len(running)
        assert marks is UNICODE or text.isascii()
