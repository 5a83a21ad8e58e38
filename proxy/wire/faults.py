"""Everything that is refused on the wire: one table of reasons, and the sentence that goes with each.

A fault in a request is the client's: it is answered with the 4xx or 5xx of the table. A fault in a response is the
server's, and the only honest answer to the client is 502.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from proxy.wire.events import WireFault

Side = Literal["request", "response"]


class _Row(NamedTuple):
    status: int
    detail: str


_FAULTS: Final[dict[str, _Row]] = {
    "malformed": _Row(400, "The {side} is not HTTP/1.1 as RFC 9112 has it ({note}); send it with a correct HTTP library."),
    "bad_request_line": _Row(400, "The first line is not a method in its own capitals, a target and HTTP/1.1, with a space between; send these three (RFC 9112 §3)."),
    "unknown_method": _Row(501, "The method is not one this proxy can relay here; use one registered for HTTP, alone on its connection."),
    "bad_target": _Row(400, "The request target holds a character that is not allowed there; percent-encode it (RFC 3986 §2.1)."),
    "target_too_long": _Row(414, "The request target is longer than this proxy takes; send the data in the body."),
    "unsupported_version": _Row(505, "The {side} has another version than HTTP/1.0 or HTTP/1.1; use one of these."),
    "bad_status": _Row(400, "The status line is not a version, three digits from 100 and a printable reason (RFC 9112 §4)."),
    "bad_field": _Row(400, "A header field of the {side} is malformed ({note}); send name, colon, value on one line, without control characters."),
    "bad_host": _Row(400, "The Host field is missing, repeated or not a host with an optional port; send exactly one (RFC 9112 §3.2)."),
    "head_timeout": _Row(408, "The head of the {side} took too long to arrive; send it in one go."),
    "head_too_large": _Row(431, "The head of the {side} is larger than this proxy takes; send fewer or shorter fields."),
    "too_many_fields": _Row(431, "The {side} has more header or trailer fields than this proxy takes; send fewer."),
    "too_many_interim": _Row(502, "The server sends interim responses (1xx) without end; it has to come to its response."),
    "ambiguous_length": _Row(400, "The {side} states the length of its body in two ways; send one Content-Length or chunked, never both (RFC 9112 §6.3)."),
    "bad_content_length": _Row(400, "The Content-Length of the {side} is not one plain decimal number; send digits only (RFC 9110 §8.6)."),
    "unsupported_transfer_coding": _Row(501, "The {side} has a Transfer-Encoding other than chunked alone; send chunked and nothing else (RFC 9112 §6.1)."),
    "chunked_in_http_1_0": _Row(400, "The {side} is HTTP/1.0 with a Transfer-Encoding, which that version does not have; send a Content-Length (RFC 9112 §6.1)."),
    "content_on_connect": _Row(400, "The CONNECT request announces a body, which it cannot have; leave Content-Length and Transfer-Encoding out (RFC 9110 §9.3.6)."),
    "content_on_interim": _Row(502, "The server announces a body for an interim response (1xx), which has none; it has to leave Content-Length and Transfer-Encoding out (RFC 9110 §8.6)."),
    "bad_chunk": _Row(400, "The chunked body of the {side} is malformed ({note}); send hexadecimal sizes and CRLF as in RFC 9112 §7.1."),
    "chunk_overhead": _Row(400, "The chunked body of the {side} has far more framing than content; leave the chunk extensions out and shorten the trailers."),
    "bad_upgrade": _Row(502, "The response is 101 without the Upgrade and Connection fields that have to go with it (RFC 9110 §7.8)."),
    "closed_before_response": _Row(502, "The server closed the connection before a response."),
    "closed_in_head": _Row(502, "The server closed the connection in the middle of the head of its response."),
    "closed_in_body": _Row(502, "The server closed the connection before the end of the body of its response."),
}  # fmt: skip

REASONS: Final = frozenset(_FAULTS)
"""Every token that `WireFault.reason` may hold."""

# httptools has one class of error for nearly everything, so its words are all there is to go by. Each row is a part of
# them, in small letters. The order matters: `Invalid character in chunk size` speaks of no header field.
_BY_WORDS: Final = (
    ("http version", "unsupported_version"),
    ("pause on pri", "unsupported_version"),
    ("expected http/2", "unsupported_version"),
    ("content-length can't be present", "ambiguous_length"),
    ("transfer-encoding can't be present", "ambiguous_length"),
    ("duplicate content-length", "ambiguous_length"),
    ("content-length", "bad_content_length"),
    ("transfer-encoding", "unsupported_transfer_coding"),
    ("chunk", "bad_chunk"),
    ("method for", "unknown_method"),
    ("url", "bad_target"),
    ("header", "bad_field"),
    ("status", "bad_status"),
    ("response line", "bad_status"),
)
_IN_REQUESTS: Final = (
    *_BY_WORDS,
    ("expected http/", "bad_request_line"),
    ("source method", "bad_request_line"),
)


def fault(side: Side, reason: str, note: str = "") -> WireFault:
    """Build the fault for one reason of the table."""
    status, detail = _FAULTS[reason]
    return WireFault(status if side == "request" else 502, reason, detail.format(side=side, note=note))


def fault_from_words(side: Side, words: str) -> WireFault:
    """Translate what httptools says of the bytes that it stumbled over."""
    said = words.lower()
    table = _IN_REQUESTS if side == "request" else _BY_WORDS
    reason = next((reason for part, reason in table if part in said), "malformed")
    return fault(side, reason, words.replace("`", ""))
