"""The parser of requests, beside h11 as a server: what is taken here is the same request there, and ends at the same octet.

What is refused here needs no second opinion: that h11 takes more is its business. The differences that are left are these,
each of which cannot let two hops see different requests:

- Empty lines before a request are read over here (RFC 9112 §2.2), and refused there.
- Several spaces around the target are read as one here (§3 lets words be parsed so), and refused there. One is sent on.
- HTTP/1.0 with `keep-alive` persists here (§9.3), and never there.
- A size of a chunk may have any number of leading zeros here (§7.1), and 20 digits there.
- The value of Transfer-Encoding is in small letters there.

Two things depend on how the bytes come. Of two mistakes in a request either is named: by the same status, unless one is that it
has too many fields. And a method that httptools does not know is taken only at the start of a piece: how the bytes come decides
whether it is read or refused, never as what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import h11

from proxy.wire.events import END, Event, Field, RequestHead, Trailers, Upgraded, WireFault
from tests.support.opinion import Opinion, of_request
from tests.wire.feeding import read_requests
from trials.fuzz.target import Seen, Target, hold
from trials.fuzz.targets._cuts import cuts

_LONG_SIZE: Final = re.compile(rb"\n0+[0-9a-fA-F]*")
_H11_DIGITS: Final = 20
_TOO_MANY: Final = 431
_SPACES: Final = re.compile(rb"\A([!-~]+) +([!-~]+) +")


def check(data: bytes) -> Seen:
    """Read it whole and in pieces, and compare what is taken with what h11 takes."""
    whole = _read([data])
    for pieces in cuts(data):
        hold(_same(whole, parts := _read(pieces)), "same-events-however-cut", whole, parts)
    return _compare(data, whole) | _words(whole)


def _read(feeds: Sequence[bytes]) -> list[Event]:
    """All that a parser says, of which a fault is the last."""
    events = read_requests(feeds)
    hold(not any(isinstance(event, WireFault) for event in events[:-1]), "nothing-after-a-fault", events)
    return events


def _same(whole: list[Event], parts: list[Event]) -> bool:
    """Compare what was said of the same bytes. Of a message that is refused, pieces may show more before the fault."""
    if whole == parts:
        return True
    a, b = (_messages(events) for events in (whole, parts))
    if _stops_at_method(whole) or _stops_at_method(parts):
        shorter = min(len(a), len(b))
        return a[:shorter] == b[:shorter]
    statuses = {_status_of(whole), _status_of(parts)}
    return a == b and (len(statuses) == 1 or statuses == {400, _TOO_MANY})


def _messages(events: list[Event]) -> list[list[Event]]:
    """Split the events of whole messages, each up to its END; and the other protocol behind, if there is one."""
    messages: list[list[Event]] = [[]]
    for event in events:
        messages[-1].append(event)
        if event is END or isinstance(event, Upgraded):
            messages.append([])
    last = messages.pop()
    return [*messages, last] if last and not isinstance(last[-1], WireFault) else messages


def _fault_of(events: list[Event]) -> WireFault | None:
    return events[-1] if events and isinstance(events[-1], WireFault) else None


def _status_of(events: list[Event]) -> int | None:
    fault = _fault_of(events)
    return None if fault is None else fault.status


def _stops_at_method(events: list[Event]) -> bool:
    fault = _fault_of(events)
    return fault is not None and fault.reason == "unknown_method"


def _compare(data: bytes, events: list[Event]) -> set[str]:
    """Go through the requests that were taken, and let h11 read each from where it has left off."""
    rest = data
    seen: set[str] = set()
    head: RequestHead | None = None
    for head, body, trailers, ended, refused in _requests(events):
        theirs = of_request(_plain_start(rest))
        if refused and not ended:
            return seen | {f"refused-in-body, h11 {'refuses' if theirs.refused else 'reads on'}"}
        if theirs.refused:
            hold(why := _why_refused(rest, theirs), "h11-takes-it-too", head, theirs.refused)
            return seen | {why}
        _agree(head, body, trailers, ended, theirs)
        if not ended:
            return seen
        rest = theirs.rest
        seen.add(f"h11 {'persists' if theirs.persists else 'ends'}")
    last = events[-1] if events else None
    if isinstance(last, Upgraded):
        hold(last.rest == rest, "cut-at-the-same-place", last.rest, rest)
    elif not isinstance(last, WireFault) and (head is None or head.keep_alive):
        theirs = of_request(rest.lstrip(b"\r\n"))
        # The first half of an HTTP/2 preface is a request to h11, whatever its version; here its end is waited for.
        waits = theirs.head is None or theirs.head.http_version not in (b"1.0", b"1.1")
        hold(waits, "nothing-left-unread", rest)
        seen.add(f"head begun, h11 {'refuses' if theirs.refused else 'waits'}")
    elif isinstance(last, WireFault):
        theirs = of_request(rest.lstrip(b"\r\n"))
        seen.add(
            f"{last.reason}, h11 {'refuses' if theirs.refused else 'takes it' if theirs.head else 'waits'}"
        )
    return seen


def _requests(events: list[Event]) -> Iterator[tuple[RequestHead, bytes, list[Field], bool, bool]]:
    """Give the head, body, trailers of each request; whether it is whole; whether it was refused after its head."""
    for message in _with_faults(events):
        head, *others = message
        if not isinstance(head, RequestHead):
            continue
        body = b"".join(event for event in others if isinstance(event, bytes))
        trailers = [field for event in others if isinstance(event, Trailers) for field in event.fields]
        yield head, body, trailers, END in others, isinstance(message[-1], WireFault)


def _with_faults(events: list[Event]) -> list[list[Event]]:
    messages: list[list[Event]] = []
    for event in events:
        if isinstance(event, RequestHead) or not messages:
            messages.append([])
        messages[-1].append(event)
    return messages


def _agree(head: RequestHead, body: bytes, trailers: list[Field], ended: bool, theirs: Opinion) -> None:
    """Compare all that both say of one request."""
    other = theirs.head
    hold(isinstance(other, h11.Request), "h11-sees-a-head-too", head)
    assert isinstance(other, h11.Request)
    hold(other.method == head.method.encode(), "same-method", head.method, other.method)
    hold(other.target == head.target.encode(), "same-target", head.target, other.target)
    hold(other.http_version == b"1.%d" % head.minor, "same-version", head.minor, other.http_version)
    fields = [
        (name, value.lower() if name == b"transfer-encoding" else value) for name, _, value in head.fields
    ]
    hold(fields == list(other.headers), "same-fields", fields, list(other.headers))
    hold(body == theirs.body, "same-body", body, theirs.body)
    hold(ended is theirs.ended, "same-end", head, ended, theirs.ended)
    hold(
        [(name, value) for name, _, value in trailers] == theirs.trailers,
        "same-trailers",
        trailers,
        theirs.trailers,
    )
    if ended:
        hold(theirs.persists or not head.keep_alive or head.minor == 0, "persists-there-too", head)


def _plain_start(rest: bytes) -> bytes:
    """Give the request as h11 reads it: without empty lines before it, and with one space around its target."""
    return _SPACES.sub(rb"\1 \2 ", rest.lstrip(b"\r\n"), count=1)


def _why_refused(rest: bytes, theirs: Opinion) -> str:
    """Name the difference for which h11 refuses what is taken here; nothing, if there is none that is known."""
    if "chunk header" in theirs.refused and any(
        len(found) > _H11_DIGITS for found in _LONG_SIZE.findall(rest)
    ):
        return "a long size of a chunk"
    return ""


def _words(events: list[Event]) -> set[str]:
    """Say what kind of events there were, and which followed which."""
    kinds = [_kind(event) for event in events]
    return {*kinds, *(f"{first} > {second}" for first, second in pairwise(kinds))}


def _kind(event: Event) -> str:
    if isinstance(event, RequestHead):
        parts = [
            event.method if event.method in ("GET", "CONNECT") else "other",
            f"1.{event.minor} {event.framing.name}",
            "" if event.keep_alive else "last",
            "upgrade" if event.upgrade else "",
            "expect" if event.expect_continue else "",
        ]
        return " ".join(part for part in parts if part)
    if isinstance(event, WireFault):
        return event.reason
    return "END" if event is END else type(event).__name__


TARGET: Final = Target(
    "requests",
    "the parser of requests: same events however cut; what is taken is the same request, cut at the same place, in h11",
    check,
    tokens=(
        b"GET / HTTP/1.1\r\n",
        b"POST /a HTTP/1.1\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"HEAD",
        b"LIST",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"Host: a\r\n",
        b"Host:\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"Connection: upgrade\r\n",
        b"Proxy-Connection: close\r\n",
        b"Upgrade: websocket\r\n",
        b"Expect: 100-continue\r\n",
        b"X: a\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\r\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"\0",
        b"\x0b",
        b"\x7f",
        b"\xe9",
        b" :",
        b":",
        b"\r\n ",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"0\r\nT: 1\r\n\r\n",
        b"1;a=b\r\nx\r\n",
        b'1;a="\xe9;b"\r\nx\r\n',
        b"00000000000000000001\r\nx\r\n",
        b"FFFFFFFFFFFFFFFF\r\n",
        b"HTTP/1.0",
        b"HTTP/1.1",
        b"http://a:1/b?c#d",
        b"*",
        b",",
        b"identity",
        b"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
)
