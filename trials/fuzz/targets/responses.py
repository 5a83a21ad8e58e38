"""The parser of responses, beside h11 as a client that has sent GET, HEAD or CONNECT.

What is taken here is the same response there, with the same end. The differences that are left, each with its reason:

- h11 reads Content-Length and Transfer-Encoding even where there can be no body. Here a response to HEAD, a 204 or a 304 has
  none whatever it says (RFC 9112 §6.3, step 1), and only there is h11 stricter.
- A size of a chunk may have any number of leading zeros here (§7.1), and 20 digits there.
- The value of Transfer-Encoding is in small letters there.
- HTTP/1.0 with `keep-alive` persists here (§9.3), and never there.
- Empty lines before a head are read over here, as before a request, and refused there. Behind a response they end the reuse of
  the connection.
- A connection may be reused here depending on how a body of line ends alone was cut: httptools reads over empty lines behind
  a message without a word, and where that cannot be told from the body, it is given up.
- A 101 that nobody asked for is told from one that was by whoever has asked; h11 is told that one was asked for.
"""

from __future__ import annotations

import re
from typing import Final

import h11

from proxy.wire.events import END, Event, Field, Framing, ResponseHead, Trailers, Upgraded, WireFault
from tests.support.opinion import Opinion, of_response
from tests.wire.feeding import read_response
from trials.fuzz.target import Seen, Target, hold
from trials.fuzz.targets._cuts import cuts

_METHODS: Final = ("GET", "HEAD", "CONNECT")
_LONG_SIZE: Final = re.compile(rb"\n0+[0-9a-fA-F]*")
_H11_DIGITS: Final = 20
_EMPTY_LINES: Final = (
    "no response line received",
    "illegal request line",
    "illegal status line: bytearray(b'\\r",
    "illegal status line: bytearray(b'\\n",
)
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


def check(data: bytes) -> Seen:
    """Read it as the answer to each method, with and without the end of the connection behind it."""
    seen: set[str] = set()
    pieces = cuts(data)
    for method in _METHODS:
        for eof in (False, True):
            whole, reusable = read_response(method, [data], eof=eof)
            for feeds in pieces:
                parts, again = read_response(method, feeds, eof=eof)
                hold(_same(whole, parts), "same-events-however-cut", method, whole, parts)
                hold(
                    reusable is again or _line_ends(whole),
                    "reusable-however-cut",
                    method,
                    whole,
                    reusable,
                    again,
                )
                reusable = reusable or again
            _honest(whole, reusable, eof=eof)
            seen |= _compare(method, data, whole, reusable, eof=eof)
            seen |= {f"{method} {_kind(event)}" for event in whole}
    return seen


def _same(whole: list[Event], parts: list[Event]) -> bool:
    """Compare what was said of the same bytes.

    Before a fault, pieces may show more of the content; and of two mistakes, such as a field too many and one that is
    malformed, either is named.
    """
    if whole == parts:
        return True
    if not (whole and parts and isinstance(whole[-1], WireFault) and isinstance(parts[-1], WireFault)):
        return False
    heads = [[event for event in events if isinstance(event, ResponseHead)] for events in (whole, parts)]
    shorter = min(map(len, heads))
    return heads[0][:shorter] == heads[1][:shorter]


def _line_ends(events: list[Event]) -> bool:
    """Say whether there is a body, of line ends alone."""
    body = b"".join(event for event in events if isinstance(event, bytes))
    return body != b"" and body.strip(b"\r\n") == b""


def _honest(events: list[Event], reusable: bool, *, eof: bool) -> None:
    """One end at most, with nothing but an Upgraded behind it; a fault is the last; broken connections stay broken."""
    ends = [at for at, event in enumerate(events) if event is END]
    hold(len(ends) <= 1, "one-end", events)
    if ends:
        behind = events[ends[0] + 1 :]
        hold(all(isinstance(event, Upgraded) for event in behind), "nothing-behind-the-end", events)
    faults = [at for at, event in enumerate(events) if isinstance(event, WireFault)]
    hold(not faults or faults == [len(events) - 1], "a-fault-is-the-last", events)
    hold(not (ends and faults), "an-end-or-a-fault", events)
    if eof:
        hold(ends or faults, "a-closed-connection-decides", events)
    if reusable:
        hold(ends and not eof and not isinstance(events[-1], Upgraded), "reusable-only-when-whole", events)


def _compare(method: str, data: bytes, events: list[Event], reusable: bool, *, eof: bool) -> set[str]:
    """Compare what was taken with what h11 takes."""
    heads = [event for event in events if isinstance(event, ResponseHead)]
    if not heads:
        return set()
    ended = END in events
    final = None if heads[-1].interim else heads[-1]
    if isinstance(events[-1], WireFault):
        return {f"{method} {events[-1].reason} after {heads[-1].status // 100}xx"}
    theirs = of_response(method, data, eof=eof, asks_upgrade=heads[-1].status == 101)
    if theirs.refused:
        strict = any(head.framing is Framing.NO_BODY and head.index.keys() & _FRAMING for head in heads)
        hold(
            strict or _long_size(data) or theirs.refused.startswith(_EMPTY_LINES),
            "h11-takes-it-too",
            method,
            heads,
            theirs.refused,
        )
        return {f"{method} h11 is stricter"}
    interim = [head.status for head in heads if head.interim or head.status == 101]
    hold(theirs.interim == interim, "same-interim-heads", interim, theirs.interim)
    last = events[-1]
    if isinstance(last, Upgraded):
        hold(last.rest == theirs.rest, "cut-at-the-same-place", last.rest, theirs.rest)
    if final is None or final.status == 101:
        return {f"{method} interim only"}
    _agree(final, events, theirs, ended=ended)
    if reusable:
        hold(theirs.rest == b"", "reusable-only-where-nothing-came-behind", theirs.rest)
        hold(theirs.persists or final.minor == 0, "persists-there-too", final)
    return {f"{method} agreed {'whole' if ended else 'begun'} {'reusable' if reusable else ''}"}


def _agree(head: ResponseHead, events: list[Event], theirs: Opinion, *, ended: bool) -> None:
    other = theirs.head
    hold(isinstance(other, h11.Response), "h11-sees-a-head-too", head)
    assert isinstance(other, h11.Response)
    hold(other.status_code == head.status, "same-status", head.status, other.status_code)
    hold(other.reason == head.reason.encode("latin-1"), "same-reason", head.reason, other.reason)
    hold(other.http_version == b"1.%d" % head.minor, "same-version", head.minor)
    fields = [
        (name, value.lower() if name == b"transfer-encoding" else value) for name, _, value in head.fields
    ]
    hold(fields == list(other.headers), "same-fields", fields, list(other.headers))
    body = b"".join(event for event in events if isinstance(event, bytes))
    hold(body == theirs.body, "same-body", body, theirs.body)
    hold(ended is (theirs.ended or theirs.switched), "same-end", head, ended, theirs.ended)
    hold(head.framing is not Framing.NO_BODY or not body, "no-body-is-none", head, body)
    trailers: list[Field] = [
        field for event in events if isinstance(event, Trailers) for field in event.fields
    ]
    hold(
        [(name, value) for name, _, value in trailers] == theirs.trailers,
        "same-trailers",
        trailers,
        theirs.trailers,
    )


def _long_size(rest: bytes) -> bool:
    return any(len(found) > _H11_DIGITS for found in _LONG_SIZE.findall(rest))


def _kind(event: Event) -> str:
    if isinstance(event, ResponseHead):
        return f"{event.status // 100}xx 1.{event.minor} {event.framing.name}{'' if event.keep_alive else ' last'}"
    if isinstance(event, WireFault):
        return event.reason
    return "END" if event is END else type(event).__name__


TARGET: Final = Target(
    "responses",
    "the parser of responses, to GET, HEAD and CONNECT: the same however cut; what is taken is the same response in h11",
    check,
    tokens=(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n",
        b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n",
        b"HTTP/1.1 304\r\n",
        b"HTTP/1.1 500 \xe9\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"Connection: upgrade\r\n",
        b"Proxy-Connection: close\r\n",
        b"Upgrade: x\r\n",
        b"Set-Cookie: a=b\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"\0",
        b"\x7f",
        b"\xe9",
        b" :",
        b"\r\n ",
        b"hello",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"0\r\nT: 1\r\n\r\n",
        b"1;a=b\r\nx\r\n",
        b"FFFFFFFFFFFFFFFF\r\n",
        b"HTTP/1.1 200 Forged\r\nContent-Length: 0\r\n\r\n",
    ),
)
