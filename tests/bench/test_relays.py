"""Every proxy of the comparison relays what it is measured for, and one that does less is found out."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from bench.__main__ import PEERS
from bench.authority import Certificate, issued
from bench.comparison.relays import Far, refuse_strangers, verify
from bench.comparison.scenarios import SCENARIOS, Scenario
from bench.peers.bare_aiohttp import BareAiohttp
from bench.peers.base import Peer, Site, room_for
from bench.procs import HOST, Cores, Failed, Missing, Plan, free_port, running
from bench.upstream import Secured, nginx

ANYWHERE = Cores(None, None)
BY_KEY = {each.key: each for each in SCENARIOS}


@dataclass(frozen=True)
class Upstream:
    plain: Far
    secured: Far
    certificate: Certificate


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    room = tmp_path_factory.mktemp("nginx")
    secured = Secured(free_port(), issued(room))
    try:
        plan = nginx(room, secured)
    except Missing as gap:
        pytest.skip(str(gap))
    with running(plan, None):
        yield Upstream(Far(plan.port, room), Far(secured.port, room), secured.certificate)


def planned(peer: Peer, site: Site) -> Plan:
    try:
        return peer.plan(site)
    except Missing as gap:
        pytest.skip(str(gap))


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_relays_calls_bodies_and_connections(peer: Peer, upstream: Upstream, tmp_path: Path) -> None:
    """All that the scenarios without TLS ask of it."""
    far = upstream.plain
    with running(planned(peer, Site(far.port, room_for(tmp_path, peer.name))), None) as proxy:
        for scenario in SCENARIOS:
            if not scenario.tls:
                verify(scenario, peer.name, proxy.plan.port, far)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_each_that_speaks_tls_verifies_the_other_side(peer: Peer, upstream: Upstream, tmp_path: Path) -> None:
    """It takes what its authority vouches for, and nothing else."""
    far = upstream.secured
    site = Site(far.port, room_for(tmp_path, peer.name), upstream.certificate.ca)
    with running(planned(peer, site), None) as proxy:
        verify(BY_KEY["tls"], peer.name, proxy.plan.port, far)
    refuse_strangers(BY_KEY["tls"], peer, far.port, tmp_path, ANYWHERE)


@dataclass(frozen=True)
class Trusting:
    """Whatever authority it is told to trust, it trusts another."""

    ca: Path
    name: str = "trusting"

    def plan(self, site: Site) -> Plan:
        return BareAiohttp(self.name).plan(replace(site, ca=self.ca))


def test_one_that_takes_any_certificate_is_found_out(upstream: Upstream, tmp_path: Path) -> None:
    """Encryption to whoever answers is cheaper than it should be."""
    peer = Trusting(upstream.certificate.ca)
    with pytest.raises(Failed, match="takes any certificate"):
        refuse_strangers(BY_KEY["tls"], peer, upstream.secured.port, tmp_path, ANYWHERE)


@contextmanager
def faulty(
    *, status: int = 200, cut: int = 0, other_body: bool = False, close: bool | None = None
) -> Iterator[int]:
    """A proxy that relays, but for one fault. Yields its port."""

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            link = HTTPConnection(self.headers["Host"], timeout=5)
            link.request(self.command, self.path, body=body.upper() if other_body else body)
            answer = link.getresponse().read()
            link.close()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer) - cut))
            closes = self.headers.get("Connection") == "close" if close is None else close
            self.send_header("Connection", "close" if closes else "keep-alive")
            self.end_headers()
            self.wfile.write(answer[: len(answer) - cut])
            self.close_connection = closes

        do_POST = do_GET  # noqa: N815 - the name is the library's

        def log_message(self, *args: object) -> None:
            pass

    with socketserver.ThreadingTCPServer((HOST, 0), Relay) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if not each.tls], ids=lambda each: each.key)
def test_a_proxy_without_fault_passes(scenario: Scenario, upstream: Upstream) -> None:
    """The others are found out for their fault, and for nothing else."""
    with faulty() as port:
        verify(scenario, "faultless", port, upstream.plain)


@pytest.mark.parametrize(
    ("key", "fault", "said"),
    [
        ("get", {"status": 203}, "status 203"),
        ("large", {"cut": 1}, "65535 bytes; expected 200 and 65536"),
        ("post-8k", {"other_body": True}, "body did not arrive"),
        ("get", {"close": True}, "connection is closed"),
        ("close", {"close": False}, "connection is kept"),
    ],
)
def test_a_proxy_that_does_less_is_found_out(
    key: str, fault: dict[str, int], said: str, upstream: Upstream
) -> None:
    """Before it is loaded, and by what is wrong with it."""
    with faulty(**fault) as port, pytest.raises(Failed, match=said):  # type: ignore[arg-type]
        verify(BY_KEY[key], "faulty", port, upstream.plain)


def test_a_proxy_that_is_not_there_is_told_of_by_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The run goes on without it."""
    monkeypatch.setattr("bench.peers.base._APART", tmp_path)
    told = []
    for peer in PEERS:
        if peer.name in ("mitmproxy", "proxy.py", "smokescreen"):
            with pytest.raises(Missing) as gap:
                peer.plan(Site(1, tmp_path))
            told.append(str(gap.value))
    assert told == [
        "smokescreen is not in .venv-peers: install Go, then make bench installs it",
        "proxy is not in .venv-peers: make bench installs it",
        "mitmdump is not in .venv-peers: make bench installs it",
    ]
