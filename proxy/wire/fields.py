"""Which header fields end at this hop, and whether a message has passed it before.

RFC 9110 §7.6.1: a proxy removes the fields that are meant for it alone: those that Connection names, and some that are
known to be such without being named. What is left is passed on as it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from proxy.wire.events import Field, RequestHead, ResponseHead

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Fields for this hop alone, whether or not Connection names them.

The Proxy-Auth family is for the nearest proxy that asked for it (RFC 9110 §11.7), and this proxy reads a budget's name
there. `TE` says what this hop's client can read. `Trailer` is not among them: it announces trailers, and these are
passed on (§6.6.2).
"""

# A sender must not name a field that is meant for all recipients (RFC 9110 §7.6.1), and one that does gets it through
# anyway. Otherwise a client could have the proxy take away what the server relies on: whom it speaks for, where the
# body ends and what it is, whether a write was seen before, and what is left of its budget.
_END_TO_END: Final = frozenset(
    {
        b"accept",
        b"api-key",
        b"authorization",
        b"cache-control",
        b"cookie",
        b"date",
        b"etag",
        b"expect",
        b"forwarded",
        b"host",
        b"idempotency-key",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"last-modified",
        b"location",
        b"max-forwards",
        b"origin",
        b"range",
        b"referer",
        b"retry-after",
        b"set-cookie",
        b"trailer",
        b"traceparent",
        b"tracestate",
        b"user-agent",
        b"vary",
        b"via",
        b"www-authenticate",
        b"x-api-key",
    }
)
_END_TO_END_FAMILIES: Final = (b"budget-", b"content-", b"x-forwarded-", b"access-control-", b"sec-")

# What RFC 9110 §6.5.1 keeps out of trailers: a recipient that merges them into the head must not be led to another
# framing, route, identity, or reading of the content.
_NEVER_TRAILERS: Final = HOP_BY_HOP | {
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"host",
    b"location",
    b"max-forwards",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"trailer",
    b"vary",
    b"www-authenticate",
}


def dropped(head: RequestHead | ResponseHead, always: frozenset[bytes] = HOP_BY_HOP) -> frozenset[bytes]:
    """Give the lower-case names of the fields that are not passed on: `always`, and those that Connection names.

    `HOP_BY_HOP` is among `always`, whatever else a caller puts there.
    """
    options = head.options
    if not options or (len(options) == 1 and (b"keep-alive" in options or b"close" in options)):
        return always
    named = {name for name in options if name not in always and not _is_end_to_end(name)}
    return always | named if named else always


def has_passed(head: RequestHead, pseudonym: bytes) -> bool:
    """Say whether a message names this hop among those that it has passed."""
    passed = head.index.get(b"via")
    return passed is not None and any(hop.split()[1:2] == [pseudonym] for hop in passed.split(b","))


def relayed_trailers(fields: Iterable[Field]) -> list[Field]:
    """Give the trailer fields that may be passed on; `Budget-*` is for this hop to say."""
    return [
        field for field in fields if field[0] not in _NEVER_TRAILERS and not field[0].startswith(b"budget-")
    ]


def _is_end_to_end(name: bytes) -> bool:
    return name in _END_TO_END or name.startswith(_END_TO_END_FAMILIES)
