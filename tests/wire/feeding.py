"""Feeding a parser in every way the network may cut the bytes, and showing what it says in one short line an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from proxy.wire.events import END, Event, Framing, RequestHead, ResponseHead, Trailers, Upgraded, WireFault
from proxy.wire.limits import Limits
from proxy.wire.parser import RequestParser, ResponseParser


class Case(NamedTuple):
    """One row of a table: what arrives, and what is said of it."""

    name: str
    wire: bytes
    events: list[str]


def named(cases: Iterable[Case]) -> Callable[[Case], str]:
    """Let pytest show a row by its name, and see that no two rows have the same."""
    names = [case.name for case in cases]
    assert len(names) == len(set(names))
    return lambda case: case.name


def byte_by_byte(wire: bytes) -> list[bytes]:
    return [wire[at : at + 1] for at in range(len(wire))]


@st.composite
def pieces(draw: st.DrawFn, wire: bytes) -> list[bytes]:
    """The wire, cut in a few places."""
    cuts = sorted(draw(st.lists(st.integers(0, len(wire)), max_size=6)))
    return [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]


def read_requests(feeds: Iterable[bytes], limits: Limits | None = None) -> list[Event]:
    """All that a fresh parser says of requests. What comes after another protocol has begun belongs to that."""
    parser = RequestParser(limits or Limits())
    events: list[Event] = []
    for data in feeds:
        if events and isinstance(events[-1], Upgraded):
            events[-1] = Upgraded(events[-1].rest + data)
        else:
            events += parser.feed(data)
    return joined(events)


class Exchange(NamedTuple):
    """What a fresh parser says of a response, and whether it would take another on the same connection."""

    events: list[Event]
    reusable: bool


def read_response(
    method: str, feeds: Iterable[bytes], limits: Limits | None = None, *, eof: bool = False
) -> Exchange:
    """Read the answer to one request, all of whose bytes arrive; `eof`: then the connection is closed."""
    parser = ResponseParser(limits or Limits())
    parser.start(method)
    events: list[Event] = []
    for data in feeds:
        if events and isinstance(events[-1], Upgraded):
            events[-1] = Upgraded(events[-1].rest + data)
        else:
            events += parser.feed(data)
    if eof:
        events += parser.eof()
    return Exchange(joined(events), parser.reusable)


def joined(events: Sequence[Event]) -> list[Event]:
    """The same events with neighbouring pieces of a body joined: where they are cut is the network's doing."""
    result: list[Event] = []
    for event in events:
        if isinstance(event, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += event
        else:
            result.append(event)
    return result


def shown(events: Iterable[Event]) -> list[str]:
    return [show(event) for event in events]


def show(event: Event) -> str:
    """An event in one line. What is usual (HTTP/1.1, no body, a connection that persists) goes without saying."""
    match event:
        case RequestHead():
            extras = [f"upgrade={event.upgrade.decode()}"] if event.upgrade else []
            extras += ["expects 100"] if event.expect_continue else []
            return " ".join([event.method, event.target, *_common(event), *extras])
        case ResponseHead():
            return " ".join([str(event.status), event.reason, *_common(event)])
        case bytes():
            return f"body {event.decode('latin-1')}"
        case Trailers():
            return "trailers " + ", ".join(
                f"{name.decode()}: {value.decode()}" for _, name, value in event.fields
            )
        case Upgraded():
            return f"UPGRADED {event.rest.decode('latin-1')}" if event.rest else "UPGRADED"
        case WireFault():
            return f"FAULT {event.status} {event.reason}"
        case _:
            assert event is END
            return "END"


def _common(head: RequestHead | ResponseHead) -> list[str]:
    framing = {
        Framing.NO_BODY: [],
        Framing.LENGTH: [f"length={head.length}"],
        Framing.CHUNKED: ["chunked"],
        Framing.UNTIL_CLOSE: ["until close"],
    }
    version = ["1.0"] if head.minor == 0 else []
    closing = [] if head.keep_alive or head.framing is Framing.UNTIL_CLOSE else ["last"]
    return version + framing[head.framing] + closing
