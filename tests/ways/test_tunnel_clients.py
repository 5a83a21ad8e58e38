"""Real clients that speak TLS through a tunnel: what passes is theirs alone, and what is cut they cannot take for whole."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import aiohttp
import httpx
import pytest
import requests
import trustme

from tests.support.behaviours import Framing, answer, drip, echo, stall
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import now_ms
from tests.ways.tunnels import Tunnel

SLACK = 2500.0
CAP, QUIET = 300, 80


class Fetched(NamedTuple):
    """What a client made of one call after the other: the bodies that it took for whole, and what it raised then."""

    bodies: list[bytes]
    failure: str | None = None


def by_requests(proxy: str, ca: Path, urls: list[str], body: bytes) -> Fetched:
    bodies: list[bytes] = []
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"https": proxy}
        session.verify = str(ca)
        try:
            bodies.extend(session.post(url, data=body, timeout=20).content for url in urls)
        except requests.RequestException as failure:
            return Fetched(bodies, repr(failure))
    return Fetched(bodies)


def by_httpx(proxy: str, ca: Path, urls: list[str], body: bytes) -> Fetched:
    bodies: list[bytes] = []
    context = ssl.create_default_context(cafile=str(ca))
    with httpx.Client(proxy=proxy, verify=context, trust_env=False, timeout=20) as client:
        try:
            bodies.extend(client.post(url, content=body).content for url in urls)
        except httpx.HTTPError as failure:
            return Fetched(bodies, repr(failure))
    return Fetched(bodies)


def by_aiohttp(proxy: str, ca: Path, urls: list[str], body: bytes) -> Fetched:
    async def fetch() -> Fetched:
        bodies: list[bytes] = []
        context = ssl.create_default_context(cafile=str(ca))
        async with aiohttp.ClientSession() as session:
            try:
                for url in urls:
                    async with session.post(url, data=body, proxy=proxy, ssl=context) as response:
                        bodies.append(await response.read())
            except (aiohttp.ClientError, ConnectionError) as failure:
                return Fetched(bodies, repr(failure))
        return Fetched(bodies)

    return asyncio.run(fetch())


def by_curl(proxy: str, ca: Path, urls: list[str], body: bytes) -> Fetched:
    command = ["curl", "-sS", "-N", "-x", proxy, "--cacert", str(ca), "--data-binary", "@-"]
    marks = ["-w", "\n--", *urls]
    done = subprocess.run([*command, *marks], input=body, capture_output=True, timeout=30, check=False)
    bodies = done.stdout.split(b"\n--")[:-1]
    if done.returncode:
        return Fetched(bodies[:-1], done.stderr.decode())
    return Fetched(bodies)


CLIENTS: dict[str, Callable[[str, Path, list[str], bytes], Fetched]] = {
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
}
if shutil.which("curl"):
    CLIENTS["curl"] = by_curl

every_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def context(ca: trustme.CA) -> ssl.SSLContext:
    """A server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def impatient() -> Iterator[Sidecar]:
    """A sidecar that gives each burst a little time."""
    with Sidecar(f"{{fallback: {{cap: {CAP}ms}}, tunnel: {{quiet: {QUIET}ms}}}}") as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def tells_resets(ca_file: Path, context: ssl.SSLContext) -> bool:
    """Whether this Python's TLS tells a reset from an end at all (python/cpython#115627)."""
    trusting = ssl.create_default_context(cafile=str(ca_file))
    with (
        Upstream(drip([b"x"], framing="close", then="reset"), tls=context) as upstream,
        socket.create_connection((upstream.host, upstream.port), 10) as plain,
        trusting.wrap_socket(plain, server_hostname=upstream.host) as secure,
    ):
        secure.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        try:
            while secure.recv(1000):
                pass
        except OSError:
            return True
        return False


@every_client
def test_calls_follow_each_other_through_one_tunnel(
    sidecar: Sidecar, budget: str, ca_file: Path, context: ssl.SSLContext, client: str
) -> None:
    """One CONNECT, one record, and not a word of the sidecar's in what the two say to each other."""
    body = bytes(range(256)) * 2000
    with Upstream(echo(), tls=context) as upstream:
        urls = [upstream.url(f"/{number}") for number in range(4)]
        fetched = CLIENTS[client](sidecar.budget_url(budget, 30_000), ca_file, urls, body)
        assert fetched == Fetched([body] * 4)
        assert len(upstream.connections) == 1
        for request in upstream.whole:
            assert not [name for name, _ in request.fields if name.startswith(("budget-", "via", "proxy-"))]
    (record,) = sidecar.records_of(budget)
    assert (record["method"], record["kind"], record["outcome"]) == ("CONNECT", "opaque", "completed")
    assert record["bytes"] > 4 * len(body)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_pooled_connection_outlives_the_cap(
    impatient: Sidecar, ca_file: Path, context: ssl.SSLContext, version: ssl.TLSVersion
) -> None:
    """Between its calls a client's pool keeps it for as long as it likes."""
    trusting = ssl.create_default_context(cafile=str(ca_file))
    trusting.maximum_version = version
    page = b"x" * 2000
    with Upstream(answer(page), tls=context) as upstream, Tunnel(impatient, upstream.authority) as tunnel:
        with trusting.wrap_socket(tunnel.socket, server_hostname=upstream.host) as secure:
            for _ in range(2):
                secure.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                received = b""
                while not received.endswith(page):
                    received += secure.recv(10_000)
                time.sleep(1.2 * CAP / 1000)
        assert impatient.record(tunnel.opened.record)["outcome"] == "completed"
        assert len(upstream.connections) == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_the_first_call_is_held_to_the_cap(
    impatient: Sidecar, ca_file: Path, context: ssl.SSLContext, version: ssl.TLSVersion
) -> None:
    """What a server says by itself when a handshake is over (RFC 8446 §4.6.1) is no answer to it."""
    trusting = ssl.create_default_context(cafile=str(ca_file))
    trusting.maximum_version = version
    with Upstream(stall(), tls=context) as upstream, Tunnel(impatient, upstream.authority) as tunnel:
        begun = now_ms()
        with trusting.wrap_socket(tunnel.socket, server_hostname=upstream.host) as secure:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            with contextlib.suppress(OSError):
                assert secure.recv(1000) == b""
        assert CAP <= now_ms() - begun < CAP + SLACK
        record = impatient.record(tunnel.opened.record)
        assert (record["outcome"], record["reason"]) == ("deadline_exceeded", "route_cap")
        assert record["effect"] == "uncertain"
        assert len(upstream.whole) == 1


@every_client
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_what_is_cut_is_whole_to_nobody(
    sidecar: Sidecar,
    budget: str,
    ca_file: Path,
    context: ssl.SSLContext,
    tells_resets: bool,
    client: str,
    framing: Framing,
) -> None:
    """Least of all where the end of the connection is the end of the body: many a TLS client takes a FIN for one."""
    if framing == "close" and client != "curl" and not tells_resets:
        pytest.skip("the TLS of this Python takes even a reset for an end (python/cpython#115627)")
    version = "1.0" if framing == "close" else "1.1"
    with Upstream(drip(every=0.01, framing=framing, version=version), tls=context) as upstream:
        begun = now_ms()
        fetched = CLIENTS[client](sidecar.budget_url(budget, 350), ca_file, [upstream.url("/")], b"{}")
        assert 350 <= now_ms() - begun < 350 + SLACK
        assert fetched.bodies == []
        assert fetched.failure
        (record,) = sidecar.records_of(budget)
        assert (record["outcome"], record["effect"], record["reason"]) == (
            "deadline_exceeded",
            "uncertain",
            "budget_remaining",
        )
        upstream.wait(lambda up: not up.open)


@every_client
def test_what_is_refused_is_told(
    sidecar: Sidecar, budget: str, ca_file: Path, context: ssl.SSLContext, client: str
) -> None:
    """A client that gets no tunnel says so, with the status at least."""
    with Upstream(answer(), tls=context) as upstream:
        fetched = CLIENTS[client](sidecar.budget_url(budget, 0), ca_file, [upstream.url("/")], b"{}")
        assert fetched.bodies == []
        assert "403" in (fetched.failure or "")
        assert upstream.connections == []
    (record,) = sidecar.records_of(budget)
    assert (record["outcome"], record["reason"]) == ("refused", "budget_exhausted")


@every_client
def test_certificates_are_the_clients_business(
    sidecar: Sidecar, tmp_path: Path, context: ssl.SSLContext, client: str
) -> None:
    """The sidecar reads no TLS that is not its own: the client checks who it speaks with."""
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    with Upstream(answer(), tls=context) as upstream:
        fetched = CLIENTS[client](sidecar.proxy_url, other, [upstream.url("/")], b"{}")
        assert fetched.bodies == []
        assert "certificate" in (fetched.failure or "").lower()
        assert upstream.requests == []
