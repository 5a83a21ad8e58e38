"""The number of series is bounded by the policy: no host, path, id or key that a caller makes up becomes a label.

Published under linkerd/linkerd2#5746 and istio/istio#35066: proxies whose metrics grew with their traffic until they,
or the Prometheus that scraped them, ran out of memory.
"""

from __future__ import annotations

from tests.support.behaviours import answer, hang_up
from tests.support.callers import Caller
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.ways.names import Names

CALLS = 5_000
METHODS = ("GET", "PUT", "POST")
CLOSING = [("Connection", "close")]


def test_hosts_and_paths_are_no_series() -> None:
    """5,000 calls to as many hosts and paths, under as many budgets and keys, look like the first few of them."""
    with Names() as names, Upstream(answer(headers=CLOSING)) as upstream:
        names.know(*(f"host-{number}.example" for number in range(CALLS)))
        upstream.on("/gone", hang_up())
        with Sidecar(nameserver=names.address) as sidecar:

            def make(first: int, end: int) -> None:
                with Caller(sidecar) as caller:
                    for number in range(first, end):
                        _one(caller, number, upstream.port)
                for number in range(first, end, 100):
                    with Caller(sidecar) as tunnel:
                        opened = tunnel.request("CONNECT", f"host-{number}.example:{upstream.port}")
                        assert b" 200 " in opened.until(b"\r\n\r\n")
                sidecar.at_rest()

            make(0, 60)
            few = set(sidecar.samples())
            make(60, CALLS)
            many = sidecar.samples()
    assert set(many) == few
    completed = 'waterclock_steps_total{effect="none",kind="read",outcome="completed",route="fallback"}'
    assert many[completed] > CALLS / 10
    assert not [name for name in many if "host-" in name or "path" in name or "key" in name]


def _one(caller: Caller, number: int, port: int) -> None:
    """A call that nobody has made before: it succeeds, is broken off, or finds no host."""
    host = f"nowhere-{number}.example" if number % 10 == 9 else f"host-{number}.example"
    path = "/gone" if number % 10 == 8 else f"/path/{number}?page={number}"
    headers = {
        "Budget-Id": f"run-{number}",
        "Budget-Stage": f"stage-{number}",
        "Idempotency-Key": f"key-{number}",
        "User-Agent": f"agent/{number}",
    }
    method = METHODS[number % len(METHODS)]
    caller.request(method, f"http://{host}:{port}{path}", headers).answer(method)


def test_routes_past_the_bound_are_one() -> None:
    """A policy with more routes than are kept apart: the rest of them are `other`, and nothing is lost of the sums."""
    routes = [{"name": f"route-{number}", "match": {"path": f"/{number}"}} for number in range(230)]
    with Upstream(answer()) as upstream, Sidecar({"routes": routes}) as sidecar:
        with Caller(sidecar) as caller:
            for number in range(len(routes)):
                caller.request("GET", upstream.url(f"/{number}")).answer()
        sidecar.at_rest()
        samples = sidecar.samples()
    attempts = {
        name: value for name, value in samples.items() if name.startswith("waterclock_attempts_total{")
    }
    assert len(attempts) == 201
    assert attempts['waterclock_attempts_total{route="other"}'] == len(routes) - 200
    assert sum(attempts.values()) == len(routes)
