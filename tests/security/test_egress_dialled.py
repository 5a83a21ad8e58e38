"""Real names, real sockets: no connection is opened to a denied address, whatever a name server says, and when."""

from __future__ import annotations

import asyncio

import pytest

from proxy.config import parse
from proxy.core.policy import Connections
from proxy.core.reasons import Reason
from proxy.core.target import Origin
from proxy.core.upstream import Upstream
from proxy.net.dial import Barrier, Dialer, Dialled
from proxy.net.errors import DialError
from proxy.net.own import OwnPorts
from proxy.net.resolver import Resolver
from tests.net.hosts import Parent, echo, name_server, resolving, server


class Counted:
    """A server that counts who connects."""

    def __init__(self) -> None:
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await echo(reader, writer)


def barred(
    resolver: Resolver, *entries: str, enforced: bool = True, parent: Upstream | None = None
) -> Dialer:
    """A dialer that opens nothing to these places."""
    egress = parse(f"egress: {{deny: [{', '.join(map(repr, entries))}]}}").egress
    return Dialer(resolver, lambda: Connections(proxy=parent), OwnPorts(), lambda: Barrier(egress, enforced))


async def dialled(dialer: Dialer, origin: Origin) -> Dialled[asyncio.Protocol]:
    """Open a connection, and drop it."""
    found = await dialer.dial(origin, asyncio.Protocol)
    found.transport.abort()
    return found


async def refused(dialer: Dialer, origin: Origin) -> str:
    """It is refused for the list; returns the sentence."""
    with pytest.raises(DialError) as error:
        await dialled(dialer, origin)
    assert error.value.reason is Reason.EGRESS_DENIED
    return error.value.detail


async def test_a_name_is_judged_by_what_it_stands_for() -> None:
    names = {"inner.test": ["127.0.0.1"], "tool.test": ["127.0.0.2"]}
    counted = Counted()
    async with name_server(names) as (_, at), resolving(at) as resolver, server(counted, "0.0.0.0") as port:
        dialer = barred(resolver, "127.0.0.1")
        detail = await refused(dialer, Origin("http", "inner.test", port))
        assert detail == (
            "inner.test is 127.0.0.1. Calls to 127.0.0.1 are denied by the policy's egress.deny (127.0.0.1)."
        )
        assert (await dialled(dialer, Origin("http", "tool.test", port))).peer == "127.0.0.2"
        await asyncio.sleep(0.02)
    assert counted.connections == 1


async def test_a_name_with_one_denied_address_is_refused_whole() -> None:
    """Which of them wins is chance, and would be another one the next time."""
    names = {"both.test": ["127.0.0.2", "127.0.0.1"]}
    counted = Counted()
    async with name_server(names) as (_, at), resolving(at) as resolver, server(counted, "0.0.0.0") as port:
        await refused(barred(resolver, "127.0.0.1"), Origin("http", "both.test", port))
        await asyncio.sleep(0.02)
    assert counted.connections == 0


async def test_a_name_that_changes_its_answer_is_judged_by_the_one_that_is_used() -> None:
    """DNS rebinding: good while it is looked at, and another place by the time it is connected to. Here that is one lookup."""
    names = {"rebound.test": ["127.0.0.2"]}
    counted = Counted()
    async with name_server(names) as (dns, at), server(counted, "0.0.0.0") as port:
        dns.ttl = 0
        async with resolving(at) as resolver:
            dialer, origin = barred(resolver, "127.0.0.1"), Origin("http", "rebound.test", port)
            assert (await dialled(dialer, origin)).peer == "127.0.0.2"
            dns.names["rebound.test"] = ["127.0.0.1"]
            await refused(dialer, origin)
            await asyncio.sleep(0.02)
    assert counted.connections == 1


async def test_a_name_that_is_denied_is_not_even_looked_up() -> None:
    """Whoever answers for it is told nothing, and a name can carry a secret out."""
    async with name_server({"a.secret.test": ["127.0.0.1"]}) as (dns, at), resolving(at) as resolver:
        await refused(barred(resolver, "*.secret.test"), Origin("http", "a.secret.test", 80))
        assert dns.asked == []


@pytest.mark.parametrize("host", ["localhost", "tool.localhost", "127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"])  # fmt: skip
async def test_the_loopback_by_any_name(host: str) -> None:
    counted = Counted()
    async with resolving("127.0.0.1:1") as resolver, server(counted) as port:
        await refused(barred(resolver, "127.0.0.0/8", "::1"), Origin("http", host, port))
        await asyncio.sleep(0.02)
    assert counted.connections == 0


async def test_a_redirected_connection_is_judged_by_its_destination() -> None:
    """Whatever it calls itself."""
    async with resolving("127.0.0.1:1") as resolver, server(counted := Counted()) as port:
        dialer = barred(resolver, "127.0.0.1")
        await refused(dialer, Origin("http", "good.test", port, "127.0.0.1"))
        await refused(dialer, Origin("tcp", "127.0.0.1", port, "127.0.0.1"))
    assert counted.connections == 0


async def test_observed_it_is_opened_and_said() -> None:
    names = {"inner.test": ["127.0.0.1"]}
    async with name_server(names) as (_, at), resolving(at) as resolver, server(echo) as port:
        dialer = barred(resolver, "127.0.0.1", enforced=False)
        assert (await dialled(dialer, Origin("http", "inner.test", port))).denied
        assert (await dialled(dialer, Origin("http", "127.0.0.1", port))).denied
        assert not (await dialled(barred(resolver, "10.0.0.0/8"), Origin("http", "127.0.0.1", port))).denied


@pytest.mark.parametrize("scheme", ["http", "https", "tcp"])
async def test_a_parent_proxy_is_not_asked_for_what_is_denied_by_its_name(scheme: str) -> None:
    """It is reached itself, since the policy names it, and what it would look up only it knows."""
    counted = Counted()
    async with resolving("127.0.0.1:1") as resolver, server(counted) as port:
        dialer = barred(
            resolver, "secret.test", "metadata", "127.0.0.0/8", parent=Upstream("http", "127.0.0.1", port)
        )
        for host in ("secret.test", "2852039166", "64:ff9b::a9fe:a9fe", "%31%36%39.254.169.254"):
            await refused(dialer, Origin(scheme, host, 443))
        await asyncio.sleep(0.02)
        assert counted.connections == 0
        if scheme == "http":
            assert (await dialled(dialer, Origin(scheme, "tool.test", 443))).via_parent


async def test_what_a_parent_proxy_is_asked_for_is_no_way_around() -> None:
    """Nor is `no_proxy`: what is reached without the parent is looked up here, and judged here."""
    names = {"inner.test": ["127.0.0.1"]}
    async with name_server(names) as (_, at), resolving(at) as resolver, server(Parent()) as port:
        egress = parse("egress: {deny: [127.0.0.0/8]}").egress
        connections = Connections(proxy=Upstream("http", "127.0.0.1", port), no_proxy=("inner.test",))
        dialer = Dialer(resolver, lambda: connections, OwnPorts(), lambda: Barrier(egress))
        await refused(dialer, Origin("http", "inner.test", port))
