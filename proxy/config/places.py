"""What a policy says of places twice: those that it names itself may not be among those that it denies, and the control
API may not stand where others reach it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from proxy.config.reading import Report
from proxy.core.degrading import Rung
from proxy.core.policy import Policy
from proxy.core.target import split_authority


def find_misplaced(policy: Policy, report: Report) -> None:
    """Add a fault to the report for each place that cannot be what it is given as."""
    control = policy.listen.control
    if not ipaddress.ip_address(control.host).is_loopback:
        problem = (
            f"{control} can be reached from outside the pod, and whoever reaches it decides about writes"
        )
        remedy = f"write 127.0.0.1:{control.port}; from elsewhere it is reached with kubectl port-forward"
        report.add_conflict("listen.control", ("listen.control",), problem, remedy)
    for key, host in _named(policy):
        if denied := policy.egress.denies_host(host):
            entry = denied[denied.rindex("(") + 1 : denied.rindex(")")]
            problem = f"leads to {host}, which egress.deny denies ({entry}, {report.place('egress.deny')})"
            report.add_conflict(
                key, (key, "egress.deny"), problem, "name another place, or take that entry out"
            )


def _named(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield the key and the host of each place that calls of the policy's own making would lead to."""
    for at, route in ((f"routes[{index}]", route) for index, route in enumerate(policy.routes)):
        if route.upstream is not None:
            yield f"{at}.upstream", route.upstream.host
        yield from _rungs(at, route.ladder)
    yield from _rungs("fallback", policy.fallback.ladder)
    if policy.cache.service is not None:
        yield "cache.service", policy.cache.service.host
    if policy.cache.store is not None:
        authority = policy.cache.store.partition("://")[2].rpartition("@")[2].partition("/")[0]
        yield "cache.store", split_authority(authority, 1)[0]


def _rungs(at: str, ladder: tuple[Rung, ...]) -> Iterator[tuple[str, str]]:
    for index, rung in enumerate(ladder):
        if rung.upstream is not None:
            yield f"{at}.ladder[{index}].upstream", rung.upstream.host
