"""`waterclock budgets`, `timeline` and `close`: what they print for people and for programs, of a running sidecar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.cli import less_text
from proxy.core.degrading import Degraded, Why
from proxy.core.units import SECOND
from proxy.degrade.cache.found import How
from tests.admin.jobs import ended, less, on_a_ladder, one_call, opened, tangled, worked_example
from tests.admin.writes import NOW, Sidecar, write
from tests.cli.controls import Commands

LIST = """\
budget    spent  of  done  in doubt  state
run-43      6.2  10   2/6         1  open, 2.8 left
run-42      9.9  10   2/3            incomplete; on_time
run-late     13  10   1/1            complete; late
run-lost     10  10   1/1            expired; complete
All in seconds. done: steps completed, of all.
1 more is known, ended earlier or of one call each: --all
"""

RECORD = """\
run-43: in_progress   6.2 of 10 s, 2.8 s left
  Still open: so far 2 calls are under way, 2 units of work are not done, 1
  write is of unknown effect.
  Still open: 3800 ms are left, the reserve included.

budget:   10 s, the last 1 s of it for cleanup; opened 2026-01-02T03:03:59.478Z
steps:    6: 2 completed, 1 deadline_exceeded, 1 refused, 2 in_flight
attempts: 4 attempts at 3 units of work: 1.333 each
stages:   retrieval 2.3 of 4 s, llm 2 of 5 s
ignored:  1 attempt to lengthen it

step  starts  queued  allowed  took  outcome            call
   1       0       0        4   1.5  completed          GET   search.internal/v1
                                                              /find?q=…
   2       0     1.5        4   2.3  completed          GET   search.internal/v1
                                                              /find?q=…
   3     2.4       0        4     2  deadline_exceeded  POST  orders.internal/v1
                                     route_cap                /orders
   4     4.5       0      0.2     0  refused            GET   search.internal/v1
                                     below_min_start          /find?q=…

What was decided
  step 1 was attempted 2 times.
  step 2 waited 1.5 s for its turn.
  step 3 was cut after 2 s: that is the cap of the route orders.
  step 4 was not started: 0.2 s were left, less than its route's min_start.

In doubt
  run-43-3  POST https://api.example.com/v1/orders?dry=…  (uncertain, 90 s ago)
    It may have happened. Check on the other side whether it did, then resolve
    this record as applied or not applied. Until then its repetition is refused;
    once writes.hold is over, it is a dead letter.
    waterclock uncertain resolve run-43-3 --applied | --not-applied
"""

LADDER = """\
run-44: incomplete; on_time; degraded=3   9 of 10 s
  Incomplete: 1 unit of work is not done; 3 calls were answered with less than
  they asked for.
  On time: closed with its last entry request, 1000 ms before its end.

budget:   10 s, the last 1 s of it for cleanup; opened 2026-01-02T03:03:53.678Z
steps:    4: 3 completed, 1 deadline_exceeded; 3 of them answered with less than
          asked

step  starts  queued  allowed  took  outcome             call
   1       0       0        4     4  completed           GET   search.internal/v
                                     rung full                 1/find?q=…
                                     cache miss
   2       4       0        4     3  completed           GET   search.internal/v
                                     ↓ minimal (time)          1/find?q=…
   3       7       0        2  0.01  completed           GET   search.internal/v
                                     ↓ cached (failed)         1/find?q=…
                                     cache semantic
   4     7.1       0      1.9   1.8  deadline_exceeded   GET   search.internal/v
                                     stage_share               1/find?q=…
                                     ↓ fast (truncated)

What was decided
  step 2 could use 1.2 s that earlier stages had left.
  step 2 was answered with less by the rung minimal: the better ones need more
  than was left.
  step 3 was answered with less by the rung cached: a better one was tried, and
  failed.
  step 3 was answered from the cache: the same had been asked in other words.
  step 4 was answered with less by the rung fast: its stream was closed before
  its end.
  step 4 was cut after 1.8 s: that was all that was left for the stage llm.
"""


def trimmed(text: str) -> str:
    """Without the blanks that tables put behind their lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_list(asked: Commands, sidecar: Sidecar) -> None:
    """How each job stands, in 80 columns, and that there are more."""
    ledger = sidecar.ledger
    tangled(ledger)
    worked_example(ledger)
    late = opened(ledger, "run-late", 20_000)
    ended(ledger, late, 1, 0, 13_000)
    ledger.close(late, late.opened + 13 * SECOND, "request")
    ended(ledger, opened(ledger, "run-lost", 60_000), 1, 0, 100)
    one_call(ledger, "call", 1_000)
    assert trimmed(asked.good("budgets")) == LIST
    everything = asked.good("budgets", "--all")
    assert "call" in everything
    assert "--all" not in everything


def test_list_for_programs(asked: Commands, sidecar: Sidecar) -> None:
    """As the API says it."""
    worked_example(sidecar.ledger)
    document = json.loads(asked.good("budgets", "--json"))
    assert [each["id"] for each in document["budgets"]] == ["run-42"]


def test_empty_list(asked: Commands, sidecar: Sidecar) -> None:
    """Nothing is there, or nothing that is looked at first."""
    assert (
        asked.good("budgets", "--all")
        == "No budget has been opened here yet, or all of them are forgotten.\n"
    )
    one_call(sidecar.ledger, "call", 1_000)
    assert asked.good("budgets") == (
        "No budget is open, and none has ended in the last minutes.\n"
        "1 more is known, ended earlier or of one call each: --all\n"
    )


def test_long_list(asked: Commands, sidecar: Sidecar) -> None:
    """It says what it leaves out."""
    for number in range(150):
        opened(sidecar.ledger, f"run-{number}", 1_000 - number)
    assert asked.good("budgets").endswith("The newest 100 of 150 are shown.\n")
    assert "shown" not in asked.good("budgets", "--all")


def test_long_ids_are_whole(asked: Commands, sidecar: Sidecar) -> None:
    """An id is there to be copied."""
    id = "run:" + "0123456789" * 12
    opened(sidecar.ledger, id, 100)
    rows = asked.good("budgets").splitlines()[1:-1]
    assert "".join(row.split(" ")[0] for row in rows) == id
    assert asked.good("budgets", id).startswith(f"{id}: in_progress")


def test_record(asked: Commands, sidecar: Sidecar) -> None:
    """The verdict first; then what made it wait and what cut it, and which writes are in doubt."""
    tangled(sidecar.ledger)
    sidecar.writes.put(write("run-43-3", budget_id="run-43"))
    assert trimmed(asked.good("budgets", "run-43")) == RECORD
    assert json.loads(asked.good("budgets", "run-43", "--json"))["id"] == "run-43"


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (
            {"outcome": "refused", "reason": "budget_exhausted"},
            "not started: nothing was left of the budget.",
        ),
        (
            {"outcome": "refused", "reason": "budget_exhausted", "stage": "llm", "remaining_ms": 500.0},
            "not started: nothing was left for the stage llm.",
        ),
        ({"outcome": "refused", "reason": "new_reason"}, "not started: new_reason."),
        ({"outcome": "shed", "reason": "width"}, "as many calls of this budget as budget.width allows"),
        (
            {"outcome": "deadline_exceeded", "reason": "client_timer"},
            "its caller's own timer was about to fire",
        ),
        ({"outcome": "deadline_exceeded", "reason": None}, "cut after 0.1 s: no reason given."),
        ({"would": "cut"}, "let pass by mode: observe; enforced, it would have been cut."),
        ({"tries": 3}, "was attempted 3 times."),
        ({"would": "degrade"}, "enforced, it would have been answered with less."),
        (
            {"degraded": Degraded(1, "delegated", Why.DELEGATED)},
            "was answered with less: the job that it had asked says so itself.",
        ),
        (less(1, "fast", Why.BUSY), "by the rung fast: admission had no place for the better ones."),
        ({"degraded": Degraded(1, "x", "new_reason"), "rung": "x"}, "by the rung x: new_reason."),
        ({"cache": "hit"}, "was answered from the cache: the same had been asked before."),
    ],
)
def test_every_decision_is_a_sentence(
    asked: Commands, sidecar: Sidecar, step: dict[str, Any], says: str
) -> None:
    """What was done to a step, and why: the budget, its stage, its route, or its caller."""
    budget = opened(sidecar.ledger, "run", 5_000)
    spent = {"remaining_ms": 0.0, "allowed_ms": 0.0} if step.get("reason") == "budget_exhausted" else {}
    ended(sidecar.ledger, budget, 1, 0, 100, **(spent | step))
    assert says in asked.good("budgets", "run", columns=132)


def test_record_of_a_job_that_did_with_less(asked: Commands, sidecar: Sidecar) -> None:
    """Which of its calls did, how far down, and why: visible without colours."""
    on_a_ladder(sidecar.ledger)
    assert trimmed(asked.good("budgets", "run-44")) == LADDER
    plain = asked.good("budgets", "run-44", encoding="ascii")
    assert plain.isascii()
    assert "v minimal (time)" in plain


def test_less_is_said_in_the_list(asked: Commands, sidecar: Sidecar) -> None:
    """Of a job that has ended and of one that runs, beside what else is said of it."""
    on_a_ladder(sidecar.ledger)
    ended(sidecar.ledger, opened(sidecar.ledger, "run-45", 1_000), 1, 0, 10, **less(2, "minimal", Why.TIME))
    states = {line.split()[0]: line.rstrip() for line in asked.good("budgets").splitlines()[1:3]}
    assert states["run-44"].endswith("incomplete; on_time; degraded=3")
    assert states["run-45"].endswith("open, 8 left; degraded=1")
    assert asked.good("close", "run-45").startswith("run-45: complete; on_time; degraded=1   1 of 10 s\n")


def test_every_reason_has_its_words() -> None:
    """A word that is added to the vocabulary is added to what people read."""
    assert set(less_text._WHY) == {*Why}
    assert set(less_text._FROM_CACHE) == {*How}


def test_record_of_a_good_job(asked: Commands, sidecar: Sidecar) -> None:
    """Nothing was decided and nothing is in doubt, so neither is mentioned."""
    budget = opened(sidecar.ledger, "run", 5_000)
    ended(sidecar.ledger, budget, 1, 0, 100)
    sidecar.ledger.close(budget, NOW, "entry")
    text = asked.good("budgets", "run")
    assert text.startswith("run: complete; on_time   5 of 10 s\n")
    assert "decided" not in text
    assert "In doubt" not in text


@pytest.mark.parametrize("word", ["budgets", "timeline", "close"])
def test_unknown_budget(asked: Commands, word: str) -> None:
    """Why it may be gone, and what to do, as the API says it."""
    complaint = asked.bad(word, "run-9")
    assert "There is no budget 'run-9'." in complaint
    assert "ledger.retention" in complaint


@pytest.mark.parametrize("id", ["run:42~a.b", "..", ".", "~"])
def test_ids_are_taken_as_they_are(asked: Commands, sidecar: Sidecar, id: str) -> None:
    """Whatever may stand in Budget-Id."""
    ended(sidecar.ledger, opened(sidecar.ledger, id, 1_000), 1, 0, 100)
    assert asked.good("budgets", id).startswith(f"{id}: in_progress")
    assert asked.good("timeline", id).startswith(f"{id}: in_progress")
    assert asked.good("close", id).startswith(f"{id}: complete; on_time")


def test_timeline(asked: Commands, sidecar: Sidecar) -> None:
    """The verdict, and the picture below it; the same width whatever the terminal."""
    worked_example(sidecar.ledger)
    lines = asked.good("timeline", "run-42").splitlines()
    assert lines[0] == "run-42: incomplete; on_time   9.9 of 10 s"
    assert lines[4] == "   3 GET /v1/find       1                             ███×···│ deadline_exceeded"
    for columns in (60, 80, 132):
        wide = asked.good("timeline", "run-42", columns=columns).splitlines()
        assert columns - 1 <= max(map(len, wide)) <= columns
    assert asked.good("timeline", "run-42", encoding="ascii").isascii()
    assert "0.5" not in asked.good("timeline", "run-42", "--fit").splitlines()[1]


def test_timeline_for_programs(asked: Commands, sidecar: Sidecar) -> None:
    """The events, as the API says them."""
    worked_example(sidecar.ledger)
    document = json.loads(asked.good("timeline", "run-42", "--json"))
    assert document["events"][0] == {
        "at_ms": 0,
        "event": "granted",
        "step": 1,
        "record": "run-42-1",
        "slot": 0,
        "detail": "",
    }


def test_close(asked: Commands, sidecar: Sidecar) -> None:
    """What an agent's script says at its end, and what it is told."""
    ended(sidecar.ledger, opened(sidecar.ledger, "run", 5_000), 1, 0, 100)
    assert asked.good("close", "run") == (
        "run: complete; on_time   5 of 10 s\n"
        "  Complete: all that was begun is done, and every effect is known.\n"
        "  On time: closed on request, 5000 ms before its end.\n"
    )
    sidecar.now += SECOND
    assert json.loads(asked.good("close", "run", "--json"))["verdict"] == "complete; on_time"
    assert sidecar.closed == ["run"]


def test_targets_cannot_play_tricks(asked: Commands, sidecar: Sidecar) -> None:
    """What a caller has put into a path is shown, and not obeyed."""
    budget = opened(sidecar.ledger, "run", 5_000)
    ended(sidecar.ledger, budget, 1, 0, 100, target="http://a/\x1b[31m\r\n[red]x")
    sidecar.writes.put(write("w", budget_id="run", target="http://a/\x1b[31m\n"))
    for command in ("budgets", "timeline"):
        text = asked.good(command, "run", columns=110)
        assert "\x1b" not in text
        assert "\\x1b[31m" in text
    assert asked.good("budgets", "run", encoding="ascii").isascii()
