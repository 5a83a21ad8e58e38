"""CONNECT: who may open a tunnel and where to, and what it is told."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.behaviours import answer
from tests.support.callers import Caller, call, render
from tests.support.ports import nobody_at
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually, now_ms
from tests.ways.names import Names
from tests.ways.tunnels import Tunnel, echo

SLACK = 1500.0


# -- opening -------------------------------------------------------------------------------------------------------


def test_what_a_tunnel_is_told(sidecar: Sidecar, budget: str) -> None:
    """The 200 carries the annotation, and no length: what follows are the tunnel's own bytes."""
    with (
        Upstream(talk=echo) as upstream,
        Tunnel(sidecar, upstream.authority, {"Budget-Id": budget, "Budget-Remaining-Ms": 9000}) as tunnel,
    ):
        opened = tunnel.opened
        assert (opened.status, opened.get("budget-id"), opened.get("budget-allowed-ms")) == (
            200,
            budget,
            "9000",
        )
        assert opened.outcome.outcome == "in_progress"
        assert 0 < int(opened.get("budget-remaining-ms") or "") <= 9000
        assert opened.get("content-length") is opened.get("transfer-encoding") is None
        tunnel.add(b"hello")
        assert tunnel.exactly(5) == b"hello"
        tunnel.half_close()
        assert tunnel.rest() == b""
        record = sidecar.record(opened.record)
        shown = {
            name: record[name] for name in ("method", "kind", "outcome", "effect", "phase", "bytes", "target")
        }
        assert shown == {
            "method": "CONNECT",
            "kind": "opaque",
            "outcome": "completed",
            "effect": "reported",
            "phase": "complete",
            "bytes": 5,
            "target": f"tcp://{upstream.authority}",
        }
        assert upstream.bytes == 5, "nothing of HTTP reaches the other side"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_that_come_with_the_request(sidecar: Sidecar, host: str) -> None:
    """A client that is in a hurry sends its first words before it is told that the tunnel stands."""
    with (
        Upstream(talk=echo, host=host) as upstream,
        Tunnel(sidecar, upstream.authority, first=b"early ") as tunnel,
    ):
        assert tunnel.status == 200
        tunnel.add(b"and late")
        assert tunnel.exactly(14) == b"early and late"


@pytest.fixture(scope="module")
def named(names: Names) -> Iterator[Sidecar]:
    """A sidecar that asks the test's own name server."""
    names.know(*(f"slow-{number}.example" for number in range(6)))
    with Sidecar(nameserver=names.address) as sidecar:
        yield sidecar


EARLY: dict[str, tuple[list[bytes], bool]] = {
    "nothing": ([b""], False),
    "a word and the end": ([b"abc"], True),
    "two words and the end": ([b"abc", b"def"], True),
    "much and the end": ([b"x" * 200_000], True),
}


@pytest.mark.parametrize("what", EARLY)
def test_bytes_that_come_while_it_is_being_opened(named: Sidecar, names: Names, what: str) -> None:
    """They wait, and so does their end."""
    pieces, ends = EARLY[what]
    host = f"slow-{list(EARLY).index(what)}.example"  # each is looked up anew
    with names.slowly(0.15), Upstream(talk=echo) as upstream, Caller(named) as caller:
        begun = now_ms()
        caller.send(render("CONNECT", f"{host}:{upstream.port}", {"Host": host}) + pieces[0])
        for piece in pieces[1:]:
            time.sleep(0.03)
            caller.add(piece)
        if ends:
            caller.half_close()
        assert caller.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        assert now_ms() - begun >= 150
        if ends:
            assert caller.rest() == b"".join(pieces)
    named.at_rest()


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_does_not_wait_for_it(named: Sidecar, names: Names, budget: str, reset: bool) -> None:
    """Whoever leaves while the name is looked up leaves nothing behind."""
    host = f"slow-{4 + reset}.example"
    with names.slowly(0.2), Upstream(talk=echo) as upstream:
        with Caller(named) as caller:
            caller.request("CONNECT", f"{host}:{upstream.port}", {"Host": host, "Budget-Id": budget})
            time.sleep(0.05)
            caller.leave(reset=reset)
        (record,) = named.records_of(budget)
        assert (record["outcome"], record["effect"]) == ("client_gone", "none")
        assert record["phase"] == "not_sent"
        named.at_rest()
        time.sleep(0.2)
        assert upstream.connections == []


def test_http_1_0_may_ask_too(sidecar: Sidecar) -> None:
    with Upstream(talk=echo) as upstream, Caller(sidecar) as caller:
        caller.send(f"CONNECT {upstream.authority} HTTP/1.0\r\n\r\n".encode())
        assert caller.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        caller.add(b"x")
        assert caller.exactly(1) == b"x"


def test_what_cannot_be_opened(named: Sidecar) -> None:
    """The caller is told as for any other call: nothing was sent, and it may try again."""
    with nobody_at() as port:
        told = call(named, "CONNECT", f"127.0.0.1:{port}", headers={"Host": "a"})
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (
        502,
        "connect_failed",
        "connection_refused",
    )
    assert (told.outcome.effect, told.outcome.phase, told.outcome.retry) == ("none", "not_sent", "safe")
    assert f"127.0.0.1:{port} refuses connections" in told.problem["detail"]
    record = named.record(told.record)
    assert (record["kind"], record["outcome"]) == ("opaque", "connect_failed")
    assert record["target"] == f"tcp://127.0.0.1:{port}"
    told = call(named, "CONNECT", "nobody.example:443", headers={"Host": "a"})
    assert (told.status, told.outcome.reason) == (502, "dns_error")


BAD_AUTHORITIES = [
    "/",
    "http://127.0.0.1:1/",
    "127.0.0.1:0",
    "127.0.0.1:70000",
    "me@127.0.0.1:1",
    "[::1",
    "::1:443",
    "a b:1",
]


@pytest.mark.parametrize("authority", BAD_AUTHORITIES)
def test_an_authority_that_is_none(sidecar: Sidecar, authority: str) -> None:
    told = call(sidecar, "CONNECT", authority, headers={"Host": "a"})
    assert (told.status, told.outcome.reason) == (400, "malformed")
    assert told.get("connection") == "close"


def test_content_on_a_connect(sidecar: Sidecar) -> None:
    """RFC 9110 §9.3.6: there is none. Some hop would take it for the first bytes of the tunnel."""
    with Upstream(talk=echo) as upstream:
        for headers in ({"Content-Length": 5}, {"Transfer-Encoding": "chunked"}):
            assert (
                call(sidecar, "CONNECT", upstream.authority, headers={"Host": "a", **headers}).status == 400
            )
        with Tunnel(sidecar, upstream.authority, {"Content-Length": 0}) as tunnel:
            assert tunnel.status == 200
        eventually(lambda: upstream.connections, what="the upstream accepts")
        assert len(upstream.connections) == 1


@pytest.mark.parametrize("port", ["outbound", "control", "metrics"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.9.9.9"])
def test_no_tunnel_to_the_sidecar(sidecar: Sidecar, host: str, port: str) -> None:
    told = call(sidecar, "CONNECT", f"{host}:{getattr(sidecar, port)}", headers={"Host": "a"})
    assert (told.status, told.outcome.reason, told.outcome.effect) == (508, "loop", "none")


def test_tunnels_are_counted(sidecar: Sidecar) -> None:
    """Apart from other calls, so that it is seen what escapes; once it is known that it does."""
    total, active = (
        'waterclock_opaque_connections_total{way="connect"}',
        "waterclock_opaque_connections_active",
    )
    before = sidecar.samples().get(total, 0)
    with Upstream(talk=echo) as upstream, contextlib.ExitStack() as opened:
        tunnels = [opened.enter_context(Tunnel(sidecar, upstream.authority)) for _ in range(5)]
        samples = sidecar.samples()
        assert (samples.get(total, 0), samples[active]) == (before, 0)
        assert samples["waterclock_steps_in_flight"] == 5
        for tunnel in tunnels:
            tunnel.add(b"\0")
            assert tunnel.exactly(1) == b"\0"
        samples = sidecar.samples()
        assert (samples[total], samples[active]) == (before + 5, 5)
        assert samples["waterclock_steps_in_flight"] == 5
        for tunnel in tunnels:
            tunnel.leave()
        sidecar.at_rest()


# -- name and port -------------------------------------------------------------------------------------------------


class Strict(NamedTuple):
    """A sidecar that opens tunnels to some names, and to one port of theirs."""

    sidecar: Sidecar
    allowed: Upstream
    other: Upstream


@pytest.fixture(scope="module")
def strict(names: Names) -> Iterator[Strict]:
    names.know("tool.example", "a.tool.example", "secret.example", "secret.example.org")
    with Upstream(talk=echo) as allowed, Upstream(answer()) as other:
        rules = {
            "ports": [allowed.port],
            "allow": ["*.example", "127.0.0.1"],
            "deny": ["secret.example", "*.secret.example"],
        }
        with Sidecar({"tunnel": rules}, nameserver=names.address) as sidecar:
            yield Strict(sidecar, allowed, other)


@pytest.mark.parametrize(
    "host", ["tool.example", "TOOL.example", "tool.example.", "a.tool.example", "127.0.0.1"]
)
def test_what_the_policy_allows(strict: Strict, host: str) -> None:
    with Tunnel(strict.sidecar, f"{host}:{strict.allowed.port}", first=b"x") as tunnel:
        assert tunnel.status == 200
        assert tunnel.exactly(1) == b"x"


DENIED = {
    "another port": (
        "tool.example:OTHER",
        "CONNECT to port OTHER is not allowed; the policy's tunnel.ports are OPEN",
    ),
    "the usual port, unsaid": ("tool.example", "CONNECT to port 443 is not allowed"),
    "a name that is denied": (
        "secret.example:OPEN",
        "CONNECT to secret.example is denied by the policy's tunnel.deny",
    ),
    "in other letters": ("Secret.Example:OPEN", "is denied"),
    "with its last dot": ("secret.example.:OPEN", "is denied"),
    "below a name that is denied": ("very.secret.example:OPEN", "is denied"),
    "a name that is not allowed": ("secret.example.org:OPEN", "is not among the policy's tunnel.allow"),
    "an address that is not allowed": ("[::1]:OPEN", "CONNECT to ::1 is not among"),
    "an allowed address by another name": ("localhost:OPEN", "is not among"),
}


@pytest.mark.parametrize("what", DENIED)
def test_what_the_policy_denies(strict: Strict, names: Names, what: str) -> None:
    """A 403 that says which rule it was; nothing is opened, and no name is looked up for it."""
    ports = {"OPEN": str(strict.allowed.port), "OTHER": str(strict.other.port)}
    authority, words = DENIED[what]
    for name, port in ports.items():
        authority, words = authority.replace(name, port), words.replace(name, port)
    before = len(strict.allowed.connections) + len(strict.other.connections)
    told = call(strict.sidecar, "CONNECT", authority, headers={"Host": "a"})
    assert (told.status, told.outcome.outcome, told.outcome.reason) == (403, "refused", "tunnel_denied")
    assert (told.outcome.effect, told.outcome.retry) == ("none", "never")
    assert (told.get("x-should-retry"), told.get("connection")) == ("false", "close")
    assert words in told.problem["detail"]
    assert told.problem["type"] == "urn:waterclock:problem:tunnel-denied"
    assert "ask whoever runs the sidecar" in told.problem["next"]
    record = strict.sidecar.record(told.record)
    assert (record["outcome"], record["reason"]) == ("refused", "tunnel_denied")
    assert record["phase"] == "not_sent"
    assert len(strict.allowed.connections) + len(strict.other.connections) == before
    assert "very.secret.example" not in names.asked


def test_the_rules_are_for_tunnels_alone(strict: Strict) -> None:
    """What can be seen is held to its budget, and needs no list."""
    assert call(strict.sidecar, "GET", strict.other.url()).status == 200


def test_no_port_at_all() -> None:
    with Sidecar("tunnel: {ports: []}") as sidecar:
        told = call(sidecar, "CONNECT", "127.0.0.1:443", headers={"Host": "a"})
        assert (told.status, told.outcome.reason) == (403, "tunnel_denied")
