"""Connections that iptables led to the sidecar, and that are not HTTP/1.1: they pass untouched, each burst in its time."""

from __future__ import annotations

import hashlib
import random
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from tests.support.behaviours import echo
from tests.support.callers import Caller, render
from tests.support.ports import free_port
from tests.support.upstream import Upstream, Wire
from tests.support.waiting import eventually, now_ms
from tests.ways.apart import Redirected
from tests.ways.redirection import CAP, CLIENT_HELLO, FIRST, IDLE, QUIET, opaque_ones, smtp, to
from tests.ways.tunnels import echo as parrot
from tests.ways.tunnels import flood, report, reset_when_spoken_to, silence

SLACK = 1500.0


# -- what is not HTTP/1.1 ------------------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
OPENINGS = {
    "a TLS ClientHello": [CLIENT_HELLO],
    "TLS in pieces": [b"\x16", b"\x03", CLIENT_HELLO[2:]],
    "an HTTP/2 preface": [PREFACE],
    "an HTTP/2 preface in pieces": [PREFACE[:10], PREFACE[10:]],
    "Redis": [b"*1\r\n$4\r\nPING\r\n"],
    "Redis by hand": [b"GET key\r\n"],
    "PostgreSQL": [b"\x00\x00\x00\x08\x04\xd2\x16\x2f"],
    "SSH": [b"SSH-2.0-OpenSSH_9.6\r\n"],
    "NATS": [b'CONNECT {"verbose":false}\r\n'],
    "anything": [b"\xff\x00\xfe"],
}


@pytest.mark.parametrize("what", OPENINGS)
def test_it_passes_untouched(led: Redirected, inside: str, what: str) -> None:
    """Byte by byte, both ways, and in a record of its own."""
    way = 'waterclock_opaque_connections_total{way="redirected"}'
    before = led.samples().get(way, 0)
    sent = b"".join(OPENINGS[what])
    with Upstream(talk=parrot, host=inside) as upstream, to(upstream) as caller:
        for piece in OPENINGS[what]:
            caller.send(piece)
            time.sleep(0.01)
        assert caller.exactly(len(sent)) == sent
        noise = random.Random(what).randbytes(300_000)
        caller.add(noise).half_close()
        assert caller.rest() == noise
        upstream.wait(lambda up: not up.open)
        assert bytes(upstream.connections[0].received) == sent + noise
        assert len(upstream.connections) == 1
    (record,) = opaque_ones(led, inside, upstream.port)
    assert (record["method"], record["kind"], record["outcome"]) == ("CONNECT", "opaque", "completed")
    assert record["effect"] == "reported"
    assert record["bytes"] == len(sent) + len(noise)
    assert led.samples()[way] == before + 1


def test_real_tls_is_between_the_two(led: Redirected, ca: trustme.CA, ca_file: Path, inside: str) -> None:
    """The client sees the server's own certificate, and nobody reads what they say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("tool.example").configure_cert(context)
    trusting = ssl.create_default_context(cafile=str(ca_file))
    with Upstream(echo(), host=inside, tls=context) as upstream:
        with (
            socket.create_connection((inside, upstream.port), 10) as plain,
            trusting.wrap_socket(plain, server_hostname="tool.example") as secure,
        ):
            secure.sendall(render("POST", "/x", {"Host": "tool.example"}, b"tea"))
            assert secure.recv(1000).endswith(b"tea")
        (request,) = upstream.whole
        assert [name for name, _ in request.fields] == ["host", "content-length"]


def test_a_server_that_speaks_first(led: Redirected, inside: str) -> None:
    """A client that waits for its greeting gets it a moment later, and then they go on by themselves."""
    with Upstream(talk=smtp, host=inside) as upstream, to(upstream) as caller:
        begun = now_ms()
        assert caller.until(b"\r\n") == b"220 mail.example ready\r\n"
        assert now_ms() - begun < FIRST + SLACK
        for _ in range(3):
            caller.add(b"EHLO me\r\n")
            assert caller.until(b"\r\n") == b"250 EHLO me\r\n"
        caller.half_close()
        assert caller.rest() == b""
        assert len(upstream.connections) == 1


def test_servers_that_speak_first_are_held_like_others(led_hastily: Redirected) -> None:
    """However soon the greeting came: in use they stay, silent they are closed, and each leaves one record."""
    with Upstream(talk=smtp, host=led_hastily.inside) as upstream, ThreadPoolExecutor(20) as threads:

        def converse(_: int) -> None:
            with to(upstream) as caller:
                assert caller.until(b"\r\n").startswith(b"220 ")
                end = now_ms() + 1.3 * IDLE
                while now_ms() < end:
                    time.sleep(2 * QUIET / 1000)
                    caller.add(b"NOOP\r\n")
                    assert caller.until(b"\r\n") == b"250 NOOP\r\n"
                begun = now_ms()
                assert caller.rest() == b""
                assert IDLE * 0.9 <= now_ms() - begun < IDLE + SLACK

        list(threads.map(converse, range(20)))
    led_hastily.at_rest()
    assert {
        record["reason"] for record in opaque_ones(led_hastily, led_hastily.inside, upstream.port, 20)
    } == {"idle"}


def test_a_server_that_speaks_and_leaves(led: Redirected) -> None:
    """As a database does that takes no more clients: its reason arrives."""

    async def full(wire: Wire) -> None:
        await wire.send(b"\xffToo many connections")

    with Upstream(talk=full, host=led.inside) as upstream:
        for _ in range(4):
            with to(upstream) as caller:
                assert caller.rest() == b"\xffToo many connections"


@pytest.mark.parametrize("said", [b"hello\r\n", b"QUIT", b"", b"\x16\x03\x01"])
def test_a_client_that_ends_its_side_early(led: Redirected, inside: str, said: bytes) -> None:
    """Before the other side is open: what it said is all of its question, and it waits for the answer."""
    with Upstream(talk=report, host=inside) as upstream, to(upstream) as caller:
        caller.send(said).half_close()
        assert caller.rest() == b"%d" % len(said)
        assert len(upstream.connections) == 1


def test_a_client_that_only_knocks(led: Redirected) -> None:
    """`nc -z`: it connects and leaves. There was no call, so there is no record, and nothing is opened."""
    with Upstream(talk=smtp, host=led.inside) as upstream:
        for number in range(20):
            to(upstream).leave(reset=number % 2 == 0)
        led.at_rest()
        time.sleep(1.5 * FIRST / 1000)
        assert upstream.connections == []
        assert not [record for record in led.records if str(upstream.port) in record["target"]]


def test_mebibytes_both_ways(led: Redirected, inside: str) -> None:
    noise = random.Random(9).randbytes(4 * 1024 * 1024)
    with (
        Upstream(talk=parrot, host=inside) as upstream,
        to(upstream) as caller,
        ThreadPoolExecutor(1) as thread,
    ):
        thread.submit(lambda: caller.send(b"\x00" + noise).half_close())
        digest = hashlib.sha256()
        while data := caller.receive(1_000_000):
            digest.update(data)
        assert digest.digest() == hashlib.sha256(b"\x00" + noise).digest()


# -- time ----------------------------------------------------------------------------------------------------------


def test_a_burst_that_takes_too_long_is_cut(led_hastily: Redirected) -> None:
    with Upstream(talk=silence, host=led_hastily.inside) as upstream, to(upstream) as caller:
        time.sleep(0.05)
        begun = now_ms()
        caller.send(b"*1\r\n$4\r\nPING\r\n")
        assert caller.rest() == b""
        assert CAP <= now_ms() - begun < CAP + SLACK
        assert caller.ended_by == "reset"
        (record,) = opaque_ones(led_hastily, led_hastily.inside, upstream.port)
        assert (record["kind"], record["outcome"], record["reason"]) == (
            "opaque",
            "deadline_exceeded",
            "route_cap",
        )
        assert record["effect"] == "uncertain"
        upstream.wait(lambda up: not up.open)


def test_an_idle_one_outlives_the_cap(led_hastily: Redirected) -> None:
    with Upstream(talk=parrot, host=led_hastily.inside) as upstream, to(upstream) as caller:
        for _ in range(3):
            caller.send(b"\x00ping")
            assert caller.exactly(5) == b"\x00ping"
            time.sleep((CAP + 50) / 1000)
        assert led_hastily.gauges()["opaque_connections_active"] == 1


def test_two_that_say_nothing_are_closed(led_hastily: Redirected) -> None:
    """Neither side has spoken, so that nobody knows what it is; it is not kept for ever."""
    with Upstream(talk=silence, host=led_hastily.inside) as upstream, to(upstream) as caller:
        begun = now_ms()
        assert caller.rest() == b""
        assert IDLE <= now_ms() - begun < IDLE + SLACK
        upstream.wait(lambda up: not up.open)
    led_hastily.at_rest()


def test_a_client_that_never_reads(led_hastily: Redirected) -> None:
    before = led_hastily.open_files()
    with Upstream(talk=flood, host=led_hastily.inside) as upstream, to(upstream):
        upstream.wait(lambda up: up.connections)
        upstream.wait(lambda up: not up.open)
        eventually(lambda: led_hastily.open_files() <= before, what="its descriptors are closed")


# -- nothing left --------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of client: what it says first, and how it leaves."""

    says: bytes
    resets: bool


def test_hundreds_leave_nothing_behind(led: Redirected) -> None:
    """Of every kind, leaving at any moment."""
    led.at_rest()
    before = led.open_files()
    says = [
        b"",
        b"G",
        b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03",
        CLIENT_HELLO,
        b"*1\r\n$4\r\nPING\r\n",
    ]
    kinds = [Kind(word, resets) for word in says for resets in (False, True)] * 20
    random.Random(3).shuffle(kinds)
    servers = [
        Upstream(talk=talk, host=led.inside).start() for talk in (smtp, parrot, reset_when_spoken_to, silence)
    ]
    closed = free_port()

    def visit(row: tuple[int, Kind]) -> None:
        number, kind = row
        chance = random.Random(number)
        server = chance.choice([*servers, None])
        with Caller((led.inside, server.port if server is not None else closed)) as caller:
            caller.send(kind.says)
            time.sleep(chance.choice([0, 0, 0.001, 0.02, 0.11]))
            caller.leave(reset=kind.resets)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(visit, enumerate(kinds)))
    led.at_rest()
    eventually(lambda: led.open_files() <= before, what="as many descriptors as before")
    for server in servers:
        server.wait(lambda up: not up.open)
        server.stop()
    assert len({record["record"] for record in led.records}) == len(led.records)
