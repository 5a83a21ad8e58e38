"""Which route a call belongs to: the first that matches, else the fallback."""

from __future__ import annotations

import re

import pytest

from proxy.core.policy import FALLBACK, Match, Policy, Route
from proxy.core.routing import Router
from proxy.core.upstream import Upstream

UPSTREAM = Upstream("https", "api.example.com", 443)


def matching(
    name: str, host: str | None = None, path: str | None = None, methods: set[str] | None = None
) -> Route:
    """A route for what these match."""
    return Route(
        name,
        Match(
            re.compile(host) if host is not None else None,
            re.compile(path) if path is not None else None,
            frozenset(methods) if methods is not None else None,
        ),
    )


ROUTER = Router(
    Policy(
        routes=(
            matching("search", r"search\.internal", r"/v1/.*", {"GET"}),
            matching("search-rest", r"search\.internal"),
            matching("orders", r"[^.]+\.orders\.internal"),
            matching("health", path=r"/healthz"),
            matching("deletes", methods={"DELETE"}),
        ),
        fallback=Route("everything else"),
    )
)


@pytest.mark.parametrize(
    ("host", "path", "method", "route"),
    [
        ("search.internal", "/v1/x", "GET", "search"),
        ("search.internal", "/v1/x?q=1", "GET", "search"),
        ("search.internal", "/v2/x?q=/v1/x", "GET", "search-rest"),
        ("search.internal", "/v1/x", "POST", "search-rest"),
        ("eu.orders.internal", "/", "POST", "orders"),
        ("a.eu.orders.internal", "/", "POST", "everything else"),
        ("orders.internal.example.com", "/", "POST", "everything else"),
        ("example.com", "/healthz", "GET", "health"),
        ("example.com", "/healthz?full", "GET", "health"),
        ("example.com", "/healthz/x", "GET", "everything else"),
        ("example.com", "/healthz", "DELETE", "health"),
        ("example.com", "/x", "DELETE", "deletes"),
        ("example.com", "*", "OPTIONS", "everything else"),
    ],
)
def test_the_first_route_that_matches(host: str, path: str, method: str, route: str) -> None:
    """Everything that a match gives has to match, each in full; the query is left aside."""
    for _ in range(2):  # the second time from what is remembered of the host
        assert ROUTER.by_target(host, path, method).name == route


def test_without_routes_all_is_the_fallback() -> None:
    """An empty file is a working sidecar."""
    assert Router(Policy()).by_target("example.com", "/", "GET") is FALLBACK


def test_a_base_url_route_is_not_found_by_its_target() -> None:
    """Its empty match would be every call."""
    router = Router(Policy(routes=(Route("openai", prefix="/openai", upstream=UPSTREAM),)))
    assert router.by_target("api.example.com", "/openai/v1", "GET") is FALLBACK


PREFIXED = Router(
    Policy(
        routes=(
            Route("chat", Match(methods=frozenset({"POST"})), prefix="/chat", upstream=UPSTREAM),
            Route("openai-v2", prefix="/openai/v2", upstream=UPSTREAM),
            Route("openai", prefix="/openai", upstream=UPSTREAM),
            matching("all"),
        )
    )
)


@pytest.mark.parametrize(
    ("path", "method", "route"),
    [
        ("/openai", "GET", "openai"),
        ("/openai/", "GET", "openai"),
        ("/openai?x=1", "GET", "openai"),
        ("/openai/v1/chat/completions", "POST", "openai"),
        ("/openai/v2", "GET", "openai-v2"),
        ("/openai/v2/x", "GET", "openai-v2"),
        ("/openai/v22", "GET", "openai"),
        ("/openai-evil/v1", "GET", None),
        ("/openai.json", "GET", None),
        ("/OpenAI/v1", "GET", None),
        ("/x/openai", "GET", None),
        ("//openai", "GET", None),
        ("/?x=/openai/", "GET", None),
        ("", "GET", None),
        ("/chat", "POST", "chat"),
        ("/chat", "GET", None),
    ],
)
def test_a_prefix_ends_where_a_segment_ends(path: str, method: str, route: str | None) -> None:
    """`/openai` is no part of `/openai-evil`; a route without a prefix is not found by one."""
    found = PREFIXED.by_prefix(path, method)
    assert (found.name if found is not None else None) == route


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    """Hosts come from outside: ten thousand of them leave a thousand behind, and the same answers."""
    router = Router(Policy(routes=(matching("orders", r".*\.orders\.internal"),)))
    for number in range(10_000):
        assert router.by_target(f"h{number}.orders.internal", "/", "GET").name == "orders"
    assert router.by_target("h0.orders.internal", "/", "GET").name == "orders"
    assert router._for_host.cache_info().currsize <= 1024
