"""What a route says of answers that are less, and cannot be had: for calls that may be writes, in bodies that are not there.

The rules are read as those of `contradictions` are. `key` is the route's own: `routes[1]`, `fallback`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from proxy.config.faults import listed
from proxy.config.orders import Amount, in_order
from proxy.config.reading import Report
from proxy.core.calls import Kind, kind_of_method
from proxy.core.policy import FALLBACK, Route

_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def find_degrading_contradictions(key: str, route: Route, report: Report) -> None:
    """Add a fault to the report for every contradiction in what a route says of answers that are less."""
    _only_reads(key, route, report)
    _bodies(key, route, report)
    _truncate(key, route, report)
    _cache(key, route, report)
    _mark(key, route, report)


def _only_reads(key: str, route: Route, report: Report) -> None:
    """Refuse less for calls that may be writes: who is given another's answer, or half of one, takes the write for done."""
    less = [
        (f"{key}.ladder", bool(route.ladder)),
        (f"{key}.cache", route.cache is not None),
        (f"{key}.on_cut", route.truncate is not None),
    ]
    at = next((name for name, said in less if said and name in report.given), None)
    effect, methods = f"{key}.effect", f"{key}.match.methods"
    if at is None or route.effect is Kind.READ:
        return
    if route.effect is not None:
        problem = (
            f"is for reads, and these calls are said to be {_called(route.effect)} ({report.place(effect)})"
        )
        remedy = "write effect: read if they change nothing on the other side, or take this out"
    else:
        writes = sorted(name for name in route.match.methods or () if kind_of_method(name) is not Kind.READ)
        if route.match.methods and not writes:
            return
        remedy = "add effect: read if they change nothing on the other side (asking a model does not)"
        if writes:
            named = f"{listed(writes, 'and')} ({report.place(methods)})"
            problem = f"is for reads, and {named} would be {'a write' if len(writes) == 1 else 'writes'}"
        else:
            problem = "is for reads, and nothing says that these calls are"
            remedy += ", or methods: [GET] to match" if key != FALLBACK.name else ""
    report.add_conflict(at, (at, effect, methods), problem, remedy)


def _called(effect: Kind) -> str:
    return "idempotent writes" if effect is Kind.IDEMPOTENT else "writes"


def _bodies(key: str, route: Route, report: Report) -> None:
    """Refuse what looks into a body, or changes it, where no request has one."""
    names = route.match.methods
    if not names or not names <= _BODILESS:
        return
    methods = f"{key}.match.methods"
    for at in _looking_into_bodies(key, route):
        problem = f"is about the body of a request, and {listed(sorted(names), 'and')} ({report.place(methods)}) have none"
        report.add_conflict(at, (at, methods), problem, "add the method that has one there, or take this out")


def _looking_into_bodies(key: str, route: Route) -> Iterator[str]:
    for level, rung in enumerate(route.ladder):
        if rung.change is not None and rung.change.json:
            yield f"{key}.ladder[{level}].set.json"
        if rung.cache is not None and rung.cache.text is not None:
            yield f"{key}.ladder[{level}].cache.text"
    if route.cache is not None and route.cache.ignore:
        yield f"{key}.cache.ignore"


def _truncate(key: str, route: Route, report: Report) -> None:
    on_cut, margin = f"{key}.on_cut", f"{key}.truncate_margin"
    if route.truncate is None:
        for at in (margin, f"{key}.truncate_mark"):
            if at in report.given:
                problem = f"says how a stream is truncated, and on_cut is error ({report.place(on_cut)})"
                report.add_conflict(at, (at, on_cut), problem, "write on_cut: truncate, or take this out")
    elif route.cap is not None:
        in_order(
            report, Amount(margin, route.truncate.margin), Amount(f"{key}.cap", route.cap), strictly=True
        )


def _cache(key: str, route: Route, report: Report) -> None:
    """Refuse a cache that nobody ever asks, and one that tells callers apart and does not."""
    cache, rules = f"{key}.cache", route.cache
    if rules is None:
        return
    asked = rules.first or rules.stale_if_error or any(rung.cache is not None for rung in route.ladder)
    if not asked:
        problem = "is never asked: it is not first, no rung of a ladder answers from it, nor is it asked when calls fail"
        remedy = "add first: true, stale_if_error, or a rung with cache: {}"
        report.add_conflict(cache, (cache, f"{key}.ladder"), problem, remedy)
    share, headers = f"{cache}.share", f"{cache}.headers"
    if rules.share and "authorization" in rules.headers:
        problem = f"gives callers each other's answers, and headers ({report.place(headers)}) tells them apart by authorization"
        report.add_conflict(share, (share, headers), problem, "take one of the two out")


def _mark(key: str, route: Route, report: Report) -> None:
    body = f"{key}.degraded_body"
    if route.degraded_body and not route.degrades:
        problem = "marks answers that are less, and without a ladder or a cache there are none"
        report.add_conflict(
            body, (body, f"{key}.ladder", f"{key}.cache"), problem, "add a ladder, or take this out"
        )
