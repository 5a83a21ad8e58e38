"""What the rungs of a ladder say that cannot be had together: rungs that are never taken, or that are two things at once.

The rules are read as those of `contradictions` are. `key` is the route's own: `routes[1]`, `fallback`.

What rungs need falls from one to the next, as what is left does. A rung may need as much as one above it: it then takes over
when that one fails. A rung that says nothing of its needs is tried whatever is left, and a cache that has nothing has cost no
time; those below them may need more. What is measured (`auto`) is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from proxy.config.faults import listed
from proxy.config.orders import Amount, in_order
from proxy.config.reading import Report
from proxy.config.scalars import SPANS
from proxy.core.degrading import Rung
from proxy.core.policy import BudgetDefaults, OnMissing, Route

_BODILESS: Final = (204, 205, 304)  # RFC 9110 §6.4.1, §15.3.6


class _Placed(NamedTuple):
    """A rung, and its key."""

    key: str
    rung: Rung

    @property
    def needs(self) -> str:
        return f"{self.key}.needs"


def find_ladder_contradictions(key: str, route: Route, budget: BudgetDefaults, report: Report) -> None:
    """Add a fault to the report for every contradiction in one ladder. `budget`: what its steps have their time from."""
    placed = [_Placed(f"{key}.ladder[{level}]", rung) for level, rung in enumerate(route.ladder)]
    for each in placed:
        _one_thing(each, report)
        _measured(each, report)
        _answer(each, report)
        _cache(each, report)
        _too_much(each, key, route, budget, report)
    if placed:
        _first(placed[0], report)
    _names(placed, report)
    for each, above in _with_those_above(placed):
        if not _never_reached(each, above, report) and not _the_same(each, above, report):
            _rises(each, above, report)


def _with_those_above(placed: list[_Placed]) -> Iterator[tuple[_Placed, list[_Placed]]]:
    for level, each in enumerate(placed):
        yield each, placed[:level]


def _one_thing(each: _Placed, report: Report) -> None:
    """A rung asks an upstream, or the cache, or nobody."""
    answer, cache = f"{each.key}.answer", f"{each.key}.cache"
    if each.rung.answer is not None and each.rung.cache is not None:
        problem = f"stands beside a fixed answer ({report.place(answer)}), and a rung is one of the two"
        report.add_conflict(
            cache, (cache, answer), problem, "make two rungs of it, the cache above the answer"
        )
    local = answer if each.rung.answer is not None else cache
    for name in ("set", "upstream", "credentials"):
        at = f"{each.key}.{name}"
        if each.rung.local and at in report.given:
            problem = f"is about what is sent, and with {local.rpartition('.')[2]} ({report.place(local)}) nothing is"
            report.add_conflict(at, (at, local), problem, "take one of the two out")
    credentials, upstream = f"{each.key}.credentials", f"{each.key}.upstream"
    if not each.rung.local and credentials in report.given and upstream not in report.given:
        problem = "is about another upstream, and this rung names none: the caller's own credentials go where it calls"
        report.add_conflict(
            credentials, (credentials, upstream), problem, "add the upstream, or take this out"
        )


def _measured(each: _Placed, report: Report) -> None:
    if each.rung.needs is None and each.rung.local:
        problem = "auto is what was measured of an upstream, and this rung asks none"
        report.add_conflict(each.needs, (each.needs, each.key), problem, "write a span, or take this out")


def _answer(each: _Placed, report: Report) -> None:
    if each.rung.answer is None:
        return
    answer = f"{each.key}.answer"
    status, json, text = (f"{answer}.{name}" for name in ("status", "json", "text"))
    if json in report.given and text in report.given:
        problem = f"stands beside json ({report.place(json)}), and there is one body"
        report.add_conflict(text, (text, json), problem, "take one of the two out")
    elif json not in report.given and text not in report.given:
        report.add_conflict(answer, (answer, json, text), "has no body", "add json or text")
    elif each.rung.answer.status in _BODILESS and each.rung.answer.body:
        at = status if status in report.given else answer
        problem = f"{each.rung.answer.status} has no body, and there is one"
        report.add_conflict(at, (at, json, text), problem, 'write another status, or text: ""')


def _cache(each: _Placed, report: Report) -> None:
    use = each.rung.cache
    if use is None:
        return
    cache = f"{each.key}.cache"
    exact, semantic, text = (f"{cache}.{name}" for name in ("exact", "semantic", "text"))
    if not use.exact and use.semantic is None:
        problem = f"leaves nothing to look for: without exact ({report.place(exact)}) and without semantic"
        report.add_conflict(exact, (exact, semantic), problem, "add semantic and text, or take this out")
    if use.semantic is not None and use.text is None:
        remedy = 'add the place of the question in the body, as in text: "$.messages[-1].content"'
        report.add_conflict(semantic, (semantic, text), "stands without a text", remedy)
    if use.text is not None and use.semantic is None:
        problem = "is what semantic compares, and that is not given"
        report.add_conflict(text, (semantic, text), problem, "add semantic: 0.92, or take this out")


def _too_much(each: _Placed, key: str, route: Route, budget: BudgetDefaults, report: Report) -> None:
    """Refuse a rung that needs more than its steps ever have. Without a budget, they may have any time."""
    need = each.rung.needs
    if not need:
        return
    mine = Amount(each.needs, need)
    if route.cap is not None and need > route.cap:
        in_order(report, mine, Amount(f"{key}.cap", route.cap))
    elif budget.on_missing is OnMissing.PASS:
        return
    elif need > budget.max:
        in_order(report, mine, Amount("budget.max", budget.max))
    elif not budget.carry:
        _more_than_its_stage(mine, f"{key}.stage", route.stage, budget, report)


def _more_than_its_stage(
    mine: Amount, key: str, stage: str | None, budget: BudgetDefaults, report: Report
) -> None:
    share = next((share.span for share in budget.stages if share.stage == stage), None)
    if share is None:
        return
    most = share * budget.max // max(1, budget.default)
    if mine.amount > most:
        problem = (
            f"{mine} is more than the {SPANS.show(most)} that stage {stage} ({report.place(key)}) has of the longest "
            f"budget, {SPANS.show(budget.max)} ({report.place('budget.max')})"
        )
        keys = (mine.key, key, "budget.stages", "budget.max", "budget.default", "budget.carry")
        report.add_conflict(mine.key, keys, problem, "write less, or give the stage a larger share")


def _first(first: _Placed, report: Report) -> None:
    """What is asked for is asked of somebody: an answer without that would pass for the whole."""
    at = f"{first.key}.{'answer' if first.rung.answer is not None else 'cache'}"
    if first.rung.local:
        problem = "stands on the first rung, which is what the call asks for, and the others are less than it"
        remedy = "put a rung that asks the upstream above it; cache: {first: true} of the route asks the cache before"
        report.add_conflict(at, (at,), problem, remedy)


def _names(placed: list[_Placed], report: Report) -> None:
    first: dict[str, str] = {}
    for each in placed:
        name = f"{each.key}.name"
        other = first.setdefault(each.rung.name, name)
        if each.rung.name and other != name:
            problem = f'"{each.rung.name}" is the name of another rung ({report.place(other)})'
            report.add_conflict(name, (name, other), problem, "give each rung of a ladder a name of its own")


def _never_reached(each: _Placed, above: list[_Placed], report: Report) -> bool:
    """Refuse a rung below a fixed answer that can be given whenever this one could be taken; say whether there is one."""
    for other in above:
        has, need = other.rung.needs, each.rung.needs
        if other.rung.answer is None or has is None or (has > 0 and (need is None or need < has)):
            continue
        always = "always be given" if has == 0 else f"be given whenever {SPANS.show(has)} are left"
        problem = f'is never reached: the answer of rung "{other.rung.name}" ({report.place(other.key)}) can {always}'
        report.add_conflict(each.key, (each.key, other.key), problem, "put it above that one, or take it out")
        return True
    return False


def _the_same(each: _Placed, above: list[_Placed], report: Report) -> bool:
    """Refuse a rung that is another one once more; say whether there is one."""
    mine = replace(each.rung, name="", needs=0)
    for other in above:
        if mine == replace(other.rung, name="", needs=0):
            problem = (
                f'is the same as rung "{other.rung.name}" ({report.place(other.key)}), and no less than it'
            )
            remedy = f"say what is less: {listed(['set', 'upstream', 'cache', 'answer'])}; retries tries one rung again"
            report.add_conflict(each.key, (each.key, other.key), problem, remedy)
            return True
    return False


def _rises(each: _Placed, above: list[_Placed], report: Report) -> None:
    """Refuse a rung that needs more than one above it that says what it needs."""
    need = each.rung.needs
    for other in above:
        has = other.rung.needs
        if not need or not has or other.rung.local or need <= has:
            continue
        problem = (
            f'{SPANS.show(need)} is more than rung "{other.rung.name}" above it needs, {SPANS.show(has)} '
            f"({report.place(other.needs)}), so that one is taken whenever this one fits"
        )
        remedy = "put the rung that needs more above, or write at most as much"
        report.add_conflict(each.needs, (each.needs, other.needs), problem, remedy)
        return
