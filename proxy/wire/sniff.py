"""What a connection speaks, told from its first bytes: a redirected connection, or a tunnel, may speak anything."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from proxy.wire import methods


class Sniffed(Enum):
    """What the first bytes say."""

    HTTP1 = "http1"
    TLS = "tls"
    H2_PREFACE = "h2"
    OTHER = "other"
    NEED_MORE = "need-more"


FIRST_LINE: Final = 8 * 1024
"""A first line that is longer than this, with a method nobody knows, is not taken for HTTP."""

# RFC 9113 §3.4.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# A record of the handshake, of SSL 3 or later (RFC 8446 §5.1), or as much of its first three octets as is there.
_HANDSHAKE: Final = re.compile(rb"\x16(?:\x03(?:[\x00-\x04]|\Z)|\Z)")
_VERSIONS: Final = (b" HTTP/1.1", b" HTTP/1.0")
_NOT_IN_A_LINE: Final = re.compile(rb"[\x00-\x1f\x7f]")


def sniff(data: bytes) -> Sniffed:
    """Tell the protocol from the first bytes of a connection, or say that they are too few."""
    if data.startswith(b"\x16"):
        if _HANDSHAKE.match(data) is None:
            return Sniffed.OTHER
        return Sniffed.TLS if len(data) > 2 else Sniffed.NEED_MORE
    if data.startswith(_PREFACE):
        return Sniffed.H2_PREFACE
    if _PREFACE.startswith(data):
        return Sniffed.NEED_MORE
    return _sniff_text(data)


def sniff_in_tunnel(data: bytes) -> Sniffed:
    """The same of what comes through a tunnel, where HTTP is only what can be meant for the tunnel's other end.

    A request that asks for anything but a path (RFC 9112 §3.2) is meant for a proxy there, and is that one's business.
    """
    sniffed = sniff(data)
    start = methods.START.match(data)
    if sniffed is not Sniffed.HTTP1 or start is None:
        return sniffed
    target = data[start.end() : start.end() + 1]
    if not target:
        return Sniffed.NEED_MORE
    return Sniffed.HTTP1 if target in b"/*" else Sniffed.OTHER


def _sniff_text(data: bytes) -> Sniffed:
    """Tell HTTP/1 from other protocols that begin with a word.

    A known method with its space is enough, if the rest of its line does not say otherwise: `GET key` is Redis.
    Another word needs the whole line, since only a version at its end makes it HTTP.
    """
    start = methods.START.match(data)
    if start is None:
        return Sniffed.OTHER if data.strip(b"\r\n") else _unless_too_long(data)
    if not start[2]:
        return Sniffed.NEED_MORE if start.end() == len(data) else Sniffed.OTHER
    first, ended, _ = data[start.end() :].partition(b"\n")
    first = first.removesuffix(b"\r")
    if ended:
        is_http = first.endswith(_VERSIONS) and not _NOT_IN_A_LINE.search(first)
        return Sniffed.HTTP1 if is_http else Sniffed.OTHER
    if start[1] in methods.KNOWN:
        return Sniffed.HTTP1
    return Sniffed.OTHER if _NOT_IN_A_LINE.search(first) else _unless_too_long(data)


def _unless_too_long(data: bytes) -> Sniffed:
    return Sniffed.NEED_MORE if len(data) <= FIRST_LINE else Sniffed.OTHER
