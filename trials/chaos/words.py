"""The words of this trial: what an upstream may do, on which route, and what is known beforehand of each.

Upstream, clients and checks all read these tables; nothing else do they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple


class Place(StrEnum):
    """Where a call is led to: a port each. All but `MAIN` do what they do before a request can be understood."""

    MAIN = "main"
    REFUSES = "refuses"
    RESETS_ON_ACCEPT = "resets_on_accept"
    STALLS_ON_ACCEPT = "stalls_on_accept"
    RESETS_IN_HEAD = "resets_in_head"
    STALLS_IN_HEAD = "stalls_in_head"


class Way(NamedTuple):
    """One way to behave. `weight`: how often it is drawn. `stream`: only for event streams."""

    name: str
    weight: int
    place: Place = Place.MAIN
    stream: bool = False


WAYS: Final = (
    # answers well
    Way("well", 34),
    Way("well.chunked", 9),
    Way("well.closed", 3),
    Way("well.interim", 2),
    Way("well.closes_idle", 8),
    Way("well.half_closes", 2),
    Way("drip", 3),
    # before anything was understood
    Way("refuse", 3, Place.REFUSES),
    Way("reset.accept", 2, Place.RESETS_ON_ACCEPT),
    Way("stall.accept", 1, Place.STALLS_ON_ACCEPT),
    Way("reset.head", 2, Place.RESETS_IN_HEAD),
    Way("stall.head", 1, Place.STALLS_IN_HEAD),
    # in the request, and after it
    Way("reset.body", 2),
    Way("stall.body", 1),
    Way("reset.read", 3),
    Way("stall.read", 1),
    Way("half.silent", 1),
    # done, and not said
    Way("commit.reset", 4),
    Way("commit.stall", 3),
    Way("commit.close", 2),
    Way("commit.late", 4),
    Way("commit.too_late", 1),
    # done, and said badly
    Way("commit.503", 5),
    Way("reset.answer_head", 2),
    Way("stall.answer_head", 1),
    Way("reset.answer_body", 3),
    Way("stall.answer_body", 2),
    Way("close.answer_body", 3),
    Way("drip.long", 1),
    Way("early", 2),
    Way("lie.long", 1),
    Way("lie.short", 2),
    Way("lie.both", 1),
    Way("lie.two_lengths", 1),
    Way("lie.chunk", 2),
    Way("garbage", 2),
    Way("garbage.after", 2),
    Way("twice", 1),
    # event streams
    Way("events", 10, stream=True),
    Way("events.endless", 6, stream=True),
    Way("events.stall", 3, stream=True),
    Way("events.reset", 2, stream=True),
)

BY_NAME: Final = {way.name: way for way in WAYS}


class Guard(StrEnum):
    """How a route knows a repetition (`routes[].guard`)."""

    FINGERPRINT = "fingerprint"
    KEY = "key"
    NONE = "none"


class Route(NamedTuple):
    """A route of the policy. `settings`: as the file has them; `cap_ms` and the match are added."""

    name: str
    weight: int
    cap_ms: int
    guard: Guard = Guard.FINGERPRINT
    honoured: bool = False
    stream: bool = False
    settings: Mapping[str, Any] = MappingProxyType({})


_BACKOFF: Final = {"base": "10ms", "cap": "50ms"}
ROUTES: Final = (
    Route("plain", 30, 250),
    Route("keyed", 8, 250, Guard.KEY, settings={"guard": "key", "idempotency": {}}),
    Route("unguarded", 6, 200, Guard.NONE, settings={"guard": "none"}),
    Route(
        "honoured",
        10,
        150,
        honoured=True,
        settings={
            "idempotency": {"honoured": True},
            "retries": {
                "max": 2,
                "on": ["connect_failed", "upstream_failed", "deadline_exceeded", 503],
                "backoff": _BACKOFF,
            },
        },
    ),
    Route(
        "again",
        10,
        200,
        settings={
            "retries": {"max": 2, "on": ["connect_failed", "upstream_failed", 503], "backoff": _BACKOFF}
        },
    ),
    Route("narrow", 7, 200, settings={"concurrency": 4, "queue": {"size": 4}}),
    Route("serial", 5, 120, settings={"serialize": True, "queue": {"size": 6}}),
    Route(
        "few",
        6,
        200,
        settings={
            "max_attempts": 2,
            "retries": {"max": 1, "on": ["connect_failed", "upstream_failed"], "backoff": _BACKOFF},
        },
    ),
    Route(
        "asked", 8, 200, settings={"verify": {"path": "/asked/verify?key={idempotency_key}&record={record}"}}
    ),
    Route(
        "stream",
        10,
        400,
        stream=True,
        settings={"effect": "read", "on_cut": "truncate", "truncate_margin": "60ms"},
    ),
)

ROUTE: Final = {route.name: route for route in ROUTES}

FINGERPRINT_BYTES: Final = 16_384
"""The bound of the policy up to which a body is held and known by its fingerprint."""
LINGER_MS: Final = 250
DEFAULT_BUDGET_MS: Final = 3_000


def kind_of(route: str, method: str) -> str:
    """Return the kind that a call has by the policy here and its method: `read`, `idempotent` or `write`."""
    if ROUTE[route].stream or method in ("GET", "HEAD"):
        return "read"
    return "idempotent" if method in ("PUT", "DELETE") else "write"


def pattern(call: str, arrival: int, size: int) -> bytes:
    """Return the body of an answer to one arrival of one call: nobody else's, and each part of it tells whose it is."""
    word = b"%b.%d|" % (call.encode(), arrival)
    return (word * (size // len(word) + 1))[:size]


def event_of(call: str, arrival: int, number: int) -> bytes:
    """Return one event of a stream, in a dialect that the sidecar can close."""
    return (
        b'data: {"id":"%b","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"content":"%b.%d-%d "},"finish_reason":null}]}\n\n'
        % (call.encode(), call.encode(), arrival, number)
    )


def last_event_of(call: str) -> bytes:
    """Return the end of a stream that ends by itself."""
    return (
        b'data: {"id":"%b","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n' % call.encode()
    )


def stream_of(call: str, arrival: int, events: int) -> bytes:
    """Return a whole stream of so many events."""
    return b"".join(event_of(call, arrival, number) for number in range(events)) + last_event_of(call)
