"""The ways in that are not a plain call: TLS spoken for the caller, loops, upgrades, tunnels, base-URL routes."""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.sync.client import connect as websocket_connect

from tests.support.behaviours import answer, drip, echo, stall, upgrade
from tests.support.callers import Caller, call, render
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Exchange, Upstream, Wire
from tests.support.waiting import eventually

SLACK = 1500.0


class Authority:
    """A certificate authority, its file, and servers that it vouches for."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def server(self, *names: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert(*names).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> Iterator[Sidecar]:
    """A sidecar that trusts this authority."""
    with Sidecar(f"fallback: {{ca: {authority.file}}}") as sidecar:
        yield sidecar


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_absolute_https_in_plain(trusting: Sidecar, authority: Authority, method: str) -> None:
    """`POST https://host/path` over the plain port: the sidecar speaks TLS for the caller (axios/axios#4531)."""
    with Upstream(echo(), tls=authority.server("localhost", "127.0.0.1")) as upstream:
        body = b"{}" if method != "GET" else b""
        for host in ("127.0.0.1", "localhost"):
            target = f"https://{host}:{upstream.port}/path?q=1"
            told = call(trusting, method, target, body=body)
            assert (told.status, told.body) == (200, body)
            assert upstream.whole[-1].target == "/path?q=1"
            assert upstream.whole[-1].get("host") == f"{host}:{upstream.port}"


def test_absolute_https_in_plain_is_cut_and_guarded_like_any_other(
    trusting: Sidecar, authority: Authority
) -> None:
    """TLS takes nothing away from what is promised."""
    with Upstream(stall(), tls=authority.server("127.0.0.1")) as upstream:
        for method, status in (("GET", 504), ("POST", 424)):
            told = call(trusting, method, upstream.url(), headers={"Budget-Remaining-Ms": 200}, body=b"{}")
            assert told.status == status
            assert 200 <= told.after < 200 + SLACK


def test_absolute_https_in_plain_to_who_cannot_be_trusted(sidecar: Sidecar, authority: Authority) -> None:
    """A certificate that nobody vouches for is a clear 502 that says what to set, and nothing was sent."""
    with Upstream(answer(), tls=authority.server("127.0.0.1")) as upstream:
        told = call(sidecar, "POST", upstream.url(), body=b"{}")
        assert told.status == 502
        assert told.outcome.reason == "tls_certificate_error"
        assert (told.outcome.effect, told.outcome.phase) == ("none", "not_sent")
        assert "`ca`" in told.problem["detail"]
        assert upstream.requests == []


def test_absolute_https_in_plain_to_who_speaks_none(trusting: Sidecar) -> None:
    """A server that speaks no TLS is a clear 502 too, and one that never answers the handshake a 504 in time."""
    with Upstream(answer()) as upstream:
        told = call(trusting, "GET", f"https://{upstream.authority}/")
        assert told.status == 502
        assert told.outcome.reason in ("tls_protocol_error", "connection_terminated")

    async def silent(wire: Wire) -> None:
        await wire.until_left()

    with Upstream(talk=silent) as upstream:
        told = call(
            trusting,
            "POST",
            f"https://{upstream.authority}/",
            headers={"Budget-Remaining-Ms": 150},
            body=b"{}",
        )
        assert told.status == 504
        assert told.outcome.phase == "not_sent"
        assert 150 <= told.after < 150 + SLACK
        upstream.wait(lambda up: not up.open, within=3)


@pytest.mark.parametrize("port", ["outbound", "control", "metrics"])
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.0.0.2",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::]",
    ],
)
def test_sidecar_talks_to_itself(sidecar: Sidecar, host: str, port: str) -> None:
    """Whatever leads back here is told so, and does not go round."""
    authority = f"{host}:{getattr(sidecar, port)}"
    before = len(sidecar.records)
    for method in ("GET", "POST"):
        told = call(sidecar, method, f"http://{authority}/x", body=b"{}" if method == "POST" else b"")
        assert told.status == 508, "in absolute form"
        assert told.outcome.reason == "loop"
        assert "sidecar itself" in told.problem["detail"]
    assert call(sidecar, "GET", "/x", headers={"Host": authority}).status == 508, "by its Host"
    assert call(sidecar, "CONNECT", authority, headers={"Host": authority}).status == 508, "through a tunnel"
    eventually(lambda: len(sidecar.records) == before + 4, what="one record each: nothing went round")


@pytest.mark.parametrize(
    "name", ["localhost.localdomain", "127.1", "2130706433", "0x7f000001", "ip6-localhost"]
)
def test_sidecar_talks_to_itself_by_another_name(sidecar: Sidecar, name: str) -> None:
    """A name that turns out to lead back is found out when it is looked up. Some are no names at all: refused too."""
    told = call(sidecar, "GET", f"http://{name}:{sidecar.outbound}/", headers={"Budget-Remaining-Ms": 2000})
    assert told.status in (508, 502, 504, 400)
    assert told.outcome.phase == "not_sent"
    assert told.after < 2000 + SLACK


def test_sidecar_talks_to_itself_by_a_route_or_a_parent() -> None:
    """A base-URL route or a parent proxy that names the sidecar is no way round either."""
    port = free_port()
    policy = f"""
    listen: {{outbound: "127.0.0.1:{port}"}}
    routes:
      - {{name: round, prefix: /round, upstream: "http://127.0.0.1:{port}/round"}}
    connections: {{proxy: "http://127.0.0.1:{port}", no_proxy: [127.0.0.1]}}
    """
    sidecar = Sidecar(policy)
    sidecar.outbound = port
    with sidecar:
        assert call(sidecar, "GET", "/round/x").status == 508
        assert call(sidecar, "GET", "http://example.com/").status == 508
        assert call(sidecar, "CONNECT", "example.com:443", headers={"Host": "example.com"}).status == 508
        eventually(lambda: len(sidecar.records) == 3)


WEBSOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
    "Sec-WebSocket-Version": "13",
}


@pytest.mark.parametrize("silence", [0.0, 0.05], ids=["at once", "after early bytes"])
def test_websocket_upgrade_is_timed(sidecar: Sidecar, budget: str, silence: float) -> None:
    """An upgrade that the server never answers is cut at the allowance (envoyproxy/envoy#41068)."""
    with Upstream(stall()) as upstream, Caller(sidecar) as caller:
        headers = WEBSOCKET | {"Budget-Remaining-Ms": 150, "Budget-Id": budget}
        caller.request("GET", upstream.url("/ws"), headers)
        if silence:
            time.sleep(silence)
            caller.add(b"\x81\x00")  # a client that does not wait for the agreement
        told = caller.answer()
        assert told.status == 504
        assert silence * 1000 < told.after < 150 + SLACK
        assert sidecar.records_of(budget)[0]["elapsed_ms"] >= 150
        upstream.wait(lambda up: not up.open, within=3)
        assert bytes(upstream.connections[0].received).count(b"\x81\x00") == 0


def test_websocket_upgrade_that_succeeds_ends_by_the_budget(sidecar: Sidecar, budget: str) -> None:
    """Relayed both ways from the first byte on, and ended by its budget."""
    with Upstream(upgrade(greeting=b"hello")) as upstream, Caller(sidecar) as caller:
        headers = WEBSOCKET | {"Budget-Remaining-Ms": 300, "Budget-Id": budget}
        told = caller.request("GET", upstream.url("/ws"), headers).answer()
        assert told.status == 101
        assert told.get("upgrade") == "websocket"
        assert told.get("connection") == "Upgrade"
        assert told.get("budget-allowed-ms") == "300"
        assert caller.exactly(5) == b"hello"
        for number in range(5):
            message = b"message %d" % number
            assert caller.add(message).exactly(len(message)) == message
        assert caller.rest() == b""
        (record,) = sidecar.records_of(budget)
        assert (record["outcome"], record["kind"]) == ("deadline_exceeded", "opaque")
        assert record["elapsed_ms"] >= 300
        upstream.wait(lambda up: not up.open)


def test_websocket_upgrade_without_a_budget_is_a_standing_ear() -> None:
    """No step that is timed, but ended for silence."""
    with (
        Sidecar("subscription: {idle: 200ms}\nfallback: {cap: 50ms}") as sidecar,
        Upstream(upgrade()) as upstream,
    ):
        with Caller(sidecar) as caller:
            assert caller.request("GET", upstream.url("/ws"), WEBSOCKET).answer().status == 101
            for _ in range(4):
                time.sleep(0.1)
                assert caller.add(b"ping").exactly(4) == b"ping", "alive, and longer than the cap"
            began = time.monotonic()
            assert caller.rest() == b""
            assert 0.15 < time.monotonic() - began < 2
        sidecar.at_rest()


def test_event_subscription_without_a_budget_is_a_standing_ear() -> None:
    """A GET that accepts an event stream and nothing else is one too."""
    pieces = [b"data: %d\n\n" % number for number in range(4)]
    stream = drip(pieces, every=0.1, headers=[("Content-Type", "text/event-stream")], then="stall")
    with (
        Sidecar("subscription: {idle: 200ms}\nfallback: {cap: 50ms}") as sidecar,
        Upstream(stream) as upstream,
    ):
        told = call(sidecar, "GET", upstream.url(), headers={"Accept": "text/event-stream"})
        assert told.status == 200
        assert not told.complete
        assert told.body.startswith(b"".join(pieces))
        assert told.after > 450
        assert call(sidecar, "GET", upstream.url()).after < 300, "any other call is held to its cap"


def test_websocket_of_a_real_client(sidecar: Sidecar) -> None:
    """A real WebSocket client through CONNECT, as it uses a proxy; and through an upgrade that is relayed."""
    from websockets.sync.server import ServerConnection, serve

    def echo_messages(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(message)

    with serve(echo_messages, "127.0.0.1", free_port()) as server, ThreadPoolExecutor() as threads:
        running = threads.submit(server.serve_forever)
        host, port = server.socket.getsockname()[:2]
        by_tunnel = websocket_connect(f"ws://{host}:{port}/", proxy=sidecar.proxy_url)
        relayed = websocket_connect(
            f"ws://{host}:{port}/", proxy=None, sock=socket.create_connection(sidecar.address)
        )
        for connection in (by_tunnel, relayed):
            with connection:
                for size in (1, 1000, 200_000):
                    connection.send("x" * size)
                    assert connection.recv() == "x" * size
        server.shutdown()
        running.result()
    sidecar.at_rest()


def _tunnel(caller: Caller, authority: str, **headers: Any) -> int:
    caller.send(render("CONNECT", authority, {"Host": authority} | headers))
    head = caller.until(b"\r\n\r\n")
    return int(head.split()[1])


async def _echo(wire: Wire) -> None:
    while data := await wire.receive():
        await wire.send(data)


def test_tunnel_times_bursts_and_not_its_age() -> None:
    """A pool keeps a tunnel across jobs: each burst has its time, and the silence between them has none."""
    answers_after = 0.0

    async def slow_echo(wire: Wire) -> None:
        while data := await wire.receive():
            await wire.sleep(answers_after)
            await wire.send(data)

    with (
        Sidecar("fallback: {cap: 200ms}\ntunnel: {quiet: 50ms, idle: 1s}") as sidecar,
        Upstream(talk=slow_echo) as upstream,
        Caller(sidecar) as caller,
    ):
        assert _tunnel(caller, upstream.authority) == 200
        for _ in range(4):
            assert caller.add(b"ping").exactly(4) == b"ping"
            time.sleep(0.1)
        answers_after = 1.0
        began = time.monotonic()
        assert caller.add(b"ping").exactly(4) == b""
        assert 0.2 <= time.monotonic() - began < 0.2 + SLACK / 1000
        assert caller.ended_by == "reset"
        (record,) = eventually(lambda: sidecar.records)
        assert (record["outcome"], record["kind"], record["effect"]) == (
            "deadline_exceeded",
            "opaque",
            "uncertain",
        )
        assert record["elapsed_ms"] > 500
        sidecar.at_rest()


def test_tunnel_broken_off_by_the_client_is_broken_off_to_the_server(sidecar: Sidecar, budget: str) -> None:
    """A RST is not turned into a clean end on the way."""
    with Upstream(talk=_echo) as upstream:
        caller = Caller(sidecar)
        assert _tunnel(caller, upstream.authority, **{"Budget-Id": budget}) == 200
        caller.add(b"half a mess")
        assert caller.exactly(11)
        caller.leave(reset=True)
        upstream.wait(lambda up: not up.open)
        assert upstream.connections[0].reset
        assert sidecar.records_of(budget)[0]["outcome"] == "client_gone"


def test_tunnel_bounds_memory_both_ways() -> None:
    """A side that does not read makes the other one wait."""

    async def floods(wire: Wire) -> None:
        wire.deaf()
        for _ in range(4000):
            await wire.send(b"x" * 65_536)

    # A deaf upstream may take the caller's leaving for a clean end; then it is the idle time that ends the tunnel.
    policy = "tunnel: {idle: 2s}"
    with Sidecar(policy) as sidecar, Upstream(talk=floods) as upstream, Caller(sidecar) as caller:
        before = sidecar.memory_mib()
        assert _tunnel(caller, upstream.authority) == 200
        caller.socket.setblocking(False)
        sent, end = 0, time.monotonic() + 0.7
        while time.monotonic() < end:
            try:
                sent += caller.socket.send(b"y" * 1_000_000)
            except BlockingIOError:
                time.sleep(0.01)
        assert sidecar.memory_mib() - before < 25
        caller.leave(reset=True)
        sidecar.at_rest()


def test_own_fields_end_here(sidecar: Sidecar, budget: str) -> None:
    """What the caller sends under the budget's names never passes as it came, nor what a server sends; nor hop-by-hop."""
    forged = [
        ("Budget-Id", "forged"),
        ("Budget-Outcome", "completed"),
        ("Budget-Record", "x"),
        ("Budget-Remaining-Ms", "1"),
    ]
    with Upstream(answer(headers=[*forged, ("Keep-Alive", "timeout=5"), ("X-Kept", "1")])) as upstream:
        headers = {
            "Budget-Id": budget,
            "Budget-Remaining-Ms": 4000,
            "Budget-Depth": 2,
            "Budget-Stage": "llm",
            "Budget-Phase": "cleanup",
            "Budget-Outcome": "forged",
            "Proxy-Authorization": "Basic " + base64.b64encode(b"user:1").decode(),
            "Connection": "X-Hop, Content-Length, Budget-Id",
            "X-Hop": "1",
            "X-End": "2",
        }
        told = call(sidecar, "PUT", upstream.url(), headers=headers, body=b"{}")
        seen = upstream.whole[0]
        assert seen.get("budget-id") == budget
        assert 3000 < int(seen.get("budget-remaining-ms") or "") <= 4000
        assert seen.get("budget-depth") == "3"
        own = {name for name, _ in seen.fields if name.startswith("budget-")}
        assert own == {"budget-id", "budget-remaining-ms", "budget-depth"}
        assert seen.get("proxy-authorization") is None
        assert (seen.get("x-hop"), seen.get("x-end"), seen.get("content-length")) == (None, "2", "2")
        assert seen.get("connection") is None
        assert (told.get("budget-id"), told.record != "x", told.get("x-kept")) == (budget, True, "1")
        assert told.get("keep-alive") is None


def test_proxy_user_is_a_budget(sidecar: Sidecar) -> None:
    """A client whose headers nobody can change opens a budget by the proxy's URL, once."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    with Upstream(answer(), stall(), answer()) as upstream:
        command = [
            curl,
            "-s",
            "-x",
            sidecar.budget_url("job-of-curl", 700),
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ]
        statuses = [
            subprocess.run([*command, upstream.url()], capture_output=True, text=True, check=False).stdout
            for _ in range(3)
        ]
        assert statuses == ["200", "504", "403"]
        records = sidecar.records_of("job-of-curl", 3)
        assert [record["step"] for record in records] == [1, 2, 3]
        assert upstream.requests[0].get("proxy-authorization") is None


def test_observe_applies_nothing() -> None:
    """Every decision is made and recorded, and none is applied: the calls go on as if nobody had decided."""
    with (
        Sidecar("mode: observe\nfallback: {cap: 100ms}") as sidecar,
        Upstream(answer(after=0.25)) as upstream,
    ):
        rows: list[tuple[str, dict[str, Any], str]] = [
            ("GET", {}, "cut"),
            ("POST", {}, "cut"),
            ("GET", {"Budget-Remaining-Ms": 0}, "refuse"),
            ("PUT", {"Budget-Remaining-Ms": "x"}, "refuse"),
        ]
        for method, headers, would in rows:
            told = call(
                sidecar, method, upstream.url(), headers=headers, body=b"" if method == "GET" else b"{}"
            )
            assert (told.status, told.complete) == (200, True), (method, headers)
            record = sidecar.record(told.record)
            assert (record["outcome"], record["would"]) == ("completed", would)
        with Caller(sidecar) as caller:
            assert _tunnel(caller, upstream.authority, **{"Budget-Remaining-Ms": 0}) == 200
            caller.add(render("GET", "/", {"Host": "a"}))
            assert caller.answer().status == 200
        eventually(lambda: len(sidecar.records) == 5)
        assert sidecar.records[-1]["would"] == "refuse"
        # A body that takes longer than the allowance, and a repeat of what is in doubt, pass as well.
        with Caller(sidecar) as caller:
            caller.request("POST", upstream.url("/slow"), {"Content-Length": 2})
            time.sleep(0.2)
            assert caller.add(b"{}").answer("POST").status == 200
        upstream.then(_hangs_up, answer())
        assert call(sidecar, "POST", upstream.url("/d"), body=b"{}").status == 424, (
            "an upstream's failure is no decision"
        )
        told = call(sidecar, "POST", upstream.url("/d"), body=b"{}")
        assert told.status == 200
        assert sidecar.record(told.record)["would"] == "refuse"


async def _hangs_up(exchange: Exchange) -> None:
    await exchange.read_all()
    exchange.keep = False


def test_stopping_lets_answers_be_read(budget: str) -> None:
    """SIGTERM: an answer that has been sent is still on its way to a client that reads slowly, and reaches it whole."""
    with (
        Upstream(answer(b"x" * 20_000_000, after=0.2)) as upstream,
        Sidecar() as sidecar,
        Caller(sidecar) as caller,
    ):
        caller.request("GET", upstream.url(), {"Budget-Id": budget})
        upstream.wait(lambda up: up.whole)
        sidecar.signal(signal.SIGTERM)
        time.sleep(0.5)
        told = caller.answer()
        assert (told.status, told.complete, len(told.body)) == (200, True, 20_000_000)
        assert told.get("connection") == "close"
        assert sidecar.records_of(budget)[0]["outcome"] == "completed"


def test_stopping_breaks_off_visibly() -> None:
    """What the grace does not wait for ends so that nobody takes it for whole, also where only a close tells the end."""
    with (
        Upstream(drip(every=0.01, framing="close")) as upstream,
        Sidecar("shutdown: {grace: 100ms}") as sidecar,
        ThreadPoolExecutor() as threads,
    ):
        calls = [
            threads.submit(call, sidecar, "GET", upstream.url(), version=version)
            for version in ("1.0", "1.1")
        ]
        upstream.wait(lambda up: len(up.whole) == 2)
        time.sleep(0.1)
        assert sidecar.stop() == 0
        assert [each.result().complete for each in calls] == [False, False]
