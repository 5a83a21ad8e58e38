"""Which rung of its route's ladder a call would be answered from, for `waterclock explain`: each rung, and what speaks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.config.scalars import SPANS
from proxy.core.calls import Kind
from proxy.core.degrading import Degraded, Rung
from proxy.core.ladder import Choice, choose, fits
from proxy.core.reasons import Reason
from proxy.core.units import exact_ms

if TYPE_CHECKING:
    from proxy.core.policy import Policy, Route
    from proxy.dataplane.consider import Considered


class Stands(NamedTuple):
    """How a call stands on its ladder. `choice` None: no rung fits. `left`: the time that was looked at; None: no limit."""

    choice: Choice | None
    left: int | None
    needs: tuple[int, ...]


def stands(case: Considered) -> Stands | None:
    """Return how a call stands on its ladder; None where it has none to stand on, or is refused whatever the time."""
    decision, route = case.decision, case.route
    if not route.ladder or case.kind is not Kind.READ or case.subscription:
        return None
    if decision.refusal not in (None, Reason.BUDGET_EXHAUSTED, Reason.BELOW_MIN_START):
        return None
    left = decision.allowance.ns
    needs = tuple(_need(rung, route) for rung in route.ladder)
    return Stands(choose(route.ladder, needs, left), left, needs)


def _need(rung: Rung, route: Route) -> int:
    """Return what a rung needs, as far as the policy tells: what is measured (`auto`) is reckoned as nothing."""
    return rung.needs or 0 if rung.local else max(rung.needs or 0, route.min_start)


def rung_rows(case: Considered, on: Stands) -> list[tuple[str, str]]:
    """Return a row for each rung: what it is, and why it is taken or not."""
    taken = on.choice.level if on.choice is not None else len(case.route.ladder)
    return [
        (f"rung {level}", f"{_described(rung, case.route)}: {_standing(level, taken, case.route, on)}")
        for level, rung in enumerate(case.route.ladder)
    ]


def _described(rung: Rung, route: Route) -> str:
    words = [rung.name]
    if rung.needs is None:
        words.append("needs what it was measured to (unknown here, and reckoned as nothing)")
    elif rung.needs:
        words.append(f"needs {SPANS.show(rung.needs)}")
    if not rung.local and route.min_start > (rung.needs or 0):
        words.append(f"min_start {SPANS.show(route.min_start)}")
    if rung.answer is not None:
        words.append(f"a fixed answer with status {rung.answer.status}")
    elif rung.cache is not None:
        words.append("from the cache")
    elif rung.upstream is not None:
        words.append(f"at {rung.upstream.host}")
    return ", ".join(words)


def _standing(level: int, taken: int, route: Route, on: Stands) -> str:
    if level == taken:
        return "taken"
    if not fits(route.ladder[level], on.needs[level], on.left):
        return "needs more than is left" if on.needs[level] else "nobody is asked when nothing is left"
    above = route.ladder[taken]
    if above.answer is not None:
        return "not reached"
    return (
        f"if {above.name} has nothing"
        if above.cache is not None
        else f"if {above.name} fails, or says nothing"
    )


def decision_rows(policy: Policy, case: Considered, on: Stands) -> list[tuple[str, str]]:
    """Return what is decided, where a rung fits."""
    choice = on.choice
    assert choice is not None
    rung = choice.rung
    if rung.answer is not None:
        what = f"answer {rung.answer.status}, as rung {rung.name} says; nothing is sent"
    elif rung.cache is not None:
        what = f"answer from the cache, if it has something (rung {rung.name})"
    else:
        what = f"start on rung {rung.name}"
    rows = [("decision", what)]
    if choice.why is not None:
        left = f"{exact_ms(max(0, on.left)):g} ms are left" if on.left is not None else "nothing limits it"
        rows.append(("why", f"{left}, and the rungs above do not fit"))
        degraded = Degraded(choice.level, rung.name, choice.why, case.limits.stage or case.route.stage)
        rows.append(("degraded", degraded.field()))
        if policy.mode == "observe":
            would = "degrade" if case.decision.refusal is None else "refuse"
            rows.append(("mode", f"observe: the call goes as it came, and is recorded with would={would}"))
    return rows
