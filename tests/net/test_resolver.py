"""Names become addresses as everywhere else in the pod, and a name server that hangs holds up nobody else."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pycares
import pytest

from proxy.core.reasons import Reason
from proxy.net.errors import DialError
from tests.net.hosts import apart, name_server, resolving

IPV4, IPV6 = socket.AF_INET, socket.AF_INET6


def shown(infos: list[Any]) -> list[tuple[int, str, int]]:
    """Family, address and port of what a lookup gave."""
    return [(info[0], info[4][0], info[4][1]) for info in infos]


def in_hosts_file() -> list[tuple[str, str]]:
    """Names of /etc/hosts with their IPv4 addresses, localhost left out."""
    lines = [line.partition("#")[0].split() for line in Path("/etc/hosts").read_text().splitlines()]
    return [
        (name, words[0])
        for words in lines
        for name in words[1:]
        if "localhost" not in name and ":" not in words[0]
    ]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.7", [(IPV4, "192.0.2.7", 80)]),
        ("2001:db8::7", [(IPV6, "2001:db8::7", 80)]),
        ("::ffff:192.0.2.7", [(IPV4, "192.0.2.7", 80)]),
        ("localhost", [(IPV6, "::1", 80), (IPV4, "127.0.0.1", 80)]),
        ("tool.localhost", [(IPV6, "::1", 80), (IPV4, "127.0.0.1", 80)]),
    ],
)
async def test_literals_and_localhost_need_no_name_server(
    host: str, expected: list[tuple[int, str, int]]
) -> None:
    async with resolving("127.0.0.1:1") as resolver:
        assert shown(await resolver.lookup(host, 80)) == expected
        assert resolver._channel is None


async def test_both_families_are_found() -> None:
    names = {"tool.test": ["192.0.2.1", "192.0.2.2", "2001:db8::1"]}
    async with name_server(names) as (_, address), resolving(address) as resolver:
        found = shown(await resolver.lookup("tool.test", 443))
    assert sorted(found) == [(IPV4, "192.0.2.1", 443), (IPV4, "192.0.2.2", 443), (IPV6, "2001:db8::1", 443)]


async def test_hosts_file_comes_first() -> None:
    known = in_hosts_file()
    if not known:
        pytest.skip("/etc/hosts names nothing but localhost")
    async with name_server({}) as (server, address), resolving(address) as resolver:
        name, expected = known[0]
        assert (IPV4, expected, 80) in shown(await resolver.lookup(name, 80))
    assert server.asked == []


async def test_an_answer_is_kept_for_its_ttl() -> None:
    async with name_server({"tool.test": ["192.0.2.1"]}) as (server, address), resolving(address) as resolver:
        server.ttl = 60
        await resolver.lookup("tool.test", 80)
        await resolver.lookup("tool.test", 80)
        assert len(server.asked) == 2


async def test_forty_hung_lookups_delay_nobody_and_use_no_threads() -> None:
    """Case hung-lookups (python/cpython#112169): a shared pool of threads would be used up by the 40."""
    hung = {f"hung{number}.test" for number in range(40)}
    live = {"live.test": ["192.0.2.9"]}
    async with name_server(live, silent=hung) as (_, address), resolving(address) as resolver:
        before = threading.active_count()
        calls = {name: asyncio.ensure_future(resolver.lookup(name, 80)) for name in sorted(hung)}
        await asyncio.sleep(0.05)
        began = time.monotonic()
        assert shown(await resolver.lookup("live.test", 80)) == [(IPV4, "192.0.2.9", 80)]
        assert time.monotonic() - began < 0.2
        assert not any(call.done() for call in calls.values())
        # One thread belongs to the channel, and one waits to destroy channels; neither is for a lookup.
        assert threading.active_count() - before <= 2
        for call in calls.values():
            call.cancel()
        await asyncio.wait(calls.values())
        assert all(call.cancelled() for call in calls.values())
        assert shown(await resolver.lookup("live.test", 80)) == [(IPV4, "192.0.2.9", 80)]


async def test_lookups_of_one_name_share_one_query_and_one_may_leave() -> None:
    async with name_server({"tool.test": ["192.0.2.1"]}) as (server, address), resolving(address) as resolver:
        server.delay = 0.05
        calls = [asyncio.ensure_future(resolver.lookup("tool.test", port)) for port in (80, 81, 82)]
        await asyncio.sleep(0.01)
        calls[0].cancel()
        assert shown(await calls[1]) == [(IPV4, "192.0.2.1", 81)]
        assert shown(await calls[2]) == [(IPV4, "192.0.2.1", 82)]
        assert sorted(server.asked) == [("tool.test", 1), ("tool.test", 28)]
        assert resolver._pending == {}


@pytest.mark.parametrize("host", ["gone.test", "bad..name", "a\0b", "naïve", "", "x" * 300, "y" * 100])
async def test_a_name_without_address_is_a_dns_error(host: str) -> None:
    async with name_server({}) as (_, address), resolving(address) as resolver:
        with pytest.raises(DialError) as caught:
            await resolver.lookup(host, 80)
    assert caught.value.reason is Reason.DNS_ERROR


async def test_a_name_server_that_is_not_there_is_a_dns_error() -> None:
    async with resolving("127.0.0.1:1") as resolver:
        with pytest.raises(DialError, match="does not answer") as caught:
            await resolver.lookup("tool.test", 80)
    assert caught.value.reason is Reason.DNS_ERROR


async def test_pending_names_are_bounded() -> None:
    silent = {"one.test", "two.test"}
    async with name_server({}, silent) as (_, address), resolving(address, max_pending=2) as resolver:
        names = ("one.test", "two.test", "one.test")
        calls = [asyncio.ensure_future(resolver.lookup(name, 80)) for name in names]
        await asyncio.sleep(0)
        with pytest.raises(DialError, match="wait for the name server already"):
            await resolver.lookup("three.test", 80)
        await resolver.close()
        for call in calls:
            with pytest.raises(DialError, match="given up"):
                await call


async def test_a_closed_resolver_says_so() -> None:
    async with resolving("127.0.0.1:1") as resolver:
        await resolver.close()
        with pytest.raises(DialError, match="given up"):
            await resolver.lookup("tool.test", 80)
        assert await resolver.lookup("localhost", 80)


async def test_without_inotify_it_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may have no inotify instance left (128 a user by default); the channel then runs on the loop itself."""
    channel = pycares.Channel

    def scarce(**options: Any) -> Any:
        if "sock_state_cb" not in options:
            raise pycares.AresError("no inotify")
        return channel(**options)

    monkeypatch.setattr(pycares, "Channel", scarce)
    names = {"tool.test": ["192.0.2.1"]}
    async with name_server(names, {"hung.test"}) as (_, address), resolving(address) as resolver:
        hung = asyncio.ensure_future(resolver.lookup("hung.test", 80))
        assert shown(await resolver.lookup("tool.test", 80)) == [(IPV4, "192.0.2.1", 80)]
        await resolver.close()
        with pytest.raises(DialError):
            await hung


async def as_resolv_conf_says() -> None:
    """Run where /etc/resolv.conf is the test's."""
    names = {"orders.shop.svc.cluster.test": ["192.0.2.5"], "api.example.test": ["192.0.2.6"]}
    async with name_server(names, at="127.0.0.53:53") as (server, _), resolving() as resolver:
        for name in ("orders", "orders.shop.svc.cluster.test"):
            assert shown(await resolver.lookup(name, 80)) == [(IPV4, "192.0.2.5", 80)]
        server.asked.clear()
        assert shown(await resolver.lookup("api.example.test", 80)) == [(IPV4, "192.0.2.6", 80)]
        assert [name for name, kind in server.asked if kind == 1] == [
            "api.example.test.shop.svc.cluster.test",
            "api.example.test.svc.cluster.test",
            "api.example.test",
        ]


def test_servers_search_list_and_ndots_are_those_of_resolv_conf(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text(
        "nameserver 127.0.0.53\n"
        "search shop.svc.cluster.test svc.cluster.test\n"
        "options ndots:5 timeout:1 attempts:1\n"
    )
    apart(f"mount --bind {conf} /etc/resolv.conf", "test_resolver", "as_resolv_conf_says")
