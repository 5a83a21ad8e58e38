"""The JSON of what is shown, the same for the API and for the command line."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from proxy.admin import views
from proxy.admin.views import policy_view, write_view
from proxy.config import parse
from proxy.core import degrading, json_path
from proxy.core import policy as policies
from proxy.core.calls import Outcome
from proxy.core.policy import (
    Address,
    BudgetDefaults,
    Connections,
    Correlation,
    Idempotency,
    Inbound,
    Listen,
    Match,
    Policy,
    Retries,
    Route,
    Share,
    Verify,
)
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.upstream import Upstream
from proxy.core.writes import LateAnswer, WriteState
from tests.admin.writes import ANSWER, NOW_MS, UNCERTAIN, write

ROOT = Path(__file__).parent.parent.parent


def test_write_in_doubt() -> None:
    """All that is known, with its age and what to do next."""
    shown = write_view(UNCERTAIN, NOW_MS)
    assert json.loads(json.dumps(shown)) == shown
    sentence = shown.pop("next")
    assert "resolve" in sentence
    assert shown == {
        "id": "w1",
        "state": "uncertain",
        "opened_at": "2026-01-02T03:02:35.178Z",
        "age_ms": 90_500,
        "method": "POST",
        "target": "https://api.example.com/v1/orders?dry=…",
        "origin": "https://api.example.com:443",
        "route": "orders",
        "budget_id": "run-42",
        "step": 3,
        "unit": "k-1",
        "idempotency_key": "k-1",
        "fingerprint": "f" * 64,
        "attempts": 1,
        "phase": "sent",
        "reason": "route_cap",
        "resolved_by": "",
        "settled_at": None,
        "answer": None,
    }


@pytest.mark.parametrize("state", WriteState)
def test_every_state_says_what_comes_next(state: WriteState) -> None:
    """No record leaves its reader wondering."""
    assert write_view(write("w", state=state), NOW_MS)["next"].endswith(".")


def test_record_from_the_future_has_no_age() -> None:
    """Where the wall clock was set back, an age is zero and not negative."""
    assert write_view(write("w", opened_at=NOW_MS + 5), NOW_MS)["age_ms"] == 0


@pytest.mark.parametrize(
    "body", [b"", b"made", "grün, 漢\0\x1b[31m".encode(), b"\xff\xfe", bytes(range(256))]
)
def test_late_answer_keeps_its_body(body: bytes) -> None:
    """As text where it is UTF-8, else in base64; either way the bytes can be had back."""
    record = write(
        "w", state=WriteState.REPORTED, answer=dataclasses.replace(ANSWER, body=body, bytes=len(body))
    )
    answer = json.loads(json.dumps(write_view(record, NOW_MS)))["answer"]
    packed = answer["body_encoding"] == "base64"
    assert (base64.b64decode(answer["body"]) if packed else answer["body"].encode()) == body
    assert (answer["status"], answer["elapsed_ms"], answer["truncated"]) == (201, 12_345.6, False)
    assert answer["headers"] == [["content-type", "text/plain"], ["x-two", "a"], ["x-two", "b"]]


def test_late_answer_that_was_kept_in_part() -> None:
    """Nobody takes a part of it for the whole."""
    record = write("w", answer=LateAnswer(200, (), b"abc", 1000, 1.0))
    answer = write_view(record, NOW_MS)["answer"]
    assert (answer["body"], answer["bytes"], answer["truncated"]) == ("abc", 1000, True)
    assert "body" not in write_view(record, NOW_MS, body=False)["answer"]


def test_policy_reads_like_its_file() -> None:
    """Spans with units, addresses and upstreams in one piece, patterns and sets as text."""
    policy = Policy(
        listen=Listen(
            control=Address("::1", 1), inbound=Inbound(Address("0.0.0.0", 10801), Address("::1", 8080))
        ),
        budget=BudgetDefaults(
            default=90 * SECOND,
            reserve=0,
            correlate=(Correlation.TRACEPARENT,),
            stages=(Share("llm", 5500 * MILLISECOND), Share("slack", 0)),
        ),
        routes=(
            Route(
                "orders",
                match=Match(host=re.compile("a.*"), methods=frozenset({"PUT", "GET"})),
                upstream=Upstream("https", "api.example.com", 443, "/v1"),
                cap=1500 * MILLISECOND,
                idempotency=Idempotency(b"x-key", honoured=True),
                retries=Retries(
                    outcomes=frozenset({Outcome.UPSTREAM_FAILED, Outcome.CONNECT_FAILED}),
                    statuses=frozenset({504, 503}),
                ),
                verify=Verify("/orders?key={idempotency_key}", json=json_path.parse("$.items[0]")),
            ),
        ),
    )
    shown = policy_view(policy)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["mode"] == "enforce"
    assert shown["listen"]["control"] == "[::1]:1"
    assert shown["listen"]["inbound"] == {
        "address": "0.0.0.0:10801",
        "app": "[::1]:8080",
        "measure_transit": False,
    }
    assert shown["budget"]["stages"] == [{"stage": "llm", "span": "5500ms"}, {"stage": "slack", "span": "0s"}]
    assert shown["budget"]["default"] == "90s"
    assert shown["budget"]["reserve"] == "0s"
    assert shown["budget"]["correlate"] == ["traceparent"]
    (route,) = shown["routes"]
    assert route["match"] == {"host": "a.*", "path": None, "methods": ["GET", "PUT"]}
    assert route["upstream"] == "https://api.example.com/v1"
    assert route["cap"] == "1500ms"
    assert route["idempotency"] == {"header": "x-key", "honoured": True}
    assert route["retries"] == {
        "max": 2,
        "outcomes": ["connect_failed", "upstream_failed"],
        "statuses": [503, 504],
        "base": "50ms",
        "cap": "1s",
        "ratio": 20,
        "floor": 10,
    }
    assert route["verify"] == {
        "path": "/orders?key={idempotency_key}",
        "method": "GET",
        "status": 200,
        "json": "$.items[0]",
    }
    assert shown["ledger"] == {"retention": "15m", "budgets": 20_000, "bytes": 16 * 1024 * 1024}
    assert shown["writes"]["hold_back_bytes"] == 1024 * 1024


@pytest.mark.parametrize(
    ("upstream", "url"),
    [
        (Upstream("http", "proxy.corp", 3128), "http://proxy.corp:3128"),
        (Upstream("http", "::1", 80), "http://[::1]"),
        (Upstream("https", "::1", 8443, "/a"), "https://[::1]:8443/a"),
    ],
)
def test_upstream_is_shown_as_a_url(upstream: Upstream, url: str) -> None:
    """A port that the scheme implies is left out."""
    assert policy_view(Policy(connections=Connections(proxy=upstream)))["connections"]["proxy"] == url


LADDER = """
routes:
- name: chat
  effect: read
  on_cut: truncate
  cache: {ttl: 1h, ignore: [$.user], stale_if_error: 90s}
  ladder:
  - {name: full, needs: auto}
  - name: small
    needs: 1500ms
    upstream: http://small.svc
    credentials: true
    set: {json: {$.model: small, "$['a b']": [1, null]}, headers: {Authorization: Bearer s3cret}, query: {key: s3cret}}
  - {name: cached, cache: {semantic: 0.92, text: $.q}}
  - {name: sorry, answer: {status: 503, json: {message: später}, headers: {Retry-After: "3"}}}
cache: {store: "rediss://me:s3cret@valkey:6379/0", service: "http://cache:1"}
"""


def test_a_ladder_reads_like_its_file() -> None:
    """With names, needs and places; of what is set in headers and queries the names only, since a key may be among it."""
    shown = policy_view(parse(LADDER))
    assert json.loads(json.dumps(shown)) == shown
    assert "s3cret" not in json.dumps(shown)
    (route,) = shown["routes"]
    assert [(rung["name"], rung["needs"]) for rung in route["ladder"]] == [
        ("full", "auto"),
        ("small", "1500ms"),
        ("cached", "0s"),
        ("sorry", "0s"),
    ]
    _, small, cached, sorry = route["ladder"]
    assert small == {
        "name": "small",
        "needs": "1500ms",
        "change": {
            "json": {"$.model": "small", "$['a b']": [1, None]},
            "headers": {"authorization": "(hidden)"},
            "query": {"key": "(hidden)"},
        },
        "upstream": "http://small.svc",
        "credentials": True,
        "cache": None,
        "answer": None,
    }
    assert cached["cache"] == {"exact": True, "semantic": 0.92, "text": "$.q"}
    assert sorry["answer"] == {
        "status": 503,
        "content_type": "application/json",
        "body": '{"message":"später"}',
        "headers": {"retry-after": "3"},
    }
    assert route["cache"]["ttl"] == "1h"
    assert route["cache"]["ignore"] == ["$.user"]
    assert route["cache"]["stale_if_error"] == "90s"
    assert route["truncate"] == {"margin": "200ms", "mark": "[response truncated]"}
    assert shown["cache"] == {
        "bytes": 32 * 1024 * 1024,
        "entry_bytes": 1024 * 1024,
        "store": "rediss://(hidden)@valkey:6379/0",
        "service": "http://cache:1",
        "timeout": "50ms",
    }


def test_credentials_are_hidden() -> None:
    """Of whatever field says by its name that it holds some, and in any URL."""

    @dataclasses.dataclass
    class Parent:
        url: str = "http://me:s3cret@proxy.corp:3128/me@x"
        password: str = "s3cret"
        proxy_authorization: bytes = b"Basic s3cret"
        user: str | None = None

    @dataclasses.dataclass
    class Future:
        parent: Parent = dataclasses.field(default_factory=Parent)
        items: tuple[str, ...] = ("https://s3cret@x",)

    shown = policy_view(typing.cast(Policy, Future()))
    assert "s3cret" not in json.dumps(shown)
    assert shown["parent"]["url"] == "http://(hidden)@proxy.corp:3128/me@x"
    assert shown["parent"]["user"] is None


@pytest.mark.skipif(
    not policies.__file__.endswith(".py"), reason="a compiled class forgets annotations like `int | None`"
)
def test_every_integer_of_the_policy_is_a_span_or_known_to_be_none() -> None:
    """A new field of the policy is shown in nanoseconds unless somebody has said what it is."""
    numbers = {
        "Address.port",
        "Upstream.port",
        "BudgetDefaults.width",
        "BudgetDefaults.depth",
        "LedgerBounds.budgets",
        "LedgerBounds.bytes",
        "Retries.max",
        "Retries.statuses",
        "Retries.ratio",
        "Retries.floor",
        "Verify.status",
        "Route.concurrency",
        "Route.queue",
        "Route.max_attempts",
        "Policy.limit",
        "Writes.hold_back_bytes",
        "Writes.fingerprint_bytes",
        "Connections.max",
        "Connections.opening",
        "CachePolicy.bytes",
        "CachePolicy.entry_bytes",
        "FixedAnswer.status",
    }
    found = set()
    for name, kind in (vars(policies) | vars(degrading)).items():
        if dataclasses.is_dataclass(kind) and isinstance(kind, type) and name != "Statuses":
            hints = typing.get_type_hints(kind)
            found |= {f"{name}.{field}" for field, hint in hints.items() if _holds_integer(hint)}
    assert found == views.NANOSECONDS | numbers


def _holds_integer(hint: Any) -> bool:
    return hint is int or int in typing.get_args(hint)


def test_views_need_no_http_server() -> None:
    """The command line prints with them, and must not load aiohttp for it."""
    code = "import sys, proxy.admin.views; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    assert {"aiohttp", "prometheus_client", "asyncio"}.isdisjoint(loaded.stdout.split())
