"""The policies of a run: the hosts' routes keep their names, and what holds for them is drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from proxy.core.calls import Kind, Outcome
from proxy.core.degrading import CachePolicy, CacheUse, Change, FixedAnswer, RouteCache, Rung
from proxy.core.json_path import parse
from proxy.core.policy import (
    Address,
    BudgetDefaults,
    Connections,
    Guard,
    Idempotency,
    Inbound,
    Journal,
    JournalSync,
    LedgerBounds,
    Listen,
    Match,
    Mode,
    OnJournalFailure,
    Policy,
    Retries,
    Route,
    Share,
    Truncate,
    Verify,
    Writes,
)
from proxy.core.units import MILLISECOND, MINUTE, SECOND
from proxy.core.upstream import Upstream
from trials.simulation.draws import Draws

OUTBOUND: Final = 10800
INBOUND: Final = 10801
CONTROL: Final = 10802
METRICS: Final = 10803
APP: Final = "127.0.0.2"
APP_PORT: Final = 8080
HOSTS: Final = {
    "plain": "10.0.0.11",
    "narrow": "10.0.0.12",
    "serial": "10.0.0.13",
    "again": "10.0.0.14",
    "honoured": "10.0.0.15",
    "few": "10.0.0.16",
    "verified": "10.0.0.17",
    "keyed": "10.0.0.18",
    "open": "10.0.0.19",
    "model": "10.0.0.20",
    "small": "10.0.0.21",
    "far": "203.0.113.9",
}
RETRIED: Final = frozenset({"again", "honoured", "few", "open", "model"})
"""The routes with retries: their cap is that of one attempt."""
ALL_OUTCOMES: Final = frozenset({Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED, Outcome.DEADLINE_EXCEEDED})


def policy_of(draws: Draws, *, like: Policy | None = None) -> Policy:
    """Return a policy. `like`: the one that it takes the place of, whose ports and journal stay as they are."""
    routes = tuple(
        replace(route, match=Match(host=re.compile(f"^{re.escape(name)}$")))
        for name, route in _routes(draws).items()
    )
    default = draws.one_of((2 * SECOND, 20 * SECOND, 5 * MINUTE))
    shared = (Share("retrieval", default * 3 // 10), Share("llm", default // 2))
    stages = shared if draws.happens(0.3) else ()
    policy = Policy(
        mode=draws.weighted({Mode.ENFORCE: 12.0, Mode.OBSERVE: 1.0}),
        listen=Listen(
            outbound=Address("127.0.0.1", OUTBOUND),
            control=Address("127.0.0.1", CONTROL),
            metrics=Address("127.0.0.1", METRICS),
            inbound=Inbound(Address("127.0.0.1", INBOUND), Address(APP, APP_PORT)),
        ),
        budget=BudgetDefaults(
            default=default,
            reserve=draws.one_of((0, 0, 50 * MILLISECOND)),
            width=draws.one_of((None, None, 1, 2)),
            stages=stages,
            carry=bool(stages) and draws.happens(0.5),
            client_timer_margin=draws.one_of((0, 50 * MILLISECOND)),
        ),
        limit=draws.one_of((None, None, None, 3, 8)),
        ledger=draws.one_of((LedgerBounds(), LedgerBounds(retention=SECOND))),
        routes=routes,
        writes=Writes(
            hold_back_bytes=draws.one_of((100, 1_000_000, 1_000_000)),
            hold_back_time=draws.one_of((5 * MILLISECOND, 250 * MILLISECOND)),
            fingerprint_bytes=draws.one_of((30, 1_000_000, 1_000_000)),
            linger=draws.one_of((0, 50 * MILLISECOND, 3 * SECOND)),
            hold=draws.one_of((4 * SECOND, 15 * MINUTE, 15 * MINUTE)),
        ),
        journal=Journal(
            sync=draws.one_of((JournalSync.NORMAL, JournalSync.FULL)),
            on_failure=draws.weighted({OnJournalFailure.REFUSE: 4.0, OnJournalFailure.CONTINUE: 1.0}),
        ),
        connections=Connections(
            max=draws.one_of((2, 16, 1024)),
            opening=draws.one_of((1, 64)),
            idle=draws.one_of((200 * MILLISECOND, 3 * SECOND)),
        ),
        cache=CachePolicy(bytes=draws.one_of((2_000, 1_000_000))),
        grace=draws.one_of((300 * MILLISECOND, 5 * SECOND)),
    )
    return policy if like is None else replace(policy, listen=like.listen, journal=like.journal)


def _routes(draws: Draws) -> dict[str, Route]:
    again = Retries(
        max=draws.between(1, 3),
        outcomes=draws.one_of((ALL_OUTCOMES, frozenset({Outcome.CONNECT_FAILED}))),
        statuses=draws.one_of((frozenset({503}), frozenset())),
        base=draws.span(MILLISECOND, 300 * MILLISECOND),
        ratio=draws.one_of((20, 100)),
    )
    cap = draws.span(20 * MILLISECOND, 5 * SECOND)
    stall = draws.one_of((None, draws.span(50 * MILLISECOND, 5 * SECOND)))
    return {
        "plain": Route("plain", cap=stall),
        "narrow": Route("narrow", concurrency=draws.between(1, 2), queue=draws.between(0, 4)),
        "serial": Route("serial", serialize=True, min_start=10 * MILLISECOND, cap=stall),
        "again": Route("again", retries=again, cap=cap, concurrency=draws.one_of((None, 2))),
        "honoured": Route("honoured", retries=again, cap=cap, idempotency=Idempotency(honoured=True)),
        "few": Route("few", max_attempts=draws.between(1, 3), retries=again, serialize=draws.happens(0.5)),
        "verified": Route("verified", verify=Verify("/verify/{idempotency_key}"), cap=cap),
        "keyed": Route("keyed", guard=Guard.KEY, cap=stall),
        "open": Route("open", guard=Guard.NONE, cap=cap, retries=again),
        "model": _model(draws, again),
    }


def _model(draws: Draws, again: Retries) -> Route:
    """Return the route with ways to answer with less."""
    rungs = [Rung("full", 100 * MILLISECOND)]
    if draws.happens(0.7):
        rungs.append(Rung("fast", 50 * MILLISECOND, change=Change(json=((parse("$.model"), '"fast"'),))))
    if draws.happens(0.5):
        rungs.append(Rung("minimal", 20 * MILLISECOND, upstream=Upstream("http", "small", 80)))
    if draws.happens(0.5):
        rungs.append(Rung("cached", 5 * MILLISECOND, cache=CacheUse()))
    if draws.happens(0.5):
        rungs.append(Rung("sorry", answer=FixedAnswer(503, "text/plain", b"sorry")))
    stale = draws.one_of((0, SECOND))
    return Route(
        "model",
        effect=Kind.READ,
        ladder=tuple(rungs) if draws.happens(0.8) else (),
        cache=draws.one_of(
            (None, RouteCache(ttl=2 * SECOND, first=draws.happens(0.5), stale_if_error=stale))
        ),
        truncate=draws.one_of((None, Truncate(margin=10 * MILLISECOND))),
        retries=draws.one_of((None, again)),
        degraded_body=draws.happens(0.3),
    )
