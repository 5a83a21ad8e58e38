"""What kind a call is: the first rule that applies decides, and what nobody knows is a write."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.calls import Kind
from proxy.core.kinds import early_kind, late_kind
from proxy.core.policy import Protocol, Route
from proxy.core.target import DEFAULT_PORTS, Origin, Target, split_authority, split_url

ROUTE = Route("tool")
LLM = "https://api.anthropic.com/v1/messages"
ELSEWHERE = "https://chat.example.com/v1/messages"


def target(url: str) -> Target:
    """The target of an absolute URL."""
    scheme, authority, path = split_url(url)
    return Target(Origin(scheme, *split_authority(authority, DEFAULT_PORTS[scheme])), authority, path)


def late(body: object, url: str = "http://mcp.agents.svc/mcp", route: Route = ROUTE) -> Kind:
    """The kind of a write once its body is known."""
    return late_kind(route, target(url), body if isinstance(body, bytes) else json.dumps(body).encode())


# -- precedence --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", [Kind.READ, Kind.IDEMPOTENT, Kind.WRITE])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
@pytest.mark.parametrize("url", [LLM, ELSEWHERE])
def test_the_route_comes_first(effect: Kind, method: str, url: str) -> None:
    """What the operator declares is not argued with, neither by a method nor by a list nor by a body."""
    route = Route("declared", effect=effect)
    assert early_kind(route, method, target(url)) is effect
    assert late({"jsonrpc": "2.0", "method": "ping"}, route=route) is effect


@pytest.mark.parametrize(
    ("method", "url", "kind"),
    [
        ("GET", ELSEWHERE, Kind.READ),
        ("HEAD", ELSEWHERE, Kind.READ),
        ("OPTIONS", ELSEWHERE, Kind.READ),
        ("TRACE", ELSEWHERE, Kind.READ),
        ("PUT", ELSEWHERE, Kind.IDEMPOTENT),
        ("DELETE", ELSEWHERE, Kind.IDEMPOTENT),
        ("POST", ELSEWHERE, Kind.WRITE),
        ("PATCH", ELSEWHERE, Kind.WRITE),
        ("PURGE", ELSEWHERE, Kind.WRITE),
        ("get", ELSEWHERE, Kind.WRITE),
        ("POST", LLM, Kind.READ),
        ("POST", LLM + "?beta=true", Kind.READ),
        ("DELETE", LLM, Kind.IDEMPOTENT),
        ("PATCH", LLM, Kind.WRITE),
    ],
)
def test_then_the_list_of_models_then_the_method(method: str, url: str, kind: Kind) -> None:
    """From the head alone. Methods are matched with case (RFC 9110 §9.1), and an unknown one is a write."""
    assert early_kind(ROUTE, method, target(url)) is kind


def test_a_body_is_only_asked_about_what_the_head_left_a_write() -> None:
    """Without a protocol that says otherwise, it stays one."""
    assert late({"to": "a@example.com"}) is Kind.WRITE
    assert late(b"") is Kind.WRITE


# -- GraphQL -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/graphql", Kind.READ),
        ("/graphql/", Kind.READ),
        ("/api/v4/graphql?x=1", Kind.READ),
        ("/graphql-admin", Kind.WRITE),
        ("/graphql/run", Kind.WRITE),
        ("/?path=/graphql", Kind.WRITE),
    ],
)
def test_graphql_is_known_by_its_path(path: str, kind: Kind) -> None:
    """The last segment says so; elsewhere a member called `query` may be anything."""
    assert late({"query": "{ a }"}, f"https://api.example.com{path}") is kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"query": "query A { a }", "variables": {"query": "mutation"}}, Kind.READ),
        ({"query": "mutation A { a }"}, Kind.WRITE),
        ({"query": "query A {a} mutation B {b}", "operationName": "A"}, Kind.WRITE),
        ({"query": None}, Kind.WRITE),
        ({"query": ["{ a }"]}, Kind.WRITE),
        ({"extensions": {"persistedQuery": {"sha256Hash": "0"}}}, Kind.WRITE),
        ([{"query": "{ a }"}], Kind.WRITE),
        (b'"{ a }"', Kind.WRITE),
        (b"{ a }", Kind.WRITE),
        (b'{"query": "mutation {a}", "query": "{a}"}', Kind.WRITE),
        (b'{"query": "{a}", "query": "mutation {a}"}', Kind.WRITE),
        (b'{"query": "{a}"', Kind.WRITE),
        (b'{"query": "{a}\xff"}', Kind.WRITE),
    ],
)
def test_graphql_bodies(body: object, kind: Kind) -> None:
    """A query text that only asks, in a JSON object that says it once. The documents have their own tests."""
    assert late(body, "https://api.example.com/graphql") is kind


# -- JSON-RPC and MCP --------------------------------------------------------------------------------------------

TRUSTED = Route(
    "mcp",
    protocol=Protocol(
        read_methods=(re.compile(r"eth_get\w*"),), read_tools=(re.compile(r"search"), re.compile(r"get_.*"))
    ),
)


def rpc(method: object, **more: object) -> dict[str, object]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, **more}


def tool(name: object) -> dict[str, object]:
    """An MCP tool call."""
    return rpc("tools/call", params={"name": name, "arguments": {}})


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "tools/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
    ],
)
def test_mcp_methods_that_only_ask(method: str) -> None:
    """They may be repeated freely, whoever serves them."""
    assert late(rpc(method)) is Kind.READ


@pytest.mark.parametrize(
    "method",
    ["tools/call", "logging/setLevel", "notifications/send", "Ping", "ping ", "eth_getBalance", "", None, 1],
)
def test_other_methods_are_writes(method: object) -> None:
    """Nobody has declared them, so nothing is known of them; a service of notifications is no MCP."""
    assert late(rpc(method)) is Kind.WRITE


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (tool("search"), Kind.READ),
        (tool("get_order"), Kind.READ),
        (tool("search_and_book"), Kind.WRITE),
        (tool("forget_order"), Kind.WRITE),
        (tool(None), Kind.WRITE),
        (tool(["search"]), Kind.WRITE),
        (rpc("tools/call"), Kind.WRITE),
        (rpc("tools/call", params=["search"]), Kind.WRITE),
        (rpc("eth_getBalance"), Kind.READ),
        (rpc("eth_sendTransaction"), Kind.WRITE),
        (rpc("x_eth_getBalance"), Kind.WRITE),
    ],
)
def test_what_the_operator_trusts(message: object, kind: Kind) -> None:
    """Tools and methods that are declared to read, by their whole name. A server's own word for it is not asked."""
    assert late(message, route=TRUSTED) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, Kind.READ),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}, Kind.READ),
        ({"jsonrpc": "2.0", "id": 1}, Kind.WRITE),
        ({"jsonrpc": "2.0", "id": 1, "method": 5, "result": {}}, Kind.WRITE),
    ],
)
def test_an_answer_to_the_server_passes(message: object, kind: Kind) -> None:
    """An MCP client answers its server by POST; a message that is neither question nor answer is a write."""
    assert late(message) is kind


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        ([rpc("ping"), rpc("tools/list")], Kind.READ),
        ([rpc("ping"), rpc("tools/call")], Kind.WRITE),
        ([rpc("ping"), [rpc("ping")]], Kind.WRITE),
        ([rpc("ping"), "x"], Kind.WRITE),
        ([], Kind.WRITE),
    ],
)
def test_a_batch_reads_when_all_of_it_does(batch: object, kind: Kind) -> None:
    """One write in it, or one thing that is no message, makes it a write."""
    assert late(batch) is kind


@pytest.mark.parametrize(
    "body",
    [
        b'{"method": "ping", "note": {"jsonrpc": "2.0"}}',
        b'{"method": "ping", "jsonrpc": "1.0"}',
        b'{"method": "ping", "text": "\\"jsonrpc\\""}',
        b'{"jsonrpc": "2.0", "method": "ping", "method": "tools/call"}',
        b'{"jsonrpc": "2.0", "method": "tools/call", "method": "ping"}',
        b'{"jsonrpc": "2.0", "method": "ping"',
        b'{"jsonrpc": "2.0", "method": "ping", "n": NaN}',
        b'{"jsonrpc": "2.0", "method": "ping", "n": ' + b"9" * 5000 + b"}",
        b'{"jsonrpc": "2.0", "method": "ping", "x": ' + b"[" * 100_000,
    ],
)
def test_what_only_looks_like_json_rpc_is_a_write(body: bytes) -> None:
    """It has to say so at its top, once, in JSON that every reader takes for the same."""
    assert late(body) is Kind.WRITE


PIECES = [
    b'"jsonrpc"',
    b":",
    b'"2.0"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b'"method"',
    b'"ping"',
    b"\xff",
    b"1",
    b"\\u0000",
]
BODIES = st.one_of(st.binary(max_size=40), st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join))


@given(BODIES, st.sampled_from(["http://a/graphql", "http://a/mcp"]))
def test_no_body_is_too_strange(body: bytes, url: str) -> None:
    """Promise 14: whatever comes is a read or a write, never an error."""
    assert late(body, url) in (Kind.READ, Kind.WRITE)
