"""Keys that are fine alone and not together: each pair is found, and only when both are what the file means."""

from __future__ import annotations

import time

import pytest

from tests.config.said import faults, places


def one(text: str) -> str:
    """The one fault of a text."""
    [fault] = faults(text)
    return str(fault).removeprefix("waterclock.yaml:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget:\n  reserve: 10s\n  default: 10s", "2: budget.reserve: 10s is not less than budget.default, 10s (line 3); change one of the two"),
        ("budget: {reserve: 5m}", "1: budget.reserve: 5m is not less than budget.default, 5m (built in); change one of the two"),
        ("budget:\n  default: 2h", "2: budget.default: 2h is more than budget.max, 1h (built in); change one of the two"),
        ("budget:\n  max: 1m", "2: budget.max: 1m is less than budget.default, 5m (built in); change one of the two"),
        ("budget:\n  on_missing: refuse\n  reserve: 1h", "3: budget.reserve: 1h is not less than budget.max, 1h (built in); change one of the two"),
        ("budget: {on_missing: refuse, reserve: 90s, default: 1m}", "1: budget.reserve: 90s is not less than budget.default, 1m (line 1); change one of the two"),
        ("writes:\n  hold: 25h", "2: writes.hold: 25h is more than journal.retention, 24h (built in); change one of the two"),
        ("journal:\n  retention: 5m", "2: journal.retention: 5m is less than writes.hold, 15m (built in); change one of the two"),
        ("connections:\n  opening: 9\n  max: 8", "2: connections.opening: 9 is more than connections.max, 8 (line 3); change one of the two"),
        ("budget:\n  default: 1s\n  stages: {a: 600ms, slack: 500ms}", "3: budget.stages: the shares come to 1100ms in all, more than budget.default, 1s (line 2); take 100ms off them, or raise budget.default"),
        ("budget:\n  stages: {a: 5m, b: 1s}", "2: budget.stages: the shares come to 301s in all, more than budget.default, 5m (built in); take 1s off them, or raise budget.default"),
        ("budget:\n  on_missing: pass\n  stages: {a: 61m}", "3: budget.stages: the shares come to 61m in all, more than budget.max, 1h (built in); take 1m off them, or raise budget.max"),
        ("fallback:\n  min_start: 2s\n  cap: 1s", "2: fallback.min_start: 2s is more than fallback.cap, 1s (line 3); change one of the two"),
        ("listen:\n  outbound: 127.0.0.1:10803", "2: listen.outbound: port 10803 is that of listen.metrics too (built in); give each listener a port of its own"),
        ("listen:\n  metrics: 10.0.0.1:1\n  control: 127.0.0.1:1", "2: listen.metrics: port 1 is that of listen.control too (line 3); give each listener a port of its own"),
        ("listen:\n  inbound: {address: 10.0.0.1:10802, app: 127.0.0.1:1}", "2: listen.inbound.address: port 10802 is that of listen.control too (built in); give each listener a port of its own"),
        ("listen:\n  inbound:\n    address: 0.0.0.0:8080\n    app: 127.0.0.1:8080", "4: listen.inbound.app: 127.0.0.1:8080 leads back to the sidecar, whose listen.inbound.address has that port (line 3); write the address and port that the app itself listens on"),
        ("listen: {inbound: {address: 0.0.0.0:1, app: '[::1]:10800'}}", "1: listen.inbound.app: [::1]:10800 leads back to the sidecar, whose listen.outbound has that port (built in); write the address and port that the app itself listens on"),
        ("listen: {inbound: {address: 0.0.0.0:1, app: 0.0.0.0:10803}}", "1: listen.inbound.app: 0.0.0.0:10803 leads back to the sidecar, whose listen.metrics has that port (built in); write the address and port that the app itself listens on"),
        ("listen: {outbound: 10.0.0.1:5, inbound: {address: 0.0.0.0:1, app: 10.0.0.1:5}}", "1: listen.inbound.app: 10.0.0.1:5 leads back to the sidecar, whose listen.outbound has that port (line 1); write the address and port that the app itself listens on"),
    ],
)  # fmt: skip
def test_amounts_and_ports(text: str, said: str) -> None:
    """One amount may not pass another; the fault stands at a key that is given, and says where the other one is."""
    assert one(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "budget: {default: 1h}",
        "budget: {on_missing: refuse, reserve: 10m}",
        "budget: {on_missing: pass, max: 1m}",
        "connections: {max: 8}",
        "fallback: {min_start: 1s, cap: 1s}",
        "fallback: {min_start: 1h}",
        "writes: {hold: 24h}",
        "listen: {outbound: 127.0.0.1:10802, control: 127.0.0.1:10800}",
        "fallback: {effect: write, guard: key, idempotency: {}}",
        "fallback: {guard: key}",
        "budget: {default: 1s, stages: {a: 999ms, slack: 1ms}}",
        "budget: {on_missing: refuse, stages: {a: 1h}}",
        "budget: {correlate: [sole]}",
        "listen: {inbound: {address: 0.0.0.0:1, app: 10.0.0.9:10800}}",
        "listen: {inbound: {address: 0.0.0.0:1, app: 127.0.0.1:2}}",
        "fallback: {stage: anything}",
        "budget: {stages: {a: 1s}}\nfallback: {stage: a}",
        "fallback: {serialize: true, concurrency: 4, effect: write}",
        "fallback: {serialize: false, effect: read}",
        "fallback: {max_attempts: 3, retries: {max: 2}}",
        "fallback: {max_attempts: 1}",
        "fallback: {retries: {backoff: {base: 1s, cap: 1s}}}",
        "fallback: {retries: {on: [503, connect_failed]}, effect: write}",
        "fallback: {retries: {on: [deadline_exceeded]}, effect: write}",
        "fallback: {retries: {on: [503]}, effect: write, idempotency: {honoured: true}}",
        "fallback: {retries: {on: [503]}}",
        "fallback: {verify: {path: /a}, effect: write, guard: none}",
        "fallback: {verify: {path: /a, method: HEAD}}",
    ],
)
def test_no_contradiction(text: str) -> None:
    """What is allowed at the edge, and what only looks like a contradiction."""
    assert faults(text) == []


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("prefix: /a", "3: routes[0].prefix: stands without an upstream; add the upstream that the rest of the path is sent on to"),
        ("upstream: http://a", "3: routes[0].upstream: stands without a prefix; add the prefix of the paths that are sent on to it"),
        ("tls: originate\n  prefix: /a\n  upstream: http://a", "3: routes[0].tls: stands beside an upstream (line 5), whose scheme says already whether it is TLS; take one of the two out"),
        ("prefix: /a\n  upstream: http://a\n  match: {host: b}", "5: routes[0].match.host: is not looked at beside a prefix (line 3); take one of the two out"),
        ("prefix: /a\n  upstream: http://a\n  match: {path: /b}", "5: routes[0].match.path: is not looked at beside a prefix (line 3); take one of the two out"),
        ("prefix: /a\n  upstream: http://a\n  ca: tests/config/authority.pem", "5: routes[0].ca: is for TLS, and the upstream (line 4) is plain http; write https:// there, or take the key out"),
        ("effect: write\n  guard: key", "4: routes[0].guard: key knows no repeat of these writes (line 3): no header is said to carry a key; add idempotency: {header: ...}, or write guard: fingerprint"),
        ("cap: 1s\n  min_start: 1500ms", "4: routes[0].min_start: 1500ms is more than routes[0].cap, 1s (line 3); change one of the two"),
        ("serialize: true\n  effect: read", "3: routes[0].serialize: is for writes, and these calls only read (line 4); take it out; concurrency: 1 is for reads that must not meet"),
        ("max_attempts: 3\n  retries: {max: 3}", "3: routes[0].max_attempts: 3 is less than the first attempt and the 3 of routes[0].retries.max (line 4); write 4 or more, or a smaller retries.max"),
        ("max_attempts: 1\n  retries: {}", "3: routes[0].max_attempts: 1 is less than the first attempt and the 2 of routes[0].retries.max (built in); write 3 or more, or a smaller retries.max"),
        ("retries:\n    backoff: {base: 2s}", "4: routes[0].retries.backoff.base: 2s is more than routes[0].retries.backoff.cap, 1s (built in); change one of the two"),
        ("retries:\n    backoff: {cap: 1ms}", "4: routes[0].retries.backoff.cap: 1ms is less than routes[0].retries.backoff.base, 50ms (built in); change one of the two"),
        ("effect: write\n  retries:\n    on: [503, upstream_failed]", "5: routes[0].retries.on: is of no use for these writes (line 3): they are tried again only while nothing is sent; add connect_failed, or say that keys are honoured: idempotency: {honoured: true}"),
        ("effect: read\n  verify: {path: /a}", "4: routes[0].verify: asks about writes in doubt, and these calls are safe to repeat (line 3); take one of the two out"),
        ("effect: idempotent\n  verify: {path: /a}", "4: routes[0].verify: asks about writes in doubt, and these calls are safe to repeat (line 3); take one of the two out"),
        ("verify:\n    path: /a\n    method: HEAD\n    applied: {json: $}", "6: routes[0].verify.applied.json: looks into a body, and the answer to a HEAD (line 5) has none; write method: GET, or take json out"),
    ],
)  # fmt: skip
def test_route(
    route: str, said: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one route, with the line of the other key."""
    monkeypatch.chdir(request.config.rootpath)
    assert one(f"routes:\n- name: a\n  {route}\n") == said


@pytest.mark.parametrize(
    ("stage", "remedy"),
    [("lmm", "did you mean llm?"), ("other", "give it a share there, or name one of those")],
)
def test_stage_without_a_share(stage: str, remedy: str) -> None:
    """Where a budget is divided at all, each stage that a route names has its share."""
    text = f"budget:\n  stages: {{llm: 1s, slack: 1s}}\nfallback:\n  stage: {stage}\n"
    assert one(text) == f'4: fallback.stage: "{stage}" is not one of budget.stages (line 2); {remedy}'


def test_two_routes_of_one_name() -> None:
    """Records and metrics could not tell them apart."""
    text = "routes:\n- {name: a, match: {host: a}}\n- {name: b, match: {host: b}}\n- {name: a, match: {host: c}}\n"
    assert (
        one(text)
        == '4: routes[2].name: "a" is the name of another route (line 2); give each route a name of its own'
    )


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("", "match: {host: a.b}"),
        ("", ""),
        ("match: {}", "tls: originate"),
        ("match: {host: a.b}", "match: {host: A.b, path: /x}"),
        ("match: {host: '*.b'}", "match: {host: a.b}"),
        ("match: {host: '*.b'}", "match: {host: '*.a.b'}"),
        ("match: {host: '*'}", "match: {host: '*.a.b'}"),
        ("match: {path: /v1/**}", "match: {path: /v1/*/x, host: a}"),
        ("match: {path: /v1/**}", "match: {path: /v1/**}"),
        ("match: {path: /**}", "match: {path: /}"),
        ("match: {methods: [GET, PUT]}", "match: {methods: [PUT], host: a}"),
        ("prefix: /a, upstream: 'http://a'", "prefix: /a, upstream: 'http://b'"),
        ("prefix: /a, upstream: 'http://a'", "prefix: /a/v1, upstream: 'http://b'"),
        ("prefix: /a, upstream: 'http://a'", "prefix: /a/v1, upstream: 'http://b', match: {methods: [GET]}"),
    ],
)
def test_a_route_that_is_never_reached(earlier: str, later: str) -> None:
    """The first match wins, so a route behind a wider one is a mistake."""
    text = f"routes:\n- {{name: a, {earlier}}}\n- {{name: b, {later}}}\n"
    said = 'is never reached: route "a" (line 2) comes first and takes all of its calls; put the narrower route first'
    assert one(text) == f"3: routes[1]: {said}"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("match: {host: a.b}", ""),
        ("match: {host: a.b}", "match: {host: '*.b'}"),
        ("match: {host: a-*.b}", "match: {host: '*.b'}"),
        ("match: {host: '*.b'}", "match: {host: b}"),
        ("match: {path: /v1/*}", "match: {path: /v1/**}"),
        ("match: {path: /v1/*/x}", "match: {path: /**/x}"),
        ("match: {path: /v1/*}", "match: {host: a}"),
        ("match: {methods: [GET]}", "match: {methods: [GET, PUT]}"),
        ("match: {methods: [GET]}", "match: {host: a}"),
        ("match: {host: a, path: /x}", "match: {host: a, path: /y}"),
        ("", "prefix: /a, upstream: 'http://a'"),
        ("prefix: /a, upstream: 'http://a'", ""),
        ("prefix: /a, upstream: 'http://a'", "prefix: /ab, upstream: 'http://a'"),
        ("prefix: /a/v1, upstream: 'http://a'", "prefix: /a, upstream: 'http://a'"),
        ("prefix: /a, upstream: 'http://a', match: {methods: [GET]}", "prefix: /a, upstream: 'http://b'"),
    ],
)
def test_a_route_that_can_be_reached(earlier: str, later: str) -> None:
    """Nothing is said of a route as long as one call may be left for it."""
    assert faults(f"routes:\n- {{name: a, {earlier}}}\n- {{name: b, {later}}}\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("budget: {default: 90m, max: 2x}", [(1, "budget.max")]),
        ("budget: {default: 90m, maks: 2h}", [(1, "budget.maks")]),
        ("bugdet: {max: 2h}\nwrites: {hold: 48h}", [(1, "bugdet")]),
        ("routes:\n- {name: a, match: {host: 'a b'}}\n- {name: b}", [(2, "routes[0].match.host")]),
        ("routes:\n- {name: a, match: {hots: a}}\n- {name: b}", [(2, "routes[0].match.hots")]),
        ("routes:\n- {name: a, math: {host: a}}\n- {name: b}", [(2, "routes[0].math")]),
        ("routes:\n- {name: a, prefix: a, upstream: 'http://a'}", [(2, "routes[0].prefix")]),
        ("routes:\n- {name: a, prefix: /a, upstream: a}", [(2, "routes[0].upstream")]),
        (
            "routes:\n- {name: a b}\n- {name: a b}",
            [(2, "routes[0].name"), (3, "routes[1].name"), (3, "routes[1]")],
        ),
        (
            "fallback: {effect: write, guard: key, idempotency: {header: 'a b'}}",
            [(1, "fallback.idempotency.header")],
        ),
        ("listen: {inbound: {address: 0.0.0.0:1, ap: 127.0.0.1:1}}", [(1, "listen.inbound.ap"), (1, "listen.inbound.app")]),
        ("listen: {inbound: {address: 0.0.0.0:10800, app: 127.0.0.1:1}, outbond: 127.0.0.1:2}", [(1, "listen.outbond")]),
        ("budget: {stages: {a: 9m, b c: 1s}}", [(1, "budget.stages.b c")]),
        ("budget: {stages: {a: 9m}, defualt: 10m}", [(1, "budget.defualt")]),
        ("budget: {stages: {a: 1s, 'b ': 1s}}\nfallback: {stage: b}", [(1, "budget.stages.b ")]),
        ("fallback: {max_attempts: 1, retries: {max: 0}}", [(1, "fallback.retries.max")]),
        ("fallback: {max_attempts: 1, retries: {maks: 1}}", [(1, "fallback.retries.maks")]),
        ("fallback: {effect: write, retries: {on: [503, conect_failed]}}", [(1, "fallback.retries.on[1]")]),
        ("fallback: {effect: write, retries: {on: [503]}, idempotency: {honored: true}}", [(1, "fallback.idempotency.honored")]),
        ("fallback: {effect: red, serialize: true, verify: {path: /a}}", [(1, "fallback.effect")]),
        ("fallback: {verify: {path: /a, method: HAED, applied: {json: $}}}", [(1, "fallback.verify.method")]),
    ],
)  # fmt: skip
def test_nothing_is_concluded_from_a_fault(text: str, expected: list[tuple[int, str]]) -> None:
    """A key with a fault of its own, or one that seems to be left out but was only misspelt, contradicts nothing."""
    assert places(text) == expected


def test_many_routes_are_compared_in_time() -> None:
    """As many routes as a policy may have, none of which covers another."""
    routes = "".join(
        f"- {{name: r{n}, match: {{host: '*.h{n}.internal', path: /v{n}/**}}}}\n" for n in range(1000)
    )
    began = time.monotonic()
    assert faults(f"routes:\n{routes}") == []
    assert time.monotonic() - began < 10
    assert places(f"routes:\n{routes}- {{name: more}}\n") == [(1, "routes")]
