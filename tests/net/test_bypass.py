"""Which connections went past the sidecar, told from lists of sockets as the kernel writes them."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.net import bypass
from proxy.net.bypass import BypassWatch
from proxy.net.tcp_table import Socket, sockets

POD, POD6 = "10.8.0.2", "fd08::2"
TOOL, TOOL6 = "192.0.2.7", "2001:db8::7"
APP, SIDECAR = 1000, 2180
OUTBOUND = 10800
STATES = {"established": "01", "time_wait": "06", "close_wait": "08", "listen": "0A"}


def line(local: str, remote: str = "0.0.0.0:0", *, user: int = APP, state: str = "", inode: int = 1) -> str:
    """A line of the table. The state is that of a listener when nothing is at the other end."""
    state = state or ("listen" if remote.endswith(":0") else "established")
    return (
        f"   0: {_end(local)} {_end(remote)} {STATES[state]} 00000000:00000000 00:00000000 00000000 "
        f"{user:5d}        0 {inode} 1 0000000000000000 20 4 30 10 -1"
    )


def _end(text: str) -> str:
    host, _, port = text.rpartition(":")
    packed = ipaddress.ip_address(host.strip("[]")).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{int(port):04X}"


LISTENING = [
    line("127.0.0.1:10800", user=SIDECAR),
    line("[::1]:10800", "[::]:0", user=SIDECAR),
    line("[::]:8080", "[::]:0"),
]
CASES: dict[str, tuple[list[str], int, int]] = {
    "nothing but listeners": ([], 0, 0),
    "an app that ignores the proxy": ([line(f"{POD}:40000", f"{TOOL}:443")], 1, 0),
    "over IPv6": ([line(f"[{POD6}]:40000", f"[{TOOL6}]:443")], 1, 0),
    "IPv4 from a dual-stack socket": ([line(f"[::ffff:{POD}]:40000", f"[::ffff:{TOOL}]:443")], 1, 0),
    "an app that obeys": (
        [
            line("127.0.0.1:40000", "127.0.0.1:10800"),
            line("127.0.0.1:10800", "127.0.0.1:40000", user=SIDECAR),
            line(f"{POD}:40002", f"{TOOL}:443", user=SIDECAR),
        ],
        0,
        0,
    ),
    "another on the loopback whose other end has half gone": (
        [line("127.0.0.1:40000", "127.0.0.5:5000"), line("[::1]:40000", "[::1]:5000")],
        0,
        0,
    ),
    "redirected": (
        [
            line(f"{POD}:40000", f"{TOOL}:443"),
            line("127.0.0.1:10800", f"{POD}:40000", user=SIDECAR),
            line(f"[{POD6}]:40000", f"[{TOOL6}]:443"),
            line("[::1]:10800", f"[{POD6}]:40000", user=SIDECAR),
        ],
        0,
        0,
    ),
    "redirected, from a dual-stack socket": (
        [
            line(f"[::ffff:{POD}]:40000", f"[::ffff:{TOOL}]:443"),
            line("127.0.0.1:10800", f"{POD}:40000", user=SIDECAR),
        ],
        0,
        0,
    ),
    "redirected, two of them from one port": (
        [
            line(f"{POD}:40000", f"{TOOL}:443"),
            line(f"{POD}:40000", "192.0.2.8:443"),
            line("127.0.0.1:10800", f"{POD}:40000", user=SIDECAR),
            line("127.0.0.1:10800", f"{POD}:18590", user=SIDECAR),
        ],
        0,
        0,
    ),
    "one of two from one port is not": (
        [
            line(f"{POD}:40000", f"{TOOL}:443"),
            line(f"{POD}:40000", "192.0.2.8:443"),
            line("127.0.0.1:10800", f"{POD}:40000", user=SIDECAR),
        ],
        1,
        0,
    ),
    "a redirected one, an excluded one and the sidecar's own from one port": (
        [
            line(f"{POD}:40000", f"{TOOL}:9050"),
            line(f"{POD}:40000", f"{TOOL}:80", user=SIDECAR),
            line(f"{POD}:40000", f"{TOOL}:443"),
            line("127.0.0.1:10800", f"{POD}:40000", user=SIDECAR),
        ],
        0,
        1,
    ),
    "the sidecar's own": ([line(f"{POD}:40000", f"{TOOL}:443", user=SIDECAR)], 0, 0),
    "accepted": ([line(f"[::ffff:{POD}]:8080", "[::ffff:10.8.0.1]:51000")], 0, 0),
    "to the pod itself": (
        [line(f"{POD}:40000", f"{POD}:8080"), line(f"[::ffff:{POD}]:8080", f"[::ffff:{POD}]:40000")],
        0,
        0,
    ),
    "closing": ([line(f"{POD}:{port}", f"{TOOL}:443", state=s) for port, s in ((1, "time_wait"), (2, "close_wait"))], 0, 0),
    "DNS": ([line(f"{POD}:40000", "10.96.0.10:53")], 0, 1),
    "an excluded port": ([line(f"{POD}:40000", f"{TOOL}:25")], 0, 1),
    "the ends of an excluded range": (
        [line(f"{POD}:{port}", f"{TOOL}:{port}") for port in (8999, 9000, 9100, 9101)],
        2,
        2,
    ),
    "an excluded network": (
        [line(f"{POD}:40000", "10.96.1.2:443"), line(f"[{POD6}]:40000", "[fd77::1]:443")],
        0,
        2,
    ),
    "an excluded network, from a dual-stack socket": ([line(f"[::ffff:{POD}]:40000", "[::ffff:10.96.1.2]:443")], 0, 1),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _as_the_sidecars_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: SIDECAR)


def watch(*tables: list[str]) -> BypassWatch:
    """A watch that sees these tables one after the other, and the last one for ever."""
    seen = list(tables)

    def read() -> list[Socket]:
        lines = seen.pop(0) if len(seen) > 1 else seen[0]
        return sockets("\n".join(lines).encode())

    return BypassWatch(OUTBOUND, [(25, 25), (9000, 9100)], ["10.96.0.0/16", "fd77::/16"], read)


@pytest.mark.parametrize(("lines", "unexpected", "excluded"), CASES.values(), ids=CASES.keys())
def test_what_goes_past(lines: list[str], unexpected: int, excluded: int) -> None:
    """Each case in either order of the lines: the kernel has none of its own."""
    for table in (LISTENING + lines, (LISTENING + lines)[::-1]):
        found = watch(table).look()
        assert found is not None
        assert (len(found.unexpected), found.excluded) == (unexpected, excluded)


def test_one_that_is_only_half_there_is_looked_at_again() -> None:
    """While the table was read, it was being led here: the second look sees both ends. One that stays is told."""
    led = line(f"{POD}:40000", f"{TOOL}:443")
    counterpart = line("127.0.0.1:10800", f"{POD}:40000", user=SIDECAR)
    leak = line(f"{POD}:40002", f"{TOOL}:443")
    looking = watch([*LISTENING, led, leak], [*LISTENING, led, counterpart, leak])
    found = looking.look()
    assert found is not None
    assert found.remotes(5) == [f"{TOOL}:443"]
    assert len(found.unexpected) == 1


def test_where_they_lead_to() -> None:
    """Each place once, as an address and a port, and no more than are asked for."""
    lines = [line(f"{POD}:{40000 + n}", f"192.0.2.{n // 2}:443") for n in range(10)]
    lines.append(line(f"[{POD6}]:40000", f"[{TOOL6}]:80"))
    found = watch(LISTENING + lines).look()
    assert found is not None
    assert found.remotes(2) == ["192.0.2.0:443", "192.0.2.1:443"]
    assert found.remotes(9) == [*(f"192.0.2.{n}:443" for n in range(5)), f"[{TOOL6}]:80"]


def test_own_sockets_are_told_by_inode_where_users_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a pod the sidecar may run as the app's user: what it has open itself is its own."""
    monkeypatch.setattr(os, "geteuid", lambda: APP)
    with socket.socket() as own:
        inode = os.fstat(own.fileno()).st_ino
        lines = [
            line(f"{POD}:40000", f"{TOOL}:443", inode=inode),
            line(f"{POD}:40002", f"{TOOL}:443", inode=inode + 1_000_000),
            line(f"{POD}:40004", f"{TOOL}:443", inode=inode, user=0),
        ]
        found = watch(LISTENING + lines).look()
    assert found is not None
    assert sorted(int(each.port, 16) for each in found.unexpected) == [40002, 40004]


def test_no_descriptor_is_looked_at_where_users_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of connections that would cost more than all the rest."""
    monkeypatch.setattr(bypass, "_own_inodes", lambda: pytest.fail("looked at descriptors"))
    assert watch([*LISTENING, line(f"{POD}:40000", f"{TOOL}:443", user=SIDECAR)]).look() == (frozenset(), 0)
    monkeypatch.setattr(os, "geteuid", lambda: APP)
    assert watch([*LISTENING, line(f"{POD}:40000", f"{TOOL}:443", user=0)]).look() is not None


def test_where_the_kernel_lists_none() -> None:
    """Then nothing is known, which is not the same as nothing."""
    assert BypassWatch(OUTBOUND, table=lambda: None).look() is None


def test_once_it_cannot_be_read_any_more() -> None:
    """Between the two looks."""
    tables = iter([sockets(line(f"{POD}:40000", f"{TOOL}:443").encode()), None])
    assert BypassWatch(OUTBOUND, table=lambda: next(tables)).look() is None


hosts = st.sampled_from([POD, TOOL, "127.0.0.1", f"[{POD6}]", f"[{TOOL6}]", "[::1]", f"[::ffff:{POD}]"])
ends = st.tuples(hosts, st.sampled_from([53, 443, 8080, 10800, 40000, 40001])).map(
    lambda end: f"{end[0]}:{end[1]}"
)
lines = st.builds(
    line, ends, ends, user=st.sampled_from([0, APP, SIDECAR]), state=st.sampled_from(sorted(STATES))
)


@given(st.lists(lines, max_size=30))
def test_nothing_is_counted_twice(table: list[str]) -> None:
    """Whatever stands there: as many as are established at most, and never one of the sidecar's."""
    found = watch(table).look()
    assert found is not None
    known = sockets("\n".join(table).encode())
    established = [each for each in known if each.state == b"01" and each.user != b"2180"]
    assert found.excluded + len(found.unexpected) <= len(established)
    assert found.unexpected <= set(established)
