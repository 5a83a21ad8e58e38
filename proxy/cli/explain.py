"""`waterclock explain`: what would happen to a call, and why, without sending it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.cli.policy_file import config_option, load_or_exit

if TYPE_CHECKING:
    from proxy.cli.explain_ladder import Stands
    from proxy.core.policy import Policy
    from proxy.core.reasons import Reason
    from proxy.dataplane.consider import Considered
    from proxy.wire.events import RequestHead


@click.command()
@config_option
@click.argument("method")
@click.argument("url")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A header of the call; repeatable.",
)
def explain(config: Path | None, method: str, url: str, headers: tuple[str, ...]) -> None:
    """Say what would happen to the call METHOD URL, and why. Nothing is sent.

    URL is what the client asks its proxy for, or, for a base-URL route, the path under its prefix. Ends with status 0
    when the call would be started, or answered by a rung of its route's ladder, 1 when it would be refused, 2 when the
    question itself is malformed.

    \b
    Examples:
      waterclock explain -c waterclock.yaml GET http://search.internal/v1/find
      waterclock explain -c waterclock.yaml POST /openai/v1/chat/completions -H 'Budget-Remaining-Ms: 800'
      waterclock explain CONNECT api.example.com:443
    """
    policy = load_or_exit(config)
    case = _considered(policy, _head(policy, method, url, headers))
    on = _ladder(case)
    for name, value in _findings(policy, case, on):
        click.echo(f"{name + ':':<12} {value}")
    sys.exit(1 if _refusal(case, on) is not None else 0)


def _head(policy: Policy, method: str, url: str, headers: tuple[str, ...]) -> RequestHead:
    """Return the head that a client would send, as the wire layer reads it; end with status 2 when it would not."""
    from proxy.wire.events import RequestHead, WireFault
    from proxy.wire.parser import RequestParser

    lines = [f"{method.upper()} {url} HTTP/1.1", *headers]
    if not any(line.lower().startswith("host:") for line in headers):
        absolute = url.partition("://")[2].partition("/")[0].partition("?")[0]
        lines.insert(
            1, f"Host: {absolute or (url if method.upper() == 'CONNECT' else policy.listen.outbound)}"
        )
    events = RequestParser().feed("\r\n".join([*lines, "", ""]).encode("utf-8"))
    for event in events:
        if isinstance(event, RequestHead):
            return event
        if isinstance(event, WireFault):
            click.echo(f"400: {event.detail}", err=True)
            sys.exit(2)
    click.echo("That is no whole request head: a header must be 'Name: value'.", err=True)
    sys.exit(2)


def _considered(policy: Policy, head: RequestHead) -> Considered:
    from proxy.core.ledger import Ledger
    from proxy.core.routing import Router
    from proxy.dataplane.consider import consider
    from proxy.dataplane.tunnel import consider_tunnel
    from proxy.net.own import OwnPorts

    listen = policy.listen
    own = OwnPorts((listen.outbound.port, listen.control.port, listen.metrics.port))
    look = consider_tunnel if head.method == "CONNECT" else consider
    return look(policy, Router(policy), Ledger(), own, head, None, 0, "(made for this call)")


def _ladder(case: Considered) -> Stands | None:
    from proxy.cli.explain_ladder import stands

    return stands(case)


def _refusal(case: Considered, on: Stands | None) -> tuple[Reason, str] | None:
    """Return why the call is refused, with its sentence; None when it is not, since a rung fits if nothing else does."""
    from proxy.core.reasons import Reason

    decision = case.decision
    if on is not None:
        if on.choice is not None:
            return None
        if decision.refusal is None:
            return (
                Reason.BELOW_MIN_START,
                f"No rung of the ladder of route {case.route.name!r} fits what is left.",
            )
    return None if decision.refusal is None else (decision.refusal, decision.detail)


def _findings(policy: Policy, case: Considered, on: Stands | None) -> list[tuple[str, str]]:
    """Return what was found, as rows for a person."""
    from proxy.cli.explain_ladder import decision_rows, rung_rows
    from proxy.core.units import exact_ms

    decision, refusal = case.decision, _refusal(case, on)
    rows: list[tuple[str, str]] = []
    if case.sendable:
        rows += [
            ("target", case.target.shown),
            ("connects to", str(case.target.origin)),
            ("route", case.route.name),
        ]
    rows.append(("kind", _kind(case)))
    if case.subscription:
        rows.append(("budget", "none: a subscription, closed after subscription.idle without data"))
    elif case.budget is not None and decision.remaining is not None:
        rows.append(("budget", f"{case.budget.id}, {exact_ms(decision.remaining):g} ms left"))
    allowed = decision.allowance.ns
    if decision.refusal is None or on is not None:
        limit = "no limit" if allowed is None else f"{exact_ms(allowed):g} ms ({decision.allowance.bound})"
        rows.append(("allowed", limit + (", each attempt at most its cap" if case.route.retries else "")))
    rows += _less(case)
    if on is not None:
        rows += rung_rows(case, on)
    if refusal is not None:
        return rows + _refused(policy, case, *refusal)
    waits = _waits(policy, case)
    if waits and (on is None or (on.choice is not None and not on.choice.rung.local)):
        rows.append(("turn", f"waits for it at {', '.join(waits)}"))
    return rows + ([("decision", "start")] if on is None else decision_rows(policy, case, on))


def _refused(policy: Policy, case: Considered, reason: Reason, detail: str) -> list[tuple[str, str]]:
    from proxy.core.calls import Effect, Outcome, Phase
    from proxy.core.reasons import case_of, row_of, status_of

    answer = case_of(Outcome.REFUSED, reason, case.kind, Phase.NOT_SENT, Effect.NONE)
    status = status_of(answer, policy.statuses)
    rows = [("decision", f"refuse: {reason}, answered {status}"), ("why", detail)]
    if policy.mode == "observe" and case.sendable:
        would = "degrade" if case.decision.refusal is None else "refuse"
        rows.append(("mode", f"observe: it would be let pass, and recorded with would={would}"))
    return [*rows, ("next", row_of(answer, reason).next)]


def _less(case: Considered) -> list[tuple[str, str]]:
    """Return what its route does for it besides a ladder: the cache before all else, a stream that is closed in time."""
    from proxy.core.calls import Kind
    from proxy.core.units import exact_ms

    rows = []
    cache, truncate = case.route.cache, case.route.truncate
    if cache is not None and cache.first and case.kind is Kind.READ and not case.subscription:
        rows.append(("cache", "asked first: what is fresh there is given, and nothing is sent"))
    if truncate is not None:
        margin = f"{exact_ms(truncate.margin):g} ms before the end of what it is allowed"
        rows.append(("on cut", f"a stream of a known dialect is closed {margin}"))
    return rows


def _waits(policy: Policy, case: Considered) -> list[str]:
    """Return what may make the call wait for its turn. Who is in flight just now is not asked here."""
    from proxy.core.calls import Kind

    route = case.route
    found = [
        ("limit", policy.limit),
        ("budget.width", policy.budget.width),
        (f"concurrency of {route.name}", route.concurrency),
        (f"serialize of {route.name}", 1 if route.serialize and case.kind is Kind.WRITE else None),
    ]
    return [f"{name} ({most})" for name, most in found if most is not None]


def _kind(case: Considered) -> str:
    from proxy.core.calls import Kind

    if case.kind is not Kind.WRITE:
        return str(case.kind)
    return (
        f"write, unless its body shows a read (GraphQL, JSON-RPC); guard: {case.route.guard} (not asked here)"
    )
