"""Base-URL routes: the prefix is taken off, the rest goes to the route's upstream."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from tests.support.behaviours import echo
from tests.support.callers import Answer, Caller, Headers, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

ROUTES = """
routes:
  - {name: tool, prefix: /tool, upstream: "PLAIN"}
  - {name: tool-admin, prefix: /tools/admin, upstream: "PLAIN/admin"}
  - {name: tools, prefix: /tools, upstream: "PLAIN/all"}
  - {name: mcp, prefix: /mcp, upstream: "PLAIN/mcp"}
  - {name: deep, prefix: /a.b/c-d, upstream: "PLAIN/v1/x/"}
  - {name: reads, prefix: /split, upstream: "PLAIN/reads", match: {methods: [GET]}}
  - {name: writes, prefix: /split, upstream: "PLAIN/writes", match: {methods: [POST]}}
  - {name: safe, prefix: /safe, upstream: "SAFE/v1", ca: CA}
  - {name: unsafe, prefix: /unsafe, upstream: "SAFE/v1"}
  - {name: six, prefix: /six, upstream: "SIX"}
  - {name: capped, prefix: /capped, upstream: "PLAIN", cap: 7s}
  - {name: matched, match: {path: "/tool/**"}, cap: 1s}
"""


class Place(NamedTuple):
    """A sidecar, and the tools behind it."""

    sidecar: Sidecar
    plain: Upstream
    safe: Upstream
    six: Upstream

    def get(
        self, path: str, method: str = "GET", *, headers: Headers | None = None, body: bytes = b""
    ) -> Answer:
        """Call the sidecar as if it were the tool."""
        stated = {"Host": f"127.0.0.1:{self.sidecar.outbound}", **(headers or {})}
        return call(self.sidecar, method, path, headers=stated, body=body)


@pytest.fixture(scope="module")
def standing(ca: trustme.CA, ca_file: Path) -> Iterator[Place]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    with (
        Upstream(echo()) as plain,
        Upstream(echo(), tls=context) as safe,
        Upstream(echo(), host="::1") as six,
    ):
        policy = ROUTES.replace("CA", str(ca_file))
        for name, tool in (("PLAIN", plain), ("SAFE", safe), ("SIX", six)):
            policy = policy.replace(name, tool.url(""))
        with Sidecar(policy) as sidecar:
            yield Place(sidecar, plain, safe, six)


@pytest.fixture
def place(standing: Place) -> Iterator[Place]:
    """The same, with nothing counted yet."""
    before = len(standing.sidecar.faults)
    for tool in standing[1:]:
        tool.requests.clear()
        tool.whole.clear()
    yield standing
    assert not standing.sidecar.faults[before:]


LEADS = [
    ("/tool/orders", "/orders", "tool"),
    ("/tool/", "/", "tool"),
    ("/tool", "/", "tool"),
    ("/tool?q=1&r", "/?q=1&r", "tool"),
    ("/tool/?q", "/?q", "tool"),
    ("/tool//x", "//x", "tool"),
    ("/tool/tool/x", "/tool/x", "tool"),
    ("/tool/a%2Fb/%C3%A9?c=%20", "/a%2Fb/%C3%A9?c=%20", "tool"),
    ("/tools/x", "/all/x", "tools"),
    ("/tools/admin/x", "/admin/x", "tool-admin"),
    ("/tools/administrator", "/all/administrator", "tools"),
    ("/a.b/c-d/e", "/v1/x/e", "deep"),
    # What stands at the prefix itself is what stands at the upstream's path itself, with no slash behind it.
    ("/mcp", "/mcp", "mcp"),
    ("/mcp?session=1", "/mcp?session=1", "mcp"),
    ("/mcp/", "/mcp/", "mcp"),
    ("/mcp/x", "/mcp/x", "mcp"),
]


@pytest.mark.parametrize(("asked", "sent", "route"), LEADS, ids=[asked for asked, _, _ in LEADS])
def test_the_prefix_is_taken_off(place: Place, asked: str, sent: str, route: str) -> None:
    """On the border of a segment; what is left is passed on octet by octet, behind the upstream's own path."""
    told = place.get(asked)
    assert told.status == 200
    (request,) = place.plain.requests
    assert request.target == sent
    assert request.get("host") == place.plain.authority
    assert place.sidecar.record(told.record)["route"] == route


@pytest.mark.parametrize(
    "path", ["/toolbox", "/too", "/", "/TOOL/x", "/%74ool/x", "/x/tool", "//tool/x", "/tool;x", "/a.b/c"]
)
def test_what_begins_otherwise_is_no_tool(place: Place, path: str) -> None:
    """A prefix is whole segments, as they are written. What has none is the sidecar itself, and it says how to go on."""
    told = place.get(path)
    assert (told.status, told.outcome.reason) == (508, "loop")
    assert "add a route with `prefix` and `upstream`" in told.problem["detail"]
    assert place.plain.requests == []


def test_methods_tell_two_routes_of_one_prefix_apart(place: Place) -> None:
    assert place.get("/split/x").status == 200
    assert place.get("/split/x", "POST", body=b"{}").status == 200
    assert [request.target for request in place.plain.requests] == ["/reads/x", "/writes/x"]
    told = place.get("/split/x", "DELETE")
    assert (told.status, told.outcome.reason) == (508, "loop")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_an_upstream_that_speaks_tls(place: Place, method: str) -> None:
    """The client says http to the sidecar, and its bodies arrive whole."""
    body = b"" if method in ("GET", "DELETE", "OPTIONS") else b"x" * 100_000
    told = place.get("/safe/models?limit=1", method, body=body)
    assert (told.status, told.body) == (200, body)
    (request,) = place.safe.whole
    assert (request.method, request.target, request.body) == (method, "/v1/models?limit=1", body)
    assert request.get("host") == place.safe.authority
    assert place.sidecar.record(told.record)["target"] == place.safe.url("/v1/models?limit=…")


def test_without_its_authority_that_upstream_is_not_trusted(place: Place) -> None:
    told = place.get("/unsafe/x", "POST", body=b"{}")
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (
        502,
        "connect_failed",
        "tls_certificate_error",
    )
    assert place.safe.requests == []


def test_an_upstream_with_an_ipv6_address(place: Place) -> None:
    assert place.get("/six/x").status == 200
    assert place.six.requests[0].get("host") == place.six.authority


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_by_whatever_name_the_sidecar_is_called(place: Place, host: str) -> None:
    """Also by clients that take a base URL and send it in absolute form to the proxy of their settings."""
    authority = f"{host}:{place.sidecar.outbound}"
    for target in ("/tool/x", f"http://{authority}/tool/x"):
        assert place.get(target, headers={"Host": authority}).status == 200
    assert [request.target for request in place.plain.requests] == ["/x", "/x"]


def test_a_prefix_wins_over_the_name_in_host(place: Place) -> None:
    """Some clients are given a base URL and keep the tool's own name in Host."""
    assert place.get("/tool/x", headers={"Host": "api.example.com"}).status == 200
    assert place.plain.requests[0].get("host") == place.plain.authority


def test_the_route_of_the_prefix_holds(place: Place) -> None:
    """Its cap, and its route in the record: a route with `match` is for what is called by its own name."""
    told = place.get("/capped/x")
    assert told.get("budget-allowed-ms") == "7000"
    assert place.sidecar.record(told.record)["route"] == "capped"
    told = place.get("/tool/x")
    assert told.get("budget-allowed-ms") == "300000"


def test_budgets_on_a_base_url(place: Place, budget: str) -> None:
    """Headers, and the user of the URL, which clients send as Authorization: that one is the tool's."""
    headers = {"Budget-Id": budget, "Budget-Remaining-Ms": 5000, "Authorization": "Basic bWU6c2VjcmV0"}
    told = place.get("/tool/x", headers=headers)
    assert told.get("budget-id") == budget
    (request,) = place.plain.requests
    assert request.get("authorization") == "Basic bWU6c2VjcmV0"
    assert request.get("budget-id") == budget


def test_one_connection_for_several_tools(place: Place) -> None:
    """The client keeps its connection, whichever tools its calls go to."""
    with Caller(place.sidecar) as caller:
        for path in ("/tool/1", "/safe/2", "/six/3", "/nothing", "/tool/4"):
            told = caller.request("GET", path, {"Host": f"127.0.0.1:{place.sidecar.outbound}"}).answer()
            assert told.status == (508 if path == "/nothing" else 200)
    assert [len(tool.requests) for tool in place[1:]] == [2, 1, 1]
