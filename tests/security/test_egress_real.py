"""A real sidecar with denied places: refused over real sockets, counted, logged, reloaded; and led there by iptables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.behaviours import answer
from tests.support.callers import Caller, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually
from tests.ways.apart import Space, apart
from tests.ways.names import Names
from tests.ways.redirection import CLIENT_HELLO, opaque_ones, smtp, to


def refusals(sidecar: Sidecar) -> float:
    """How many the metrics have counted."""
    return sum(
        value
        for name, value in sidecar.samples().items()
        if name.startswith("waterclock_step_refusals_total") and "egress_denied" in name
    )


@pytest.fixture
def names() -> Iterator[Names]:
    with Names() as server:
        yield server


def test_it_is_refused_counted_and_taken_back(names: Names) -> None:
    """By name, by address and by tunnel, until a reload allows it; and again after one that does not."""
    names.know("inner.test")
    policy = {"egress": {"deny": ["127.0.0.0/8", "::1"]}}
    with Upstream(answer()) as upstream, Sidecar(policy, nameserver=names.address) as sidecar:
        targets = [
            upstream.url(),
            f"http://inner.test:{upstream.port}/",
            f"http://2130706433:{upstream.port}/",
        ]
        for target in targets:
            told = call(sidecar, "GET", target)
            assert (told.status, told.outcome.reason, told.outcome.effect) == (403, "egress_denied", "none")
        told = call(sidecar, "CONNECT", f"inner.test:{upstream.port}")
        assert (told.status, told.outcome.reason) == (403, "egress_denied")
        assert upstream.connections == []
        assert refusals(sidecar) == 4
        sidecar.write_policy({})
        eventually(lambda: sidecar.ask("/config")["egress"] == {"deny": []})
        with Caller(sidecar) as caller:
            assert caller.request("GET", targets[1]).answer().status == 200
            sidecar.write_policy(policy)
            eventually(lambda: sidecar.ask("/config")["egress"] == {"deny": ["127.0.0.0/8", "::1"]})
            assert caller.request("GET", targets[1]).answer().status == 403
        assert (len(upstream.connections), len(upstream.requests)) == (1, 1)


@pytest.fixture(scope="module")
def space() -> Iterator[Space]:
    with apart() as space:
        yield space


def test_what_iptables_leads_here_is_judged_by_its_destination(
    space: Space, ca: trustme.CA, tmp_path: Path
) -> None:
    """HTTP is answered; TLS, and a protocol whose server speaks first, are broken off; nothing reaches the place."""
    networks = ["10.9.0.0/16", "fd09::/16"]
    with space.sidecar({"egress": {"deny": networks}}) as sidecar:
        for host in (sidecar.inside, sidecar.inside6):
            with Upstream(answer(), host=host) as upstream, to(upstream) as caller:
                told = caller.request("GET", "/", {"Host": "good.example"}).answer()
                assert (told.status, told.outcome.reason) == (403, "egress_denied")
                assert upstream.connections == []
            for talk, said in ((smtp, b""), (smtp, CLIENT_HELLO)):
                with Upstream(talk=talk, host=host) as upstream, to(upstream) as caller:
                    if said:
                        caller.send(said)
                    assert caller.rest() == b""
                    [record] = opaque_ones(sidecar, host, upstream.port)
                    assert (record["reason"], record["outcome"]) == ("egress_denied", "refused")
                    assert upstream.connections == []
