"""`waterclock explain`: what would happen to a call, and why, without sending it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.cli.policy_file import config_option, load_or_exit

if TYPE_CHECKING:
    from proxy.core.policy import Policy
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
    when the call would be started, 1 when it would be refused, 2 when the question itself is malformed.

    \b
    Examples:
      waterclock explain -c waterclock.yaml GET http://search.internal/v1/find
      waterclock explain -c waterclock.yaml POST /openai/v1/chat/completions -H 'Budget-Remaining-Ms: 800'
      waterclock explain CONNECT api.example.com:443
    """
    policy = load_or_exit(config)
    case = _considered(policy, _head(policy, method, url, headers))
    refused = case.decision.refusal is not None
    for name, value in _findings(policy, case):
        click.echo(f"{name + ':':<12} {value}")
    sys.exit(1 if refused else 0)


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


def _findings(policy: Policy, case: Considered) -> list[tuple[str, str]]:
    """Return what was found, as rows for a person."""
    from proxy.core.calls import Effect, Outcome, Phase
    from proxy.core.reasons import case_of, row_of, status_of
    from proxy.core.units import exact_ms

    decision = case.decision
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
    if decision.refusal is None:
        allowed = decision.allowance.ns
        limit = "no limit" if allowed is None else f"{exact_ms(allowed):g} ms ({decision.allowance.bound})"
        rows.append(("allowed", limit + (", each attempt at most its cap" if case.route.retries else "")))
        waits = _waits(policy, case)
        if waits:
            rows.append(("turn", f"waits for it at {', '.join(waits)}"))
        rows.append(("decision", "start"))
        return rows
    answer = case_of(Outcome.REFUSED, decision.refusal, case.kind, Phase.NOT_SENT, Effect.NONE)
    status = status_of(answer, policy.statuses)
    rows += [("decision", f"refuse: {decision.refusal}, answered {status}"), ("why", decision.detail)]
    if policy.mode == "observe" and case.sendable:
        rows.append(("mode", "observe: it would be let pass, and recorded with would=refuse"))
    rows.append(("next", row_of(answer, decision.refusal).next))
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
