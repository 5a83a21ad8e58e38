"""From the parts of a head, as they came off the wire, to a head that the rest of the program can rely on.

The parser underneath checks characters: no folded line, no bare CR or LF, no control character in a field gets this
far. Here is checked what a head means: its version, its Host, its framing.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from proxy.wire.events import Field, Framing, RequestHead, ResponseHead, WireFault
from proxy.wire.faults import fault
from proxy.wire.framing import connection_options, persists, request_framing, response_framing

# `uri-host [ ":" port ]` (RFC 9110 §7.2), without the comma that RFC 3986 would let stand in a host: two Host fields
# that somebody joined into one must not pass for one host.
_HOST: Final = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[0-9A-Za-z._~!$&'()*+;=%-]*)(?::[0-9]*)?")
_LONGEST_HOST: Final = 512
_MOST_HOSTS: Final = 256
_hosts: Final[set[bytes]] = set()  # that were looked at
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_USUAL_REASONS: Final = frozenset({status.phrase.encode() for status in HTTPStatus})
_MINORS: Final = {"1.1": 1, "1.0": 0}


def build_request(
    method: str, target: bytes, version: str, fields: list[Field], *, leaves_http: bool
) -> RequestHead | WireFault:
    """Check a request head. `leaves_http`: the parser takes the next bytes for another protocol."""
    minor = _MINORS.get(version)
    if minor is None:
        return fault("request", "unsupported_version")
    index = index_fields(fields)
    host = index.get(b"host")
    if host is None:
        if minor == 1:
            return fault("request", "bad_host")
    # Two values are joined with a space, which no host has, so that this finds the repeated ones too.
    elif len(host) > _LONGEST_HOST or not is_host(host):
        return fault("request", "bad_host")
    verdict = request_framing(method, minor, index)
    if isinstance(verdict, WireFault):
        return verdict
    framing, length = verdict
    options = connection_options(index)
    upgrade = None
    # An upgrade behind a chunked body is ignored, as RFC 9110 §7.8 lets a server do with any: httptools does not say
    # where such a body ends. The clients that ask for it (h2c from Java) go on in HTTP/1.1.
    if (
        leaves_http
        and minor == 1
        and method != "CONNECT"
        and framing is not Framing.CHUNKED
        and b"upgrade" in options
    ):
        upgrade = index.get(b"upgrade") or None
    return RequestHead(
        method,
        target.decode("ascii"),
        minor,
        fields,
        index,
        framing,
        length,
        options,
        persists(minor, options),
        upgrade,
        # RFC 9110 §10.1.1: in HTTP/1.0 the expectation is ignored.
        minor == 1 and b"expect" in index and index[b"expect"].lower() == b"100-continue",
    )


def build_response(
    method: str, status: int, reason: bytes, version: str, fields: list[Field]
) -> ResponseHead | WireFault:
    """Check the head of a response to a request with this method."""
    minor = _MINORS.get(version)
    if minor is None:
        return fault("response", "unsupported_version")
    # httptools lets any octet but CR and LF stand in a reason (RFC 9112 §4), NUL included.
    if status < 100 or (reason not in _USUAL_REASONS and _CONTROL.search(reason) is not None):
        return fault("response", "bad_status")
    index = index_fields(fields)
    verdict = response_framing(method, status, minor, index)
    if isinstance(verdict, WireFault):
        return verdict
    framing, length = verdict
    options = connection_options(index)
    return ResponseHead(
        status,
        reason.decode("latin-1"),
        minor,
        fields,
        index,
        framing,
        length,
        options,
        framing is not Framing.UNTIL_CLOSE and persists(minor, options),
    )


def is_host(value: bytes) -> bool:
    """Say whether a value can stand in a Host field. Connections ask about the same few again and again."""
    if value in _hosts:
        return True
    if _HOST.fullmatch(value) is None:
        return False
    if len(_hosts) >= _MOST_HOSTS:
        _hosts.clear()
    _hosts.add(value)
    return True


def index_fields(fields: list[Field]) -> dict[bytes, bytes]:
    """Map lower-case names to values, joining those of a repeated field (RFC 9110 §5.3).

    `Set-Cookie` cannot be joined that way; whoever means to use it reads the field lines.
    """
    index = {lower: value for lower, _, value in fields}
    if len(index) != len(fields):
        index = {}
        for lower, _, value in fields:
            index[lower] = index[lower] + b", " + value if lower in index else value
    return index


def size_of(fields: list[Field]) -> int:
    """Count the octets that fields take up on the wire: name, colon, space, value, CRLF."""
    return sum(len(name) + len(value) + 4 for _, name, value in fields)
