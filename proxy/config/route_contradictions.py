"""What one route, or the fallback, says that cannot be had together: about where it leads, and how its calls are treated.

The rules are read as those of `contradictions` are. `key` is the route's own: `routes[1]`, `fallback`.
"""

from __future__ import annotations

import difflib

from proxy.config.degrading_contradictions import find_degrading_contradictions
from proxy.config.ladder_contradictions import find_ladder_contradictions
from proxy.config.orders import Amount, in_order
from proxy.config.reading import Report
from proxy.core.calls import Kind, Outcome
from proxy.core.policy import BudgetDefaults, Guard, Route, Share


def find_route_contradictions(key: str, route: Route, budget: BudgetDefaults, report: Report) -> None:
    """Add a fault to the report for every contradiction in one route. `budget`: what its steps have their time from."""
    _orders(key, route, report)
    _leading_elsewhere(key, report)
    _certificates(key, route, report)
    _guard(key, route, report)
    _stage(key, route, budget.stages, report)
    _serialize(key, route, report)
    _retries(key, route, report)
    _verify(key, route, report)
    find_degrading_contradictions(key, route, report)
    find_ladder_contradictions(key, route, budget, report)


def _orders(key: str, route: Route, report: Report) -> None:
    if route.cap is not None:
        in_order(report, Amount(f"{key}.min_start", route.min_start), Amount(f"{key}.cap", route.cap))
    if route.retries is not None:
        backoff = f"{key}.retries.backoff"
        in_order(
            report, Amount(f"{backoff}.base", route.retries.base), Amount(f"{backoff}.cap", route.retries.cap)
        )


def _leading_elsewhere(key: str, report: Report) -> None:
    """A base-URL route has a prefix and an upstream, and no need of what only other routes are found by."""
    prefix, upstream, tls = f"{key}.prefix", f"{key}.upstream", f"{key}.tls"
    given = report.given
    if prefix in given and upstream not in given:
        remedy = "add the upstream that the rest of the path is sent on to"
        report.add_conflict(prefix, (prefix, upstream), "stands without an upstream", remedy)
    if upstream in given and prefix not in given:
        remedy = "add the prefix of the paths that are sent on to it"
        report.add_conflict(upstream, (prefix, upstream), "stands without a prefix", remedy)
    if tls in given and upstream in given:
        problem = f"stands beside an upstream ({report.place(upstream)}), whose scheme says already whether it is TLS"
        report.add_conflict(tls, (tls, upstream), problem, "take one of the two out")
    for name in ("host", "path"):
        match = f"{key}.match.{name}"
        if prefix in given and match in given:
            problem = f"is not looked at beside a prefix ({report.place(prefix)})"
            report.add_conflict(match, (prefix, match), problem, "take one of the two out")


def _certificates(key: str, route: Route, report: Report) -> None:
    ca, upstream = f"{key}.ca", f"{key}.upstream"
    if ca in report.given and route.upstream is not None and route.upstream.scheme == "http":
        problem = f"is for TLS, and the upstream ({report.place(upstream)}) is plain http"
        report.add_conflict(ca, (ca, upstream), problem, "write https:// there, or take the key out")


def _guard(key: str, route: Route, report: Report) -> None:
    guard, effect, idempotency = f"{key}.guard", f"{key}.effect", f"{key}.idempotency"
    if route.guard is Guard.KEY and route.effect is Kind.WRITE and idempotency not in report.given:
        problem = f"{Guard.KEY} knows no repeat of these writes ({report.place(effect)}): no header is said to carry a key"
        remedy = "add idempotency: {header: ...}, or write guard: fingerprint"
        report.add_conflict(guard, (guard, effect, idempotency), problem, remedy)


def _stage(key: str, route: Route, shares: tuple[Share, ...], report: Report) -> None:
    """A stage has a share; where there are none at all, its name is only a label."""
    names = [share.stage for share in shares]
    if route.stage is None or not names or route.stage in names:
        return
    stage, stages = f"{key}.stage", "budget.stages"
    close = difflib.get_close_matches(route.stage, names, n=1)
    remedy = f"did you mean {close[0]}?" if close else "give it a share there, or name one of those"
    problem = f'"{route.stage}" is not one of {stages} ({report.place(stages)})'
    report.add_conflict(stage, (stage, stages), problem, remedy)


def _serialize(key: str, route: Route, report: Report) -> None:
    serialize, effect = f"{key}.serialize", f"{key}.effect"
    if route.serialize and route.effect is Kind.READ:
        problem = f"is for writes, and these calls only read ({report.place(effect)})"
        remedy = "take it out; concurrency: 1 is for reads that must not meet"
        report.add_conflict(serialize, (serialize, effect), problem, remedy)


def _retries(key: str, route: Route, report: Report) -> None:
    """Retries that could never be made, because of what else is said."""
    retries = route.retries
    if retries is None:
        return
    most, attempts = f"{key}.retries.max", f"{key}.max_attempts"
    if route.max_attempts is not None and route.max_attempts <= retries.max:
        problem = (
            f"{route.max_attempts} is less than the first attempt and the {retries.max} of {most} "
            f"({report.place(most)})"
        )
        remedy = f"write {retries.max + 1} or more, or a smaller retries.max"
        report.add_conflict(attempts, (attempts, most), problem, remedy)
    on, effect, idempotency = f"{key}.retries.on", f"{key}.effect", f"{key}.idempotency"
    before_sending = {Outcome.CONNECT_FAILED, Outcome.DEADLINE_EXCEEDED}
    if (
        route.effect is Kind.WRITE
        and not route.idempotency.honoured
        and before_sending.isdisjoint(retries.outcomes)
    ):
        problem = f"is of no use for these writes ({report.place(effect)}): they are tried again only while nothing is sent"
        remedy = (
            f"add {Outcome.CONNECT_FAILED}, or say that keys are honoured: idempotency: {{honoured: true}}"
        )
        report.add_conflict(on, (on, effect, idempotency), problem, remedy)


def _verify(key: str, route: Route, report: Report) -> None:
    if route.verify is None:
        return
    verify, effect = f"{key}.verify", f"{key}.effect"
    if route.effect in (Kind.READ, Kind.IDEMPOTENT):
        problem = f"asks about writes in doubt, and these calls are safe to repeat ({report.place(effect)})"
        report.add_conflict(verify, (verify, effect), problem, "take one of the two out")
    method, json = f"{verify}.method", f"{verify}.applied.json"
    if route.verify.method == "HEAD" and route.verify.json is not None:
        problem = f"looks into a body, and the answer to a HEAD ({report.place(method)}) has none"
        report.add_conflict(json, (json, method), problem, "write method: GET, or take json out")
