"""What a connection speaks, by its first bytes: TLS, HTTP/2, HTTP/1 or something else. More bytes may not unsay it."""

from __future__ import annotations

from typing import Final

from proxy.wire.events import RequestHead
from proxy.wire.parser import RequestParser
from proxy.wire.sniff import FIRST_LINE, Sniffed, sniff, sniff_in_tunnel
from trials.fuzz.target import Seen, Target, hold

_MORE: Final = 64


def check(data: bytes) -> Seen:
    """Look at every beginning of the data."""
    seen: set[str] = set()
    before = Sniffed.NEED_MORE
    for end in [*range(min(len(data), 2 * _MORE)), len(data)]:
        now = sniff(data[:end])
        if before is not Sniffed.NEED_MORE:
            # A known method is believed before its line is whole, and the line may still say otherwise.
            unsaid = before is Sniffed.HTTP1 and now is Sniffed.OTHER
            hold(now is before or unsaid, "more-bytes-unsay-nothing", data[:end], before, now)
        seen.add(f"{before.value} > {now.value}")
        before = now
    hold(before is not Sniffed.NEED_MORE or len(data) <= FIRST_LINE + _MORE, "decided-in-the-end", len(data))
    hold(before is not Sniffed.TLS or data[:1] == b"\x16", "tls-is-a-handshake", data[:8])
    hold(
        before is not Sniffed.H2_PREFACE or data.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        "h2-is-the-preface",
    )
    tunnelled = sniff_in_tunnel(data)
    if tunnelled is not before:
        hold(before is Sniffed.HTTP1, "a-tunnel-differs-in-http-alone", before, tunnelled)
        hold(tunnelled in (Sniffed.OTHER, Sniffed.NEED_MORE), "a-tunnel-takes-less", before, tunnelled)
    events = RequestParser().feed(data)
    taken = bool(events) and isinstance(events[0], RequestHead)
    hold(not taken or before is Sniffed.HTTP1, "what-the-parser-takes-is-http", before, events)
    return seen | {f"{before.value}, in a tunnel {tunnelled.value}, {'taken' if taken else 'not taken'}"}


TARGET: Final = Target(
    "sniff",
    "the first bytes of a redirected connection or a tunnel: decided in the end, never unsaid, HTTP wherever the parser takes it",
    check,
    tokens=(
        b"\x16\x03\x01\x02\x00\x01",
        b"\x16\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * ",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET key\r\n",
        b"LIST ",
        b"post / ",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1",
        b" HTTP/1.0\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"CONNECT a:1 ",
        b"http://a/",
        b"\r\n",
        b"\n",
        b"\0",
        b" ",
    ),
)
