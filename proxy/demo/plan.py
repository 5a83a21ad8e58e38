"""The numbers of the demo, its six variants, and what must come of each: written down, not computed.

The worked example has a budget of 10 s, a reserve of 1 s and a cap of 4 s a call. Here all times are a fifth of that,
so that nobody has to wait for it. What a step needs is shared by the tool and the agent: the tool answers a little
sooner, and the agent thinks for the rest, which leaves room for whatever else the machine is doing. C has the least
of it, since its tool must not be done within the time that the third variant leaves it; cleanup has the most, since the
job is to be closed in time after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

UNIT: Final = 200
"""Milliseconds for one second of the worked example."""
TOTAL: Final = 10 * UNIT
RESERVE: Final = 1 * UNIT
CAP: Final = 4 * UNIT
CLEANUP: Final = 1 * UNIT
THINKING: Final = {"A": 100, "B": 100, "C": 60, "cleanup": 130}
"""The part of what a step needs that the agent takes, after the tool has answered."""

ORDER_CAP: Final = 300
ORDER_NEEDS: Final = 1500
"""When the tool answers an order that it has long committed: late, so that there is time to try it again."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of one step. Times are milliseconds; `started` counts from the job's first call."""

    started: int
    allowed: int
    outcome: str = "completed"
    status: int = 200
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """One step: what it needs, what the agent waits before it, where it goes, and what must come of it."""

    name: str
    needs: int
    expected: Expected
    wait: int = 0
    path: str = "/do"

    @property
    def tool(self) -> int:
        """How long the tool takes for it."""
        return self.needs - THINKING[self.name]


class Stated(Enum):
    """How the agent states its budget: in the first call of the job, or in each one, under the job's id or its own."""

    ONCE = "once"
    ANEW = "anew"
    APART = "apart"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way that the job can go. `before` and `after` say it to a newcomer."""

    id: str
    title: str
    before: str
    after: str
    steps: tuple[Work, Work, Work, Work]
    complete: bool
    on_time: bool
    stated: Stated = Stated.ONCE

    @property
    def apart(self) -> bool:
        """Whether each step has a budget of its own, so that no budget is that of the job."""
        return self.stated is Stated.APART

    @property
    def claims(self) -> int:
        """How often the agent tries to lengthen a budget."""
        return len(self.steps) - 1 if self.stated is Stated.ANEW else 0


def _at(started: float, allowed: float) -> Expected:
    return Expected(round(started * UNIT), round(allowed * UNIT))


def _cut(started: float, allowed: float) -> Expected:
    return Expected(
        round(started * UNIT), round(allowed * UNIT), "deadline_exceeded", 504, "budget_remaining"
    )


def _unstarted(started: float, allowed: float) -> Expected:
    return Expected(round(started * UNIT), round(allowed * UNIT), "refused", 403, "below_min_start")


def _cleanup(started: float, allowed: float) -> Work:
    return Work("cleanup", CLEANUP, _at(started, allowed))


_TOO_MUCH: Final = (
    Work("A", 4 * UNIT, _at(0, 4)),
    Work("B", 4 * UNIT, _at(4, 4)),
    Work("C", 4 * UNIT, _cut(8, 1)),
    _cleanup(9, 1),
)

VARIANTS: Final = (
    Variant(
        "too-much",
        "Too much for one budget",
        f"A, B and C need {4 * UNIT} ms each.",
        "C was given only what was left, and cut when that was used up. The work is not complete, but the job was closed "
        "in time, out of its reserve.",
        _TOO_MUCH,
        complete=False,
        on_time=True,
    ),
    Variant(
        "it-fits",
        "It fits",
        f"A needs {2 * UNIT} ms, B {3 * UNIT}, C {4 * UNIT}.",
        "Same budget, same limits, quicker tools: all the work was done, and the job closed in time.",
        (
            Work("A", 2 * UNIT, _at(0, 4)),
            Work("B", 3 * UNIT, _at(2, 4)),
            Work("C", 4 * UNIT, _at(5, 4)),
            _cleanup(9, 1),
        ),
        complete=True,
        on_time=True,
    ),
    Variant(
        "waiting",
        "Waiting counts",
        f"The same, but the agent loses {UNIT // 2} ms before C.",
        "Nobody called a tool in that time, and yet it was gone: C was given that much less, and it was not enough.",
        (
            Work("A", 2 * UNIT, _at(0, 4)),
            Work("B", 3 * UNIT, _at(2, 4)),
            Work("C", 4 * UNIT, _cut(5.5, 3.5), wait=UNIT // 2),
            _cleanup(9, 1),
        ),
        complete=False,
        on_time=True,
    ),
    Variant(
        "not-worth-starting",
        "Not worth starting",
        f"{4 * UNIT} ms each again, and C is not worth starting with less (min_start: {4 * UNIT}ms).",
        "C was refused at once and never sent: the tool did no work for nothing, and the time is left for the result.",
        (
            Work("A", 4 * UNIT, _at(0, 4)),
            Work("B", 4 * UNIT, _at(4, 4)),
            Work("C", 4 * UNIT, _unstarted(8, 1), path="/careful"),
            _cleanup(8, 2),
        ),
        complete=False,
        on_time=True,
    ),
    Variant(
        "fresh-claims",
        "A fresh claim each step",
        f"{4 * UNIT} ms each again, but the agent restarts its clock at each step: every call claims {TOTAL:,} ms anew, under "
        "the same id.",
        "A budget never grows. The claims were ignored and counted, and all went as in the first job.",
        _TOO_MUCH,
        complete=False,
        on_time=True,
        stated=Stated.ANEW,
    ),
    Variant(
        "fresh-limits",
        "A fresh limit each step",
        f"{4 * UNIT} ms each again, but every call opens its own budget, as client timeouts do.",
        "Every call kept its own limit, and the user waited too long all the same. No ledger can say so: it knows four "
        "budgets, each closed in time, and no job. That the job was late is worked out here, by the agent's clock. This is "
        "what one budget for the whole job is there to stop.",
        (
            Work("A", 4 * UNIT, _at(0, 4)),
            Work("B", 4 * UNIT, _at(4, 4)),
            Work("C", 4 * UNIT, _at(8, 4)),
            _cleanup(12, 4),
        ),
        complete=True,
        on_time=False,
        stated=Stated.APART,
    ),
)

POLICY: Final = f"""\
# The policy of `waterclock demo`. Times are a fifth of the worked example's: its 10 s are 2 s here.
listen:
  outbound: 127.0.0.1:{{outbound}}
  control: 127.0.0.1:{{control}}
  metrics: 127.0.0.1:{{metrics}}

budget:
  default: {TOTAL}ms
  reserve: {RESERVE}ms            # the end of each budget, which only cleanup calls may use

routes:
  - name: careful             # useless with less than all of what it needs
    match: {{{{path: /careful/**}}}}
    cap: {CAP}ms
    min_start: {CAP}ms
  - name: orders
    match: {{{{path: /orders, methods: [POST]}}}}
    cap: {ORDER_CAP}ms
  - name: tools
    match: {{{{path: /**}}}}
    cap: {CAP}ms                # no single call may take more

journal: {{{{path: {{journal}}}}}}  # where writes are noted before they are sent
shutdown: {{{{grace: 1s}}}}
"""
