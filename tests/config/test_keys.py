"""Keys: each becomes its part of the policy, and unknown ones are named with what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.config import ConfigError, parse
from proxy.config.globs import host_regex, name_regex, path_regex
from proxy.core import json_path
from proxy.core.calls import Kind, Outcome
from proxy.core.policy import (
    Address,
    BudgetDefaults,
    Connections,
    Correlation,
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
    OnMissing,
    Policy,
    Protocol,
    Retries,
    Route,
    Share,
    Statuses,
    Tunnel,
    Verify,
    Writes,
)
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from proxy.core.upstream import Upstream
from tests.config.said import faults, places

AUTHORITY = str(Path(__file__).with_name("authority.pem"))


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("mode: observe", Policy(mode=Mode.OBSERVE)),
        (
            'listen: {outbound: 10.1.2.3:1, control: "[::1]:2", metrics: 0.0.0.0:3}',
            Policy(listen=Listen(Address("10.1.2.3", 1), Address("::1", 2), Address("0.0.0.0", 3))),
        ),
        (
            'listen: {inbound: {address: "[::]:10801", app: 127.0.0.1:8080}}',
            Policy(listen=Listen(inbound=Inbound(Address("::", 10801), Address("127.0.0.1", 8080)))),
        ),
        (
            "listen: {inbound: {address: 0.0.0.0:1, app: 10.1.2.3:2, measure_transit: true}}",
            Policy(
                listen=Listen(
                    inbound=Inbound(Address("0.0.0.0", 1), Address("10.1.2.3", 2), measure_transit=True)
                )
            ),
        ),
        (
            """\
budget:
  default: 10s
  on_missing: refuse
  max: 2h
  reserve: 1s
  transit_allowance: 1ms
  hop_allowance: 2ms
  client_timer_margin: 3ms
  correlate: [traceparent, sole]
  width: 8
  depth: 0
  stages: {llm: 5s, slack: 0s, a.b_c-D: 1500ms}
""",
            Policy(
                budget=BudgetDefaults(
                    default=10 * SECOND,
                    on_missing=OnMissing.REFUSE,
                    max=2 * HOUR,
                    reserve=SECOND,
                    transit_allowance=MILLISECOND,
                    hop_allowance=2 * MILLISECOND,
                    client_timer_margin=3 * MILLISECOND,
                    correlate=(Correlation.TRACEPARENT, Correlation.SOLE),
                    width=8,
                    depth=0,
                    stages=(
                        Share("llm", 5 * SECOND),
                        Share("slack", 0),
                        Share("a.b_c-D", 1500 * MILLISECOND),
                    ),
                )
            ),
        ),
        ("budget: {correlate: []}", Policy(budget=BudgetDefaults(correlate=()))),
        ("budget: {stages: }", Policy()),
        ("limit: 256", Policy(limit=256)),
        (
            "ledger: {retention: 1h, budgets: 9, bytes: 1KiB}",
            Policy(ledger=LedgerBounds(retention=HOUR, budgets=9, bytes=1024)),
        ),
        (
            "tunnel: {idle: 1m, quiet: 1s, ports: [443], allow: [a.b], deny: ['*']}",
            Policy(
                tunnel=Tunnel(MINUTE, SECOND, frozenset({443}), allow=(host_regex("a.b"),), deny=(host_regex("*"),))
            ),
        ),
        ("tunnel: {ports: []}", Policy(tunnel=Tunnel(ports=frozenset()))),
        ("subscription: {idle: 1m}", Policy(subscription_idle=MINUTE)),
        ("shutdown: {grace: 0s}", Policy(grace=0)),
        (
            "connections: {max: 9, opening: 8, idle: 7s, proxy: 'http://[fd00::1]:3128', no_proxy: [.SVC, a.b, 10.0.0.0/8, '::1']}",
            Policy(
                connections=Connections(
                    9, 8, 7 * SECOND, Upstream("http", "fd00::1", 3128), (".svc", "a.b", "10.0.0.0/8", "::1")
                )
            ),
        ),
        (
            "writes: {hold_back: {bytes: 1KiB, time: 0ms}, fingerprint_bytes: 2KB, linger: 1s, hold: 2s}",
            Policy(writes=Writes(1024, 0, 2000, SECOND, 2 * SECOND)),
        ),
        (
            "journal: {path: /j, retention: 1h, sync: full, on_failure: continue}",
            Policy(journal=Journal("/j", HOUR, JournalSync.FULL, OnJournalFailure.CONTINUE)),
        ),
        (
            "answers: {refused: 409, cut: 500, shed_late: 503}",
            Policy(statuses=Statuses(refused=409, cut=500, shed_late=503)),
        ),
        ("fallback: {cap: 30s, on_cut: error}", Policy(fallback=Route("fallback", cap=30 * SECOND))),
    ],
)  # fmt: skip
def test_key_becomes_value(text: str, policy: Policy) -> None:
    """Every section outside of the routes, key by key."""
    assert parse(text) == policy


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("match: {}", {}),
        (
            "match: {host: '*.a.b', path: /v1/**, methods: [GET, PROPFIND]}",
            {"match": Match(host_regex("*.a.b"), path_regex("/v1/**"), frozenset({"GET", "PROPFIND"}))},
        ),
        ("prefix: /a, upstream: https://B.c", {"prefix": "/a", "upstream": Upstream("https", "b.c", 443)}),
        (
            "prefix: /a/b, upstream: 'http://b:8/v1/'",
            {"prefix": "/a/b", "upstream": Upstream("http", "b", 8, "/v1")},
        ),
        ("prefix: /a, upstream: 'HTTP://[::1]'", {"prefix": "/a", "upstream": Upstream("http", "::1", 80)}),
        ("tls: originate", {"originate_tls": True}),
        ("propagate: true", {"propagate": True}),
        ("cap: 4s, min_start: 4s", {"cap": 4 * SECOND, "min_start": 4 * SECOND}),
        ("effect: auto", {}),
        ("effect: read", {"effect": Kind.READ}),
        ("guard: none", {"guard": Guard.NONE}),
        ("idempotency: {header: X-Key}", {"idempotency": Idempotency(b"x-key")}),
        ("idempotency: {honoured: true}", {"idempotency": Idempotency(honoured=True)}),
        (
            "protocol: {read_methods: [tools/list], read_tools: ['get_*']}",
            {"protocol": Protocol((name_regex("tools/list"),), (name_regex("get_*"),))},
        ),
        (f"ca: {AUTHORITY}", {"ca": AUTHORITY}),
        ("stage: llm", {"stage": "llm"}),
        ("concurrency: 4, serialize: true", {"concurrency": 4, "serialize": True}),
        ("queue: {size: 0}", {"queue": 0}),
        ("max_attempts: 3", {"max_attempts": 3}),
        ("retries: {}", {"retries": Retries()}),
        ("retries: ", {"retries": Retries()}),
        (
            "retries: {max: 3, on: [504, deadline_exceeded], backoff: {base: 1ms, cap: 2s}, budget: {ratio: 0, floor: 0}}",
            {
                "retries": Retries(
                    max=3,
                    outcomes=frozenset({Outcome.DEADLINE_EXCEEDED}),
                    statuses=frozenset({504}),
                    base=MILLISECOND,
                    cap=2 * SECOND,
                    ratio=0,
                    floor=0,
                )
            },
        ),
        ("verify: {path: /}", {"verify": Verify("/")}),
        (
            "verify: {method: HEAD, path: '/o/{record}', applied: {status: 204}}",
            {"verify": Verify("/o/{record}", "HEAD", 204)},
        ),
        (
            "verify: {path: '/o?key={idempotency_key}', applied: {json: '$.items[0]'}}",
            {"verify": Verify("/o?key={idempotency_key}", json=json_path.parse("$.items[0]"))},
        ),
    ],
)
def test_route_key_becomes_value(text: str, rest: dict[str, Any]) -> None:
    """Every key of a route."""
    assert parse(f"routes: [{{name: a, {text}}}]").routes == (Route("a", **rest),)


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("bugdet: {}", "bugdet", "did you mean budget?"),
        ("budget: {maks: 1h}", "budget.maks", "did you mean max?"),
        ("budget: {Default: 1h}", "budget.Default", "did you mean default?"),
        ("shutdown: {wait: 1s}", "shutdown.wait", "the keys here are grace"),
        ("listen: {outbond: 127.0.0.1:1}", "listen.outbond", "did you mean outbound?"),
        ("routes: [{name: a, math: {}}]", "routes[0].math", "did you mean match?"),
        ("routes: [{name: a, match: {path: /a, hots: b}}]", "routes[0].match.hots", "did you mean host?"),
        ("writes: {hold_back: {byte: 1B}}", "writes.hold_back.byte", "did you mean bytes?"),
        ("42: 1", "42", "the keys here are mode, listen, budget, limit, ledger, routes, fallback, tunnel, egress, subscription, connections, writes, journal, cache, answers, pods and shutdown"),
        ('"a\\nb": 1', "a\\nb", "the keys here are mode, listen, budget, limit, ledger, routes, fallback, tunnel, egress, subscription, connections, writes, journal, cache, answers, pods and shutdown"),
    ],
)  # fmt: skip
def test_unknown_key(text: str, key: str, remedy: str) -> None:
    """A key that nobody reads is a mistake, and most mistakes are near to what was meant."""
    [fault] = faults(text)
    assert (fault.key, fault.problem, fault.remedy) == (key, "is not a key that is known here", remedy)


@pytest.mark.parametrize(
    "key", ["name: a", "match: {}", "prefix: /a", "upstream: http://a", "tls: originate"]
)
def test_fallback_finds_no_calls(key: str) -> None:
    """What no route matches is not looked for."""
    assert [fault.problem for fault in faults(f"fallback: {{{key}}}")] == ["is not a key that is known here"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tunnel: 5m", [(1, "tunnel")]),
        ("routes: {name: a}", [(1, "routes")]),
        ("routes:\n- hello\n-\n- {cap: 1s}\n- [a]", [(2, "routes[0]"), (3, "routes[1].name"), (4, "routes[2].name"), (5, "routes[3]")]),
        ("routes:\n- name: a\n  name: b\n", [(3, "routes[0].name")]),
        ("routes: [{name: fallback}]", [(1, "routes[0].name")]),
        ("routes: [{name: -a}]", [(1, "routes[0].name")]),
        ("routes: [{name: a b}]", [(1, "routes[0].name")]),
        (f"routes: [{{name: {'a' * 65}}}]", [(1, "routes[0].name")]),
        ("listen:\n  outbound: 10800\n  control: localhost:1\n  metrics: 127.0.0.1:0", [(2, "listen.outbound"), (3, "listen.control"), (4, "listen.metrics")]),
        ("listen: {outbound: '::1:5', control: '[127.0.0.1]:5', metrics: ':5'}", [(1, "listen.outbound"), (1, "listen.control"), (1, "listen.metrics")]),
        ("tunnel:\n  ports: [443, 443]\n  allow:\n  - a\n  - A\n", [(2, "tunnel.ports[1]")]),
        ("tunnel:\n  allow:\n  - a\n  - a\n", [(4, "tunnel.allow[1]")]),
        ("tunnel: {ports: [0, 65536, a]}", [(1, "tunnel.ports[0]"), (1, "tunnel.ports[1]"), (1, "tunnel.ports[2]")]),
        ("budget: {correlate: [budget-id, trace]}", [(1, "budget.correlate[1]")]),
        ("listen: {inbound: 127.0.0.1:1}", [(1, "listen.inbound")]),
        ("listen:\n  inbound:\n", [(2, "listen.inbound.address"), (2, "listen.inbound.app")]),
        ("listen:\n  inbound: {address: 0.0.0.0:1}", [(2, "listen.inbound.app")]),
        ("listen:\n  inbound: {app: 8080}", [(2, "listen.inbound.app"), (2, "listen.inbound.address")]),
        ("routes: [{name: a, verify: {}}]", [(1, "routes[0].verify.path")]),
        ("routes: [{name: a, verify: /a}]", [(1, "routes[0].verify")]),
        ("routes: [{name: a, verify: {path: /a, method: POST}}]", [(1, "routes[0].verify.method")]),
        ("routes: [{name: a, retries: 3, queue: 4}]", [(1, "routes[0].retries"), (1, "routes[0].queue")]),
        ("routes: [{name: a, match: {methods: []}}]", [(1, "routes[0].match.methods")]),
        ("routes: [{name: a, match: {methods: [get, 'A B', GET]}}]", [(1, "routes[0].match.methods[0]"), (1, "routes[0].match.methods[1]")]),
        ("routes: [{name: a, idempotency: {header: 'a b', honoured: maybe}}]", [(1, "routes[0].idempotency.header"), (1, "routes[0].idempotency.honoured")]),
        ("connections: {proxy: 'https://a:1', no_proxy: ['*', 10.0.0.1/8, 'a:1', 300.0.0.0/8]}", [(1, "connections.proxy"), *((1, f"connections.no_proxy[{index}]") for index in range(4))]),
        ("connections: {proxy: 'http://a'}", [(1, "connections.proxy")]),
        ("connections: {proxy: 'http://a:1/b'}", [(1, "connections.proxy")]),
        ("connections: {proxy: 'http://u:p@a'}", [(1, "connections.proxy")]),
    ],
)  # fmt: skip
def test_places(text: str, expected: list[tuple[int, str]]) -> None:
    """Every fault of a text is found at once, at its line and key."""
    assert places(text) == expected


@pytest.mark.parametrize(
    "prefix", ["", "a", "/", "/a/", "//a", "/a//b", "/../a", "/a/.", "/a?b", "/a b", "/a%20b"]
)
def test_refused_prefix(prefix: str) -> None:
    """A prefix is whole segments, written as clients send them."""
    assert places(f"routes: [{{name: a, prefix: '{prefix}', upstream: 'http://a'}}]") == [
        (1, "routes[0].prefix")
    ]


@pytest.mark.parametrize(
    "upstream",
    ["", "a", "ftp://a", "http://", "http:///a", "http://u@a", "http://a?b", "http://a/#b", "http://a:0", "http://a:65536", "http://a b", "http://[::g]", "http://*.a", "http://a/../b", "http://-a", "http://ä.de", "//a"],
)  # fmt: skip
def test_refused_upstream(upstream: str) -> None:
    """An upstream is a plain URL of a place."""
    assert places(f"routes: [{{name: a, prefix: /a, upstream: '{upstream}'}}]") == [(1, "routes[0].upstream")]


def test_certificates(tmp_path: Path) -> None:
    """A CA file is tried when the policy is read, and the fault names it."""
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    (tmp_path / "broken.pem").write_text(Path(AUTHORITY).read_text().replace("MII", "AAA"))
    (tmp_path / "empty.pem").touch()
    for path, problem in [
        (tmp_path / "none.pem", "there is no file"),
        (tmp_path, "there is no file"),
        *((tmp_path / f"{name}.pem", "holds no usable certificate") for name in ("key", "broken", "empty")),
    ]:
        [fault] = faults(f"fallback:\n  ca: {path}\n")
        assert (fault.line, fault.key) == (2, "fallback.ca")
        assert str(path)[:60] in fault.problem
        assert problem in fault.problem
    assert places('fallback: {ca: "a\\0b"}') == [(1, "fallback.ca")]


def test_files_elsewhere() -> None:
    """Whoever keeps the policy of other machines has none of their files."""
    assert parse("fallback: {ca: /nowhere/ca.pem}", has_files=False).fallback.ca == "/nowhere/ca.pem"
    with pytest.raises(ConfigError, match="has no value"):
        parse("fallback: {ca: }", has_files=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: x", 'p: mode: "x" is not known here; write enforce or observe'),
        ("budget:\n  reserve: 10s\n  default: 10s", "p: budget.reserve: 10s is not less than budget.default, 10s (given); change one of the two"),
        ("budget: {reserve: 5m}", "p: budget.reserve: 5m is not less than budget.default, 5m (built in); change one of the two"),
        ("tunnel: {ports: [1, 1]}", "p: tunnel.ports[1]: is in the list already; keep one of the two"),
        ("fallback: {retries: {on: [503], retry_on: [503]}}", "p: fallback.retries.on: is given twice (on, retry_on and true are one key); keep one of the two"),
    ],
)  # fmt: skip
def test_faults_without_lines(text: str, said: str) -> None:
    """Where the text was made from something else, nobody can look its lines up."""
    with pytest.raises(ConfigError) as refused:
        parse(text, "p", has_lines=False)
    assert str(refused.value) == said


def test_environment_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent proxy comes from the file only: what a pod sets for its app is not meant for the sidecar."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.setenv(name, "http://elsewhere:1")
    assert parse("").connections == parse("connections: {max: 1024}").connections == Connections()
