"""How long a request was on its way, as far as the kernel knows: half of the round trip that it has measured."""

from __future__ import annotations

import socket
import struct

from proxy.core.units import MICROSECOND
from proxy.net.reset import GONE

_SMOOTHED_RTT = 68  # where tcpi_rtt stands in struct tcp_info (linux/tcp.h): microseconds, smoothed


def half_round_trip(sock: socket.socket | None) -> int:
    """Return half of a connection's measured round trip (nanoseconds); 0 where it is not to be known (not Linux)."""
    option = getattr(socket, "TCP_INFO", None)
    if sock is None or option is None:
        return 0
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, option, _SMOOTHED_RTT + 4)
    except GONE:
        return 0
    if len(info) < _SMOOTHED_RTT + 4:
        return 0
    (round_trip,) = struct.unpack_from("=I", info, _SMOOTHED_RTT)
    return int(round_trip) * MICROSECOND // 2
