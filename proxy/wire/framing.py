"""Where a body ends, and whether the connection goes on: RFC 9112 §6.3 and §9.3.

The parser underneath frames by the same fields and is looser in places. What it would take and this does not is a
fault, so the two never differ about where a message ends. Fields are given as an index: lower-case name to value.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from proxy.wire.events import Framing, WireFault
from proxy.wire.faults import Side, fault

Verdict: TypeAlias = tuple[Framing, int | None] | WireFault
"""The framing with the length of the content, if it is known; or why the message cannot be framed."""

# Made once: looking a member up in an enumeration costs more than all that is done with it here.
_LENGTH: Final = Framing.LENGTH
_NO_BODY: Final = (Framing.NO_BODY, None)
_CHUNKED: Final = (Framing.CHUNKED, None)
_UNTIL_CLOSE: Final = (Framing.UNTIL_CLOSE, None)

# 10^18 octets: nobody has sent that many, and a number of any length is a way to keep a processor busy.
_LONGEST_LENGTH: Final = 18

_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_USUAL_OPTIONS: Final = {
    spelling: frozenset([spelling.lower()])
    for spelling in (b"keep-alive", b"Keep-Alive", b"close", b"Close", b"upgrade", b"Upgrade")
}


def request_framing(method: str, minor: int, index: dict[bytes, bytes]) -> Verdict:
    """Decide the framing of a request."""
    transfer_encoding = index.get(b"transfer-encoding")
    content_length = index.get(b"content-length")

    # A CONNECT request has no content, whatever it announces (RFC 9110 §9.3.6). Some hop will believe the
    # announcement and another the rule, so only an announcement of nothing is let through.
    if method == "CONNECT" and (transfer_encoding is not None or content_length not in (None, b"0")):
        return fault("request", "content_on_connect")

    # Steps 3 and 4: a transfer coding decides, and a length beside it is an attack.
    if transfer_encoding is not None:
        return _coded("request", minor, transfer_encoding, content_length)

    # Steps 5 and 6: a valid length decides.
    if content_length is not None:
        return _measured("request", content_length)

    # Step 7: a request that states nothing has no body.
    return _NO_BODY


def response_framing(method: str, status: int, minor: int, index: dict[bytes, bytes]) -> Verdict:
    """Decide the framing of a response to a request with this method."""
    # Step 1: these have no body, whatever their fields say.
    if status < 200 or status in (204, 304) or method == "HEAD":
        return _NO_BODY

    # Step 2: a successful response to CONNECT turns the connection into a tunnel.
    if method == "CONNECT" and status < 300:
        return _NO_BODY

    # Steps 3 and 4: as in a request. A response whose last coding is not chunked would end with the connection, but
    # then nobody can tell a whole one from one cut short; and none was asked for, since TE is not sent on.
    transfer_encoding = index.get(b"transfer-encoding")
    content_length = index.get(b"content-length")
    if transfer_encoding is not None:
        return _coded("response", minor, transfer_encoding, content_length)

    # Steps 5 and 6: as in a request.
    if content_length is not None:
        return _measured("response", content_length)

    # Step 8: a response that states nothing ends with the connection.
    return _UNTIL_CLOSE


def _coded(side: Side, minor: int, transfer_encoding: bytes, content_length: bytes | None) -> Verdict:
    """Frame a message with a Transfer-Encoding. Only chunked, alone, is understood the same way everywhere."""
    if content_length is not None:
        return fault(side, "ambiguous_length")
    if minor == 0:
        return fault(side, "chunked_in_http_1_0")
    if transfer_encoding.lower() != b"chunked":
        return fault(side, "unsupported_transfer_coding")
    return _CHUNKED


def _measured(side: Side, content_length: bytes) -> Verdict:
    """Frame a message with a Content-Length. A list of equal lengths is refused too, as step 5 allows."""
    if not content_length.isdigit() or len(content_length) > _LONGEST_LENGTH:
        return fault(side, "bad_content_length")
    return _LENGTH, int(content_length)


def connection_options(index: dict[bytes, bytes]) -> frozenset[bytes]:
    """Read the Connection field (RFC 9110 §7.6.1): a list of options, without case."""
    connection = index.get(b"connection")
    if connection is None:
        return _NO_OPTIONS
    usual = _USUAL_OPTIONS.get(connection)
    if usual is not None:
        return usual
    return frozenset(option.strip(b" \t") for option in connection.lower().split(b",")) - {b""}


def persists(minor: int, options: frozenset[bytes]) -> bool:
    """Decide whether the connection outlives the message (RFC 9112 §9.3)."""
    if b"close" in options:
        return False
    return minor == 1 or b"keep-alive" in options
