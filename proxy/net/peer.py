"""After a FIN from a process of this pod: has it closed its socket, or only said that it will send no more?

On the wire the two look the same, and they mean opposite things: a client that is gone, and one that waits for its
answer (half-close). The kernel knows, since it holds both ends: an end that no process has open any more belongs to
no inode. It is asked through sock_diag (man 7 sock_diag; linux/inet_diag.h), for exactly one socket, without a walk
through /proc, and needs no privilege.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from proxy.net.own import is_local, unmapped

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_NLMSG_ERROR: Final = 2
_TCP_LISTEN: Final = 10
_ALL_STATES: Final = 0xFFFFFFFF
_DESCRIPTORS: Final = Path("/proc/self/fd")
_NO_COOKIE: Final = 0xFFFFFFFF

_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port id
_REQUEST: Final = struct.Struct("=BBBxI2s2s16s16sIII")  # inet_diag_req_v2 with its inet_diag_sockid
_ANSWER: Final = struct.Struct(
    "=BBBB48sIIIII"
)  # inet_diag_msg: family, state, …, sockid, expires, queues, uid, inode
_ERROR: Final = struct.Struct("=i")

SocketAddress = Sequence[Any]
"""What `getsockname` and `getpeername` return: host, port, and for IPv6 perhaps flow label and scope."""


class _End(NamedTuple):
    """One end of a connection, as the kernel has it."""

    state: int
    inode: int
    user: int


class PeerSockets:
    """Asks the kernel about the other ends of local connections. One netlink socket, opened by the first question."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._netlink: socket.socket | None = None
        self._sequence = 0

    def has_left(
        self, local: SocketAddress, peer: SocketAddress, original: tuple[str, int] | None = None
    ) -> bool | None:
        """Say whether nobody has the other end of a connection open any more, or None where that cannot be known.

        `local`, `peer`: the addresses of our end. `original`: where the other side meant to connect to, when the
        connection was redirected. None: not Linux, sock_diag is not allowed or not there, the other side is no
        process of this network namespace, or it was redirected and its end is not found.

        Takes some 10 µs and never waits. A FIN can arrive a moment before the process that sent it has let go of its
        socket: ask again a millisecond later before believing False.
        """
        try:
            end = self._find(peer, local if original is None else original)
            if end is not None:
                return end.inode == 0
            if original is not None:
                # Redirecting may have given the connection another source port, so this shows nothing.
                return None
            # No such socket: either it has gone, or this kernel (this namespace) would not show it at all.
            seen = is_local(str(peer[0])) and self._find(local, peer) is not None
        except OSError:
            return None
        return True if seen else None

    def is_own(self, peer: SocketAddress | None, original: tuple[str, int]) -> bool | None:
        """Say whether the other end of a redirected connection belongs to this very process, or None where that cannot
        be known: then the redirect does not let pass what the sidecar opens itself.

        `peer` and `original` as for `has_left`; a connection that was reset has no peer any more. As cheap as that, unless
        the other end is of a process of the same user.
        """
        if peer is None:
            return None
        try:
            end = self._find(peer, original)
            return None if end is None else end.user == os.geteuid() and _holds(end.inode)
        except OSError:
            return None

    def close(self) -> None:
        """Close the netlink socket; the next question would open another one."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def _find(self, near: SocketAddress, far: SocketAddress) -> _End | None:
        """Return the end whose own address is `near`, or None when there is none. Raises OSError."""
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        body = _request(near, far)
        header = _HEADER.pack(
            _HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, self._sequence, 0
        )
        netlink = self._open()
        netlink.send(header + body)
        # The kernel has answered by the time `send` returns. An older answer can only be one nobody fetched.
        while True:
            data = netlink.recv(4096)
            _, kind, _, sequence, _ = _HEADER.unpack_from(data)
            if sequence == self._sequence:
                return _answer(kind, data)

    def _open(self) -> socket.socket:
        if self._netlink is None:
            if sys.platform != "linux":
                raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
            netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG)
            netlink.setblocking(False)
            self._netlink = netlink
        return self._netlink


def _request(near: SocketAddress, far: SocketAddress) -> bytes:
    hosts = [unmapped(str(end[0])).partition("%")[0] for end in (near, far)]
    family = socket.AF_INET6 if ":" in hosts[0] else socket.AF_INET
    packed = [socket.inet_pton(family, host).ljust(16, b"\0") for host in hosts]
    ports = [int(end[1]).to_bytes(2, "big") for end in (near, far)]
    scope = int(near[3]) if len(near) > 3 else 0
    return _REQUEST.pack(
        family, socket.IPPROTO_TCP, 0, _ALL_STATES, *ports, *packed, scope, _NO_COOKIE, _NO_COOKIE
    )


def _answer(kind: int, data: bytes) -> _End | None:
    if kind == _NLMSG_ERROR:
        (negative,) = _ERROR.unpack_from(data, _HEADER.size)
        if -negative == errno.ENOENT:
            return None
        raise OSError(-negative, os.strerror(-negative))
    _, state, _, _, _, _, _, _, user, inode = _ANSWER.unpack_from(data, _HEADER.size)
    # A listener on the same port is found when the connection itself is not there any more.
    return None if state == _TCP_LISTEN else _End(state, inode, user)


def _holds(inode: int) -> bool:
    """Say whether this process has a socket open. Raises OSError where the kernel does not list its descriptors."""
    socket = Path(f"socket:[{inode}]")
    for descriptor in _DESCRIPTORS.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if descriptor.readlink() == socket:
                return True
    return False
