"""What each key may say by itself, but not together with another: two wishes of which one would be broken in silence.

Every rule names the keys it is about. It says nothing while one of them has a fault of its own, since then nobody
knows yet what it was meant to be.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from operator import attrgetter

from proxy.config.orders import Amount, in_order
from proxy.config.places import find_misplaced
from proxy.config.reading import Report
from proxy.config.route_contradictions import find_route_contradictions
from proxy.config.scalars import SIZES, SPANS
from proxy.core.policy import FALLBACK, SLACK, Address, OnMissing, Policy, Route


def find_contradictions(policy: Policy, report: Report) -> None:
    """Add a fault to the report for every contradiction in a policy that was read."""
    _listeners(policy, report)
    _app(policy, report)
    _orders(policy, report)
    _shares(policy, report)
    _names(policy, report)
    for key, route in _routes(policy):
        find_route_contradictions(key, route, policy.budget, report)
    _unreachable(policy.routes, report)
    find_misplaced(policy, report)


def _routes(policy: Policy) -> Iterator[tuple[str, Route]]:
    for index, route in enumerate(policy.routes):
        yield f"routes[{index}]", route
    yield FALLBACK.name, policy.fallback


def _listening(policy: Policy) -> Iterator[tuple[str, Address]]:
    """Yield the key and the address of every listener there is."""
    names = ["outbound", "control", "metrics"]
    if policy.listen.inbound is not None:
        names.append("inbound.address")
    for name in names:
        yield f"listen.{name}", attrgetter(name)(policy.listen)


def _listeners(policy: Policy, report: Report) -> None:
    """No two listeners on one port, whatever their addresses: one of them may be every address."""
    taken: dict[int, str] = {}
    for key, address in _listening(policy):
        other = taken.setdefault(address.port, key)
        if other == key:
            continue
        at, first = (key, other) if key in report.given else (other, key)
        problem = f"port {address.port} is that of {first} too ({report.place(first)})"
        report.add_conflict(at, (at, first), problem, "give each listener a port of its own")


def _app(policy: Policy, report: Report) -> None:
    """The app is not the sidecar itself: what arrived for it would come back, without an end."""
    if policy.listen.inbound is None:
        return
    app = policy.listen.inbound.app
    host = ipaddress.ip_address(app.host)
    for key, address in _listening(policy):
        if address.port == app.port and (host.is_loopback or host.is_unspecified or app.host == address.host):
            problem = f"{app} leads back to the sidecar, whose {key} has that port ({report.place(key)})"
            remedy = "write the address and port that the app itself listens on"
            report.add_conflict("listen.inbound.app", ("listen.inbound.app", key), problem, remedy)
            return


def _whole(policy: Policy, report: Report) -> Amount:
    """Return what a budget has at most when nothing else is said: the default, where there is one in use."""
    budget = policy.budget
    if budget.on_missing is OnMissing.DEFAULT or "budget.default" in report.given:
        return Amount("budget.default", budget.default)
    return Amount("budget.max", budget.max)


def _orders(policy: Policy, report: Report) -> None:
    """Which amounts may not pass which others."""
    connections, whole = policy.connections, _whole(policy, report)
    most = Amount("budget.max", policy.budget.max)
    in_order(report, whole, most)
    in_order(report, Amount("budget.reserve", policy.budget.reserve), whole, strictly=True)
    # A record that the journal forgets cannot refuse the repetition any more.
    in_order(
        report,
        Amount("writes.hold", policy.writes.hold),
        Amount("journal.retention", policy.journal.retention),
    )
    if "connections.opening" in report.given:
        opening = Amount("connections.opening", connections.opening, show=str)
        in_order(report, opening, Amount("connections.max", connections.max, show=str))
    if "cache.entry_bytes" in report.given:
        entry = Amount("cache.entry_bytes", policy.cache.entry_bytes, show=SIZES.show)
        in_order(report, entry, Amount("cache.bytes", policy.cache.bytes, show=SIZES.show))


def _shares(policy: Policy, report: Report) -> None:
    """The shares of a budget are not more than the whole."""
    together, whole = sum(share.span for share in policy.budget.stages), _whole(policy, report)
    if together > whole.amount:
        problem = (
            f"the shares come to {SPANS.show(together)} in all, more than {whole.key}, {whole} "
            f"({report.place(whole.key)})"
        )
        remedy = f"take {SPANS.show(together - whole.amount)} off them, or raise {whole.key}"
        report.add_conflict("budget.stages", ("budget.stages", whole.key), problem, remedy)
    carry = "budget.carry"
    if policy.budget.carry and not policy.budget.stages:
        problem = "is what stages leave to those after them, and there are none"
        report.add_conflict(carry, (carry, "budget.stages"), problem, "add stages, or take this out")
    _order(policy, report)


def _order(policy: Policy, report: Report) -> None:
    """The order of stages is known where it counts: Kubernetes and Helm sort the keys of a mapping."""
    carry, order, stages = "budget.carry", "budget.order", "budget.stages"
    named = [share.stage for share in policy.budget.stages if share.stage != SLACK]
    if policy.budget.order and set(policy.budget.order) != set(named):
        problem = f"does not name each of the stages ({report.place(stages)}) once"
        report.add_conflict(order, (order, stages), problem, f"write [{', '.join(named)}], in their order")
    elif policy.budget.carry and not policy.budget.order and len(named) > 1 and not report.keeps_order:
        problem = "depends on the order of the stages, and Kubernetes keeps none"
        remedy = f"add budget.order: [{', '.join(named)}], the first of them first"
        report.add_conflict(carry, (carry, stages), problem, remedy)


def _names(policy: Policy, report: Report) -> None:
    first: dict[str, str] = {}
    for index, route in enumerate(policy.routes):
        key = f"routes[{index}].name"
        other = first.setdefault(route.name, key)
        if route.name and other != key:
            problem = f'"{route.name}" is the name of another route ({report.place(other)})'
            report.add_conflict(key, (key, other), problem, "give each route a name of its own")


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
