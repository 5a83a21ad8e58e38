"""What each key may say by itself, but not together with another: two wishes of which one would be broken in silence.

Every rule names the keys it is about. It says nothing while one of them has a fault of its own, since then nobody
knows yet what it was meant to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from proxy.config.reading import Report
from proxy.config.scalars import SPANS
from proxy.core.calls import Kind
from proxy.core.policy import FALLBACK, Guard, OnMissing, Policy, Route


class _Amount(NamedTuple):
    """The amount that a key stands for, in nanoseconds where it is a span."""

    key: str
    amount: int
    is_span: bool = True

    def __str__(self) -> str:
        return SPANS.show(self.amount) if self.is_span else str(self.amount)


def find_contradictions(policy: Policy, report: Report) -> None:
    """Add a fault to the report for every contradiction in a policy that was read."""
    _listeners(policy, report)
    _orders(policy, report)
    _names(policy, report)
    for key, route in _routes(policy):
        _route_order(key, route, report)
        _leading_elsewhere(key, report)
        _certificates(key, route, report)
        _guard(key, route, report)
    _unreachable(policy.routes, report)


def _routes(policy: Policy) -> Iterator[tuple[str, Route]]:
    for index, route in enumerate(policy.routes):
        yield f"routes[{index}]", route
    yield FALLBACK.name, policy.fallback


def _listeners(policy: Policy, report: Report) -> None:
    """No two listeners on one port, whatever their addresses: one of them may be every address."""
    taken: dict[int, str] = {}
    for name in ("outbound", "control", "metrics"):
        key, port = f"listen.{name}", getattr(policy.listen, name).port
        other = taken.setdefault(port, key)
        if other == key:
            continue
        at, first = (key, other) if key in report.given else (other, key)
        problem = f"port {port} is that of {first} too ({report.place(first)})"
        report.add_conflict(at, (at, first), problem, "give each listener a port of its own")


def _orders(policy: Policy, report: Report) -> None:
    """Which amounts may not pass which others."""
    budget, connections = policy.budget, policy.connections
    default = _Amount("budget.default", budget.default)
    most = _Amount("budget.max", budget.max)
    reserve = _Amount("budget.reserve", budget.reserve)
    if budget.on_missing is OnMissing.DEFAULT or default.key in report.given:
        _in_order(report, default, most)
        _in_order(report, reserve, default, strictly=True)
    else:
        _in_order(report, reserve, most, strictly=True)
    # A record that the journal forgets cannot refuse the repetition any more.
    _in_order(
        report,
        _Amount("writes.hold", policy.writes.hold),
        _Amount("journal.retention", policy.journal.retention),
    )
    if "connections.opening" in report.given:
        opening = _Amount("connections.opening", connections.opening, is_span=False)
        _in_order(report, opening, _Amount("connections.max", connections.max, is_span=False))


def _route_order(key: str, route: Route, report: Report) -> None:
    if route.cap is not None:
        _in_order(report, _Amount(f"{key}.min_start", route.min_start), _Amount(f"{key}.cap", route.cap))


def _in_order(report: Report, low: _Amount, high: _Amount, *, strictly: bool = False) -> None:
    """Refuse a lower amount that is above the higher one, or `strictly` one that equals it."""
    if low.amount < high.amount or (low.amount == high.amount and not strictly):
        return
    if low.key in report.given:
        at, other, relation = low, high, "not less than" if strictly else "more than"
    else:
        at, other, relation = high, low, "not more than" if strictly else "less than"
    problem = f"{at} is {relation} {other.key}, {other} ({report.place(other.key)})"
    report.add_conflict(at.key, (low.key, high.key), problem, "change one of the two")


def _names(policy: Policy, report: Report) -> None:
    first: dict[str, str] = {}
    for index, route in enumerate(policy.routes):
        key = f"routes[{index}].name"
        other = first.setdefault(route.name, key)
        if route.name and other != key:
            problem = f'"{route.name}" is the name of another route ({report.place(other)})'
            report.add_conflict(key, (key, other), problem, "give each route a name of its own")


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


def _unreachable(routes: tuple[Route, ...], report: Report) -> None:
    """Refuse a route behind another that takes every call it could take."""
    for index, route in enumerate(routes):
        for earlier_index, earlier in enumerate(routes[:index]):
            if not _covers(earlier, route, f"routes[{index}].match", report):
                continue
            keys = [
                f"routes[{at}].{name}"
                for at in (earlier_index, index)
                for name in ("prefix", "upstream", "match")
            ]
            line = report.place(f"routes[{earlier_index}]")
            problem = (
                f'is never reached: route "{earlier.name}" ({line}) comes first and takes all of its calls'
            )
            report.add_conflict(f"routes[{index}]", keys, problem, "put the narrower route first")
            break


def _covers(earlier: Route, later: Route, match: str, report: Report) -> bool:
    """Say whether every call of one route is one of an earlier route too, as far as that is plain.

    A glob covers another when it matches that one's own text: its stars then stand for stars. Only `**` may stand
    for more than a star does, so a path with it is covered by the same glob alone.
    """
    if later.prefix is not None or earlier.prefix is not None:
        if later.prefix is None or earlier.prefix is None:
            return False
        if not f"{later.prefix}/".startswith(f"{earlier.prefix}/"):
            return False
    theirs, ours = later.match, earlier.match
    if ours.methods is not None and (theirs.methods is None or not theirs.methods <= ours.methods):
        return False
    if ours.host is not None and (
        theirs.host is None or not ours.host.match(report.given[f"{match}.host"].text)
    ):
        return False
    if ours.path is None or ours.path == theirs.path:
        return True
    path = report.given[f"{match}.path"].text if theirs.path is not None else "**"
    return "**" not in path and ours.path.match(path) is not None
