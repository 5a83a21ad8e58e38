"""Ending a connection so that the other side cannot take it for a clean end, and seeing that it has done so itself.

A transport's `abort` sends a FIN like any other close, and where the end of the connection is the end of the message
(a body without a length, a protocol that nobody here can read), a FIN says "that was all". Only a RST does not.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, Final

_AT_ONCE: Final = struct.pack("ii", 1, 0)
GONE: Final = (OSError, ValueError)
"""What asking something of a socket raises that is gone: uvloop closes it before it says so, and shows a descriptor of -1 from
then on, which Python refuses as a bad value."""
_TCP_CLOSE: Final = 7  # linux/tcp_states.h; the first byte of struct tcp_info


def end_with_reset(transport: asyncio.Transport) -> None:
    """Let a transport end with a RST, however it is closed: `close` still hands over first what was sent."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with suppress(*GONE):  # the other side has, and the socket perhaps
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


def was_reset(sock: Any) -> bool:
    """Say whether the other side has reset a connection that nobody reads from. False where that cannot be known."""
    option = getattr(socket, "TCP_INFO", None)
    if sock is None or option is None:
        return False
    try:
        return bool(sock.getsockopt(socket.IPPROTO_TCP, option, 1)[0] == _TCP_CLOSE)
    except GONE:
        return True
