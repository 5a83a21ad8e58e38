"""The kernel's list of sockets, read as it writes it; and whatever else may stand there."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.net import tcp_table
from proxy.net.tcp_table import (
    ESTABLISHED,
    LISTEN,
    address_of,
    is_loopback,
    number_of,
    port_of,
    sockets,
)

little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="the text is of such a machine")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its sockets")

_LINES = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2A30 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2180        0 21177 1 0000000000000000 100 0 0 10 0
   1: 0200080A:C350 0700 0200C0:01BB 01
   2: 0200080A:9C40 070200C0:01BB 01 00000000:00000000 02:000004E2 00000000  1000        0 30211 2 0000000000000000 20 4 30 10 -1
   3: 0200080A:9C42 070200C0:01BB 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0000000000000000
   4: 0200080A:9C44 070200C0:01BB 08 00000000:00000001 00:00000000 00000000  1000        0 30300 1 0000000000000000 20 4 0 10 -1
"""
TCP = b"".join(each.ljust(149) + b"\n" for each in _LINES.splitlines())  # to one length, as the kernel does
TCP6 = b"""\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 21180 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000200080A:1F90 0000000000000000FFFF00000100080A:D431 01 00000000:00000000 00:00000000 00000000  1000        0 22001 1 0000000000000000 20 4 30 10 -1
   2: 000008FD000000000000000002000000:A1B2 B80D0120000000000000000007000000:0050 01 00000000:00000000 00:00000000 00000000  1000        0 22002 1 0000000000000000 20 0 0 10 -1
"""


@little_endian
def test_established_and_listening_ones_are_told() -> None:
    """Not those that are closing, nor a line that is none."""
    listening, open_one = sockets(TCP)
    assert listening.state == LISTEN
    assert number_of(listening.port) == 10800
    assert (open_one.state, open_one.user, open_one.inode) == (ESTABLISHED, b"1000", b"30211")
    assert (str(address_of(open_one.local)), number_of(open_one.port)) == ("10.8.0.2", 40000)
    assert (str(address_of(open_one.remote)), number_of(open_one.remote_port)) == ("192.0.2.7", 443)


@little_endian
def test_ipv4_in_ipv6_is_ipv4() -> None:
    """A dual-stack server's connection is told as any other of IPv4."""
    _, mapped, plain = sockets(TCP6)
    assert (str(address_of(mapped.local)), str(address_of(mapped.remote))) == ("10.8.0.2", "10.8.0.1")
    assert (str(address_of(plain.local)), str(address_of(plain.remote))) == ("fd08::2", "2001:db8::7")


@given(st.binary() | st.text(alphabet="0123456789ABCDEF: \n").map(str.encode))
def test_any_text_can_be_read(text: bytes) -> None:
    """What is no line of a table is passed over, and what is told can be shown."""
    for found in sockets(text) + sockets(TCP + text + TCP6):
        assert address_of(found.remote).version in (4, 6)
        assert 0 <= number_of(found.port) <= 65535
        is_loopback(found.local)


@linux
@pytest.mark.parametrize(
    ("family", "address", "shown"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),
    ],
)
def test_the_kernel_writes_as_expected(family: socket.AddressFamily, address: str, shown: str) -> None:
    """On this machine, whatever its byte order: both ends of a connection, and the listener, with their inodes."""
    with socket.socket(family) as listening:
        listening.bind((address, 0))
        listening.listen()
        with socket.socket(family) as client:
            client.connect(listening.getsockname())
            accepted, _ = listening.accept()
            with accepted:
                port, own = listening.getsockname()[1], client.getsockname()[1]
                table = tcp_table.read()
                assert table is not None
                found = {(each.port, each.remote_port): each for each in table}
                ends = [found[port_of(own), port_of(port)], found[port_of(port), port_of(own)]]
                assert [each.inode for each in ends] == [_inode(client), _inode(accepted)]
                assert {str(address_of(each.remote)) for each in ends} == {shown}
                assert all(is_loopback(each.local) for each in ends)
                assert found[port_of(port), port_of(0)].state == LISTEN


def test_where_the_kernel_lists_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Linux, or no IPv6 in it."""
    monkeypatch.setattr(tcp_table, "_TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    assert tcp_table.read() is None
    (tmp_path / "tcp").write_bytes(TCP)
    assert len(tcp_table.read() or ()) == len(sockets(TCP))


def test_pieces_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read may end in the middle of a line."""
    (tmp_path / "tcp").write_bytes(TCP)
    (tmp_path / "tcp6").write_bytes(TCP6)
    monkeypatch.setattr(tcp_table, "_TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    for size in (1, 7, 150, 151, 1000):
        monkeypatch.setattr(tcp_table, "_PIECE", size)
        assert tcp_table.read() == sockets(TCP) + sockets(TCP6)


def _inode(sock: socket.socket) -> bytes:
    return (
        str(Path(f"/proc/self/fd/{sock.fileno()}").readlink()).removeprefix("socket:[").rstrip("]").encode()
    )
