"""What may be answered with less: each key becomes its part of the policy, and what no value may be is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import parse
from proxy.config.faults import quoted, visible
from proxy.config.ladder import MOST_RUNGS
from proxy.core.calls import Kind
from proxy.core.degrading import CachePolicy, CacheUse, Change, Degraded, FixedAnswer, RouteCache, Rung
from proxy.core.json_path import parse as place
from proxy.core.policy import BudgetDefaults, Policy, Route, Share, Truncate
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from proxy.core.upstream import Upstream
from tests.config.said import faults

FULL = Rung("full")


def route(text: str) -> Route:
    """What is read of the keys of a route that reads."""
    return parse(f"fallback: {{effect: read, {text}}}").fallback


def ladder(text: str) -> tuple[Rung, ...]:
    """The rungs below the first."""
    return route(f"ladder: [{{name: full}}, {text}]").ladder[1:]


def said(text: str) -> str:
    """The one fault of a route that reads, from its key on."""
    [fault] = faults(f"fallback: {{effect: read, {text}}}")
    return f"{fault.key.removeprefix('fallback.')}: {fault.problem}; {fault.remedy}"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("on_cut: error", {}),
        ("on_cut: truncate", {"truncate": Truncate()}),
        (
            "on_cut: truncate, truncate_margin: 1s, truncate_mark: '… (cut)'",
            {"truncate": Truncate(SECOND, "… (cut)")},
        ),
        ("truncate_margin: 1ms, on_cut: truncate", {"truncate": Truncate(MILLISECOND)}),
        ("ladder: ", {}),
        ("ladder: []", {}),
        ("ladder: [{name: full}]", {"ladder": (FULL,)}),
        ("ladder: [{name: full}], degraded_body: true", {"ladder": (FULL,), "degraded_body": True}),
        ("degraded_body: false", {}),
        ("cache: {first: true}", {"cache": RouteCache(first=True)}),
        ("cache: {stale_if_error: 1h}", {"cache": RouteCache(stale_if_error=HOUR)}),
        (
            "cache: {ttl: 0s, first: true, share: true, headers: [X-Tenant, accept], ignore: [$.user, '$[\"a b\"][0]'], stale_if_error: 1m}",
            {
                "cache": RouteCache(
                    ttl=0,
                    first=True,
                    share=True,
                    headers=("x-tenant", "accept"),
                    ignore=(place("$.user"), place('$["a b"][0]')),
                    stale_if_error=MINUTE,
                )
            },
        ),
    ],
)
def test_route_key_becomes_value(text: str, rest: dict[str, Any]) -> None:
    """What a route says besides its rungs."""
    assert route(text) == Route("fallback", effect=Kind.READ, **rest)


@pytest.mark.parametrize(
    ("text", "rung"),
    [
        ("{name: a.b-C_9, needs: 1500ms, upstream: http://x}", Rung("a.b-C_9", 1500 * MILLISECOND, upstream=Upstream("http", "x", 80))),
        ("{name: a, needs: auto, upstream: https://x/v1/}", Rung("a", None, upstream=Upstream("https", "x", 443, "/v1"))),
        ("{name: a, upstream: http://x, credentials: true}", Rung("a", upstream=Upstream("http", "x", 80), credentials=True)),
        ("{name: a, upstream: http://x, set: {}}", Rung("a", upstream=Upstream("http", "x", 80))),
        ("{name: a, upstream: http://x, set: }", Rung("a", upstream=Upstream("http", "x", 80))),
        (
            "{name: a, set: {json: {$.model: small, '$.o[-1][\"b c\"]': {k: [1, null]}}, headers: {X-A: '1', authorization: Bearer x}, query: {q: a b, 'y': ''}}}",
            Rung(
                "a",
                change=Change(
                    json=((place("$.model"), '"small"'), (place('$.o[-1]["b c"]'), '{"k":[1,null]}')),
                    headers=(("x-a", "1"), ("authorization", "Bearer x")),
                    query=(("q", "a b"), ("y", "")),
                ),
            ),
        ),
        ("{name: a, cache: {}}", Rung("a", cache=CacheUse())),
        ("{name: a, cache: }", Rung("a", cache=CacheUse())),
        (
            "{name: a, needs: 1ms, cache: {exact: false, semantic: 0.92, text: '$.messages[-1].content'}}",
            Rung("a", MILLISECOND, cache=CacheUse(False, 0.92, place("$.messages[-1].content"))),
        ),
        ("{name: a, cache: {semantic: 1, text: $}}", Rung("a", cache=CacheUse(True, 1.0, place("$")))),
        ("{name: a, answer: {json: null}}", Rung("a", answer=FixedAnswer(body=b"null"))),
        ("{name: a, answer: {text: ''}}", Rung("a", answer=FixedAnswer(content_type="text/plain; charset=utf-8"))),
        ("{name: a, answer: {text: '', status: 204}}", Rung("a", answer=FixedAnswer(204, "text/plain; charset=utf-8"))),
        (
            "{name: a, answer: {status: 503, json: {error: {message: ünï}}, headers: {Retry-After: '3'}}}",
            Rung("a", answer=FixedAnswer(503, body='{"error":{"message":"ünï"}}'.encode(), headers=(("retry-after", "3"),))),
        ),
        (
            "{name: a, answer: {content_type: text/html;charset=utf-8, text: <p>ü}}",
            Rung("a", answer=FixedAnswer(200, "text/html;charset=utf-8", "<p>ü".encode())),
        ),
        (
            "{name: a, answer: {content_type: application/problem+json, json: []}}",
            Rung("a", answer=FixedAnswer(200, "application/problem+json", b"[]")),
        ),
    ],
)  # fmt: skip
def test_rung(text: str, rung: Rung) -> None:
    """Every key of a rung."""
    assert ladder(text) == (rung,)


EXAMPLE = """
routes:
  - name: chat                # a ladder: the highest rung whose need fits what is left
    prefix: /chat
    upstream: https://api.openai.com
    stage: llm
    effect: read
    on_cut: truncate          # error | truncate: how a stream that runs out of time ends
    ladder:
      - {name: full, needs: 5s}
      - {name: fast, needs: 3s, set: {json: {"$.model": gpt-4o-mini, "$.max_tokens": 300}}}
      - {name: minimal, needs: 1500ms, upstream: http://small-model.agents.svc, set: {json: {"$.model": small}}}
      - {name: cached, needs: 50ms, cache: {exact: true, semantic: 0.92, text: "$.messages[-1].content"}}
      - {name: sorry, answer: {json: {"error": {"type": "overloaded", "message": "Try again in a moment."}}, status: 503}}
"""


def test_the_ladder_that_the_project_is_explained_by() -> None:
    """Five rungs, as they are written in one line each."""
    [chat] = parse(EXAMPLE).routes
    assert chat.truncate == Truncate()
    assert chat.ladder == (
        Rung("full", 5 * SECOND),
        Rung(
            "fast",
            3 * SECOND,
            change=Change(((place("$.model"), '"gpt-4o-mini"'), (place("$.max_tokens"), "300"))),
        ),
        Rung(
            "minimal",
            1500 * MILLISECOND,
            change=Change(((place("$.model"), '"small"'),)),
            upstream=Upstream("http", "small-model.agents.svc", 80),
        ),
        Rung("cached", 50 * MILLISECOND, cache=CacheUse(True, 0.92, place("$.messages[-1].content"))),
        Rung(
            "sorry",
            answer=FixedAnswer(
                503, body=b'{"error":{"type":"overloaded","message":"Try again in a moment."}}'
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (
            "cache: {bytes: 1MiB, entry_bytes: 1KiB, store: 'redis://h', service: 'http://c:1', timeout: 1s}",
            Policy(cache=CachePolicy(1024**2, 1024, "redis://h", Upstream("http", "c", 1), SECOND)),
        ),
        ("cache: ", Policy()),
        ("cache: {bytes: 512KiB}", Policy(cache=CachePolicy(512 * 1024))),
        ("cache: {bytes: 0B, entry_bytes: 0B}", Policy(cache=CachePolicy(0, 0))),
        ("budget: {stages: {a: 1s}, carry: true}", Policy(budget=BudgetDefaults(stages=(Share("a", SECOND),), carry=True))),
        ("budget: {carry: false}", Policy()),
    ],
)  # fmt: skip
def test_key_becomes_value(text: str, policy: Policy) -> None:
    """What is said of the cache, and of stages, outside of the routes."""
    assert parse(text) == policy


@pytest.mark.parametrize(
    "store",
    ["redis://h", "rediss://h:1", "redis://u@h/0", "redis://:p%40s@h:6379/15", "redis://u:p@[fd00::1]:6379", "redis://a-b.svc/"],
)  # fmt: skip
def test_stores(store: str) -> None:
    """A URL of Redis is kept as it stands."""
    assert parse(f'cache: {{store: "{store}"}}').cache.store == store


@pytest.mark.parametrize(
    "store",
    ["", "h:6379", "http://h", "Redis://h", "redis://", "redis://h:0", "redis://h:65536", "redis://h/x", "redis://h/12345", "redis://h/0/1", "redis://h?ssl_cert_reqs=none", "redis://h#a", "redis://u:p@s@h", "redis://u:p/w@h", "redis://[::g]", "unix:///s", "redis://" + "h" * 1024],
)  # fmt: skip
def test_refused_stores(store: str) -> None:
    """Nothing is taken that a client of Redis could read as more than a place."""
    [fault] = faults(f'cache: {{store: "{store}"}}')
    assert fault.key == "cache.store"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cache: {store: 'redis://me:s3cret@h?x'}", '"redis://(hidden)@h?x" is not the URL of a store'),
        ("cache: {store: 'redis://me:s3c@ret/s3@h:1'}", '"redis://(hidden)@h:1" is not the URL of a store'),
        ("cache: 'redis://me:s3cret@h'", '"redis://(hidden)@h" stands where keys are expected'),
        ("cache: {store: [redis://me:s3cret@h]}", "a list stands where one value is expected"),
        ("cache: {service: 'redis://me:s3cret@h'}", '"redis://(hidden)@h" is not a URL of http:// with a host'),
        ("connections: {proxy: 'https://me:s3cret@h:1'}", '"https://(hidden)@h:1" is not a URL of http:// with a host'),
        ("connections: {proxy: 'http://me:s3cret@h'}", '"http://(hidden)@h" is not http://host:port'),
        ("fallback: {effect: read, ladder: [{name: a, set: {headers: {authorization: ' s3cret'}}}]}", "is not the value of a header"),
        ("fallback: {effect: read, ladder: [{name: a, set: {headers: {x-key: 53.7}}}]}", "is not a text to every reader of YAML"),
        ("fallback: {effect: read, ladder: [{name: a, set: {query: {key: 's3cret\\x00'}}}]}", "is not the value of a parameter"),
    ],
)  # fmt: skip
def test_no_fault_shows_a_secret(text: str, shown: str) -> None:
    """Faults are logged, and stand in the status of a BudgetPolicy."""
    [fault] = faults(text.replace("'s3cret\\x00'", '"s3cret\\a"'))
    assert fault.problem == shown
    assert "s3" not in str(fault)
    assert "53" not in str(fault)


@pytest.mark.parametrize(
    ("service", "remedy"),
    [
        ("https://c", "is not a URL of http:// with a host"),
        ("c:1", "is not a URL of http:// with a host"),
        ("http://c:1/v1", "has a path"),
        ("http://c:1?a", "is not a URL of http:// with a host"),
    ],
)
def test_refused_services(service: str, remedy: str) -> None:
    """It is a place in the cluster, and what is asked there is not the policy's to say."""
    [fault] = faults(f"cache: {{service: '{service}'}}")
    assert (fault.key, fault.problem) == ("cache.service", f'"{service}" {remedy}')


NAME = "write 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter"
HEADER_VALUE = (
    "is not the value of a header; write 1 to 4096 printing ASCII characters, no blank first or last"
)
PRINTING = "printing characters; they are escaped where need be"


@pytest.mark.parametrize(
    ("rung", "expected"),
    [
        ("name: 1a", f'name: "1a" is not the name of a rung; {NAME}'),
        ("name: a b", f'name: "a b" is not the name of a rung; {NAME}'),
        ("name: ''", f'name: "" is not the name of a rung; {NAME}'),
        (f"name: {'a' * 65}", f'name: "{"a" * 60}…" is not the name of a rung; {NAME}'),
        ("name: on", "name: is not a text to every reader of YAML; put quotes around it"),
        ("name: 3", "name: is not a text to every reader of YAML; put quotes around it"),
        ("name: b, needs: 5", 'needs: "5" has no unit; write 5s, 250ms, 5m or 1h, or auto'),
        ("name: b, needs: -1s", 'needs: "-1s" is negative; write one like 250ms, 5m or 1h, or auto'),
        ("name: b, needs: Auto", 'needs: "Auto" is not one number with one unit; write one like 250ms, 5m or 1h, or auto'),
        ("name: b, needs: 2401h", 'needs: "2401h" is more than 2400h; write 0s to 2400h, or auto'),
        ("name: b, set: {jsn: {}}", "set.jsn: is not a key that is known here; did you mean json?"),
        ("name: b, set: {json: [$.a]}", "set.json: a list stands where keys are expected; write keys with their values"),
        ("name: b, set: {json: {model: a}}", 'set.json.model: "model" is not a place in a JSON document; one begins with $, as in $.items[0]'),
        ("name: b, set: {json: {'$.a[*]': 1}}", "set.json.$.a[*]: \"$.a[*]\" cannot be read from '[*]' on; names and indexes only, as in $.items[0] or $['a name']"),
        ("name: b, set: {json: {$: {}}}", "set.json.$: is the whole body; name a place in it, as in $.model"),
        (r"name: b, set: {json: {'$[''a\\u0000'']': 1}}", r"set.json.$['a\\u0000']: has in it what reads like the escape of a NUL; take it out"),
        ("name: b, set: {json: {$.a.b: 1, $.a: {}}}", 'set.json.$.a: overlaps with "$.a.b"; keep one of the two'),
        ("name: b, set: {json: {$.a: {}, '$.a[0].b': 1}}", 'set.json.$.a[0].b: overlaps with "$.a"; keep one of the two'),
        ("name: b, set: {json: {$.a: 1, \"$['a']\": 2}}", "set.json.$['a']: is the same place as \"$.a\"; keep one of the two"),
        ("name: b, set: {json: {$.a: 1, $.a: 2}}", "set.json.$.a: is given twice, first on line 1; keep one of the two"),
        ("name: b, set: {json: {" + ", ".join(f"$.p{n}: 1" for n in range(33)) + "}}", "set.json: has 33 entries; write at most 32 of them"),
        ("name: b, set: {headers: {'a b': c}}", 'set.headers.a b: "a b" is not the name of a header; write one like X-Tenant'),
        ("name: b, set: {headers: {X-A: b, x-a: c}}", "set.headers.x-a: is given twice, first on line 1; keep one of the two"),
        ("name: b, set: {headers: {Host: c}}", "set.headers.Host: follows from where the call goes; take it out"),
        ("name: b, set: {headers: {content-length: '1'}}", "set.headers.content-length: follows from the body; take it out"),
        ("name: b, set: {headers: {Transfer-Encoding: chunked}}", "set.headers.Transfer-Encoding: is about one connection, and not passed on; take it out"),
        ("name: b, set: {headers: {CONNECTION: close}}", "set.headers.CONNECTION: is about one connection, and not passed on; take it out"),
        ("name: b, set: {headers: {expect: 100-continue}}", "set.headers.expect: is the sidecar's own to write; take it out"),
        ("name: b, set: {headers: {Budget-Remaining-Ms: '1'}}", "set.headers.Budget-Remaining-Ms: tells of the budget, and only the sidecar knows it; take it out"),
        ("name: b, set: {headers: {a: \"b\\r\\nc: d\"}}", f"set.headers.a: {HEADER_VALUE}"),
        ("name: b, set: {headers: {a: ' b'}}", f"set.headers.a: {HEADER_VALUE}"),
        ("name: b, set: {headers: {a: ''}}", f"set.headers.a: {HEADER_VALUE}"),
        ("name: b, set: {headers: {a: ü}}", f"set.headers.a: {HEADER_VALUE}"),
        ("name: b, set: {headers: {a: 5}}", "set.headers.a: is not a text to every reader of YAML; put quotes around it"),
        ("name: b, set: {headers: {a: }}", "set.headers.a: has no value; write one, or take the key out"),
        ("name: b, set: {headers: {a: [b]}}", "set.headers.a: a list stands where one value is expected; write one value"),
        ("name: b, set: {query: {n: 5}}", "set.query.n: is a name that is not a text to every reader of YAML; put quotes around it"),
        ("name: b, set: {query: {limit: 5}}", "set.query.limit: is not a text to every reader of YAML; put quotes around it"),
        ("name: b, set: {query: {'': a}}", f"set.query.: is not the name of a parameter; write 1 to 256 {PRINTING}"),
        ("name: b, set: {query: {a: \"b\\n\"}}", f"set.query.a: is not the value of a parameter; write at most 4096 {PRINTING}"),
        ("name: b, upstream: 'ftp://a'", 'upstream: "ftp://a" is not a URL of http:// or https:// with a host; write one like https://api.example.com/v1, without user, query and fragment'),
        ("name: b, cache: true", 'cache: "true" stands where keys are expected; write keys with their values'),
        ("name: b, cache: {semantic: 1.1, text: $.a}", 'cache.semantic: "1.1" is more than 1; write 0 to 1'),
        ("name: b, cache: {semantic: -0.1, text: $.a}", 'cache.semantic: "-0.1" is negative; write one like 0.92'),
        ("name: b, cache: {semantic: .9, text: $.a}", 'cache.semantic: ".9" is not a number; write one like 0.92'),
        ("name: b, cache: {semantic: '0.9', text: $.a}", 'cache.semantic: "0.9" is a text, because of its quotes; write it without quotes'),
        ("name: b, cache: {semantic: 0.9, text: a}", 'cache.text: "a" is not a place in a JSON document; one begins with $, as in $.items[0]'),
        ("name: b, answer: sorry", 'answer: "sorry" stands where keys are expected; write keys with their values'),
        ("name: b, answer: {text: a, status: 199}", 'answer.status: "199" is less than 200; write 200 to 599'),
        ("name: b, answer: {text: a, status: 600}", 'answer.status: "600" is more than 599; write 200 to 599'),
        ("name: b, answer: {text: 5}", "answer.text: is not a text to every reader of YAML; put quotes around it"),
        (f"name: b, answer: {{text: {'x' * 65_537}}}", "answer.text: is more than 64 KiB; make it shorter"),
        ("name: b, answer: {json: {a: {b: [010]}}}", 'answer.json.a.b[0]: "010" is a number to some readers of YAML, and none as JSON writes it; write it in plain decimal digits, or put quotes around it'),
        ("name: b, answer: {text: a, content_type: html}", 'answer.content_type: "html" is not the type of a body; write one like application/json, or text/plain; charset=utf-8'),
        ("name: b, answer: {text: a, content_type: \"text/html\\r\\nx: y\"}", 'answer.content_type: "text/html\\r\\nx: y" is not the type of a body; write one like application/json, or text/plain; charset=utf-8'),
        ("name: b, answer: {text: a, headers: {Content-Type: text/html}}", "answer.headers.Content-Type: has a key of its own, content_type; take it out"),
        ("name: b, answer: {text: a, headers: {content-encoding: gzip}}", "answer.headers.content-encoding: says how the body is written, and it is sent as it stands here; take it out"),
        ("name: b, answer: {text: a, headers: {Cache-Control: public}}", "answer.headers.Cache-Control: is the sidecar's own to write; take it out"),
        ("name: b, answer: {text: a, headers: {budget-degraded: level=1}}", "answer.headers.budget-degraded: tells of the budget, and only the sidecar knows it; take it out"),
        ("name: b, answer: {text: a, headers: {trailer: a}}", "answer.headers.trailer: is about one connection, and not passed on; take it out"),
    ],
)  # fmt: skip
def test_refused_rung(rung: str, expected: str) -> None:
    """What a rung cannot be is said at its key."""
    assert said(f"ladder: [{{name: a}}, {{{rung}}}]") == f"ladder[1].{expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on_cut: cut", 'on_cut: "cut" is not known here; write error or truncate'),
        ("on_cut: truncate, truncate_margin: 0s", 'truncate_margin: "0s" is less than 1ms; write 1ms to 2400h'),
        ("on_cut: truncate, truncate_mark: ''", 'truncate_mark: "" is not a mark; write 1 to 200 characters that print, in one line'),
        ("on_cut: truncate, truncate_mark: \"a\\nb\"", 'truncate_mark: "a\\nb" is not a mark; write 1 to 200 characters that print, in one line'),
        ("on_cut: truncate, truncate_mark: off", "truncate_mark: is not a text to every reader of YAML; put quotes around it"),
        (f"on_cut: truncate, truncate_mark: {'x' * 201}", f'truncate_mark: "{"x" * 60}…" is not a mark; write 1 to 200 characters that print, in one line'),
        ("on_cut: truncate, truncate_mark: [response truncated]", "truncate_mark: a list stands where one value is expected; write one value"),
        ("ladder: {name: a}", "ladder: a mapping stands where a list is expected; write [first, second]"),
        ("ladder: [{needs: 1s}]", "ladder[0].name: is missing; give the rung the name that answers, records and metrics show"),
        ("ladder: [" + ", ".join(f"{{name: r{n}, needs: {99 - n}s}}" for n in range(MOST_RUNGS + 1)) + "]", "ladder: has 17 entries; write 0 to 16 of them"),
        ("degraded_body: yes", 'degraded_body: "yes" is neither true nor false; write true or false'),
        ("cache: {first: true, ttl: 60}", 'cache.ttl: "60" has no unit; write 60s, 250ms, 5m or 1h'),
        ("cache: {first: true, headers: [a b]}", 'cache.headers[0]: "a b" is not the name of a header; write one like X-Tenant'),
        ("cache: {first: true, headers: [A, a]}", "cache.headers[1]: is in the list already, on line 1; keep one of the two"),
        ("cache: {first: true, ignore: [$]}", "cache.ignore[0]: is the whole body, and then all requests are the same one; name a place in it, as in $.user"),
        ("cache: {first: true, ignore: [$.a, $.a]}", "cache.ignore[1]: is in the list already, on line 1; keep one of the two"),
        ("cache: {first: true, store: 'redis://h'}", "cache.store: is not a key that is known here; did you mean share?"),
    ],
)  # fmt: skip
def test_refused_route(text: str, expected: str) -> None:
    """What a route says of less is as strict as all else."""
    assert said(text) == expected


def test_as_many_rungs_as_there_may_be() -> None:
    """Sixteen, in the order of the file."""
    rungs = [
        f"{{name: r{level}, needs: {99 - level}s, set: {{query: {{l: '{level}'}}}}}}"
        for level in range(MOST_RUNGS)
    ]
    assert [rung.name for rung in route(f"ladder: [{', '.join(rungs)}]").ladder] == [
        f"r{level}" for level in range(MOST_RUNGS)
    ]


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,63}", fullmatch=True))
def test_a_rungs_name_stands_in_a_header_as_it_is(name: str) -> None:
    """It needs no quotes in `Budget-Degraded`."""
    [rung] = parse(f'fallback: {{effect: read, ladder: [{{name: "{name}"}}]}}').fallback.ladder
    assert f"; rung={name};" in Degraded(1, rung.name, "time").field()


def test_names_within_places_do_not_hide_faults() -> None:
    """Whatever dots, brackets and quotes a place has, the fault within it is one of its rung, and nothing is concluded."""
    text = (
        "ladder: [{name: a}, {name: a, set: {json: {\"$['x.[y'][-1]\": on, '$[\"]\"]': on}}}], effect: read"
    )
    assert [fault.key.partition(".json.")[2] for fault in faults(f"fallback: {{{text}}}")] == [
        "$['x.[y'][-1]", '$["]"]', ""
    ]  # fmt: skip


@given(st.text(max_size=30), st.text(max_size=30))
def test_what_stands_before_a_host_is_never_shown(before: str, after: str) -> None:
    """Wherever in a text a URL begins, and whatever its password is made of."""
    shown = quoted(f"x://{before}s3cret{after}@host")
    assert "s3cret" not in shown
    assert shown == '"x://(hidden)@host"'
    assert quoted(before.replace("@", "")) == f'"{visible(before.replace("@", ""))}"'
