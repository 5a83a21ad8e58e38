"""More than anybody needs to send: refused with bounded memory, in whatever pieces it comes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from proxy.wire.events import END, Event, WireFault
from proxy.wire.limits import Limits
from proxy.wire.parser import RequestParser, ResponseParser
from proxy.wire.tape import RequestTape
from tests.wire.feeding import byte_by_byte, read_requests, read_response, shown

MEGABYTE = 1_000_000
GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
LIMITS = Limits(head_bytes=1_000, field_count=10, target_bytes=100)

# Ten megabytes and more of each, and what is said in the end. The same goes for requests and responses.
FLOODS = {
    "one value": (b"X: " + b"a" * 10 * MEGABYTE, "head_too_large"),
    "one name": (b"X" * 10 * MEGABYTE, "head_too_large"),
    "space before a value": (b"X:" + b" " * 10 * MEGABYTE, "head_too_large"),
    "100,000 fields": (b"X: a\r\n" * 100_000, "too_many_fields"),
    "large fields": ((b"X: " + b"a" * 10_000 + b"\r\n") * 1_000, "head_too_large"),
    "a chunk size": (CHUNKED + b"0" * 10 * MEGABYTE, "chunk_overhead"),
    "a chunk extension": (CHUNKED + b"1;" + b"a" * 10 * MEGABYTE, "chunk_overhead"),
    "many chunk extensions": (CHUNKED + (b"1;" + b"a" * 1_000 + b"\r\nx\r\n") * 10_000, "chunk_overhead"),
    "one trailer": (CHUNKED + b"0\r\nX: " + b"a" * 10 * MEGABYTE, "chunk_overhead"),
    "100,000 trailers": (CHUNKED + b"0\r\n" + b"X: a\r\n" * 100_000, "too_many_fields"),
}
STATUSES = {"head_too_large": 431, "too_many_fields": 431, "chunk_overhead": 400}


def in_feeds(wire: bytes, size: int) -> Iterator[bytes]:
    return (wire[at : at + size] for at in range(0, len(wire), size))


def fault_and_peak(
    parser: RequestParser | ResponseParser, feeds: Iterable[bytes]
) -> tuple[WireFault | None, int]:
    """Feed until there is a fault; give it, and the most memory that was in use on the way."""
    fault = None
    tracemalloc.start()
    for data in feeds:
        events: list[Event] = parser.feed(data)
        if events and isinstance(events[-1], WireFault):
            fault = events[-1]
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return fault, peak


@pytest.mark.parametrize("size", [100, 1_460, 65_536, 262_144, 20 * MEGABYTE])
@pytest.mark.parametrize("name", FLOODS)
def test_request_flood(name: str, size: int) -> None:
    """431 or 400, and never more in memory than a few of the limits."""
    flood, reason = FLOODS[name]
    wire = GET + flood
    fault, peak = fault_and_peak(RequestParser(), in_feeds(wire, size))
    assert fault is not None
    assert (fault.status, fault.reason) == (STATUSES[reason], reason)
    # A feed belongs to the caller; what is bounded is what is made of it.
    assert peak - min(size, len(wire)) < 4 * MEGABYTE


@pytest.mark.parametrize("size", [1_460, 262_144, 20 * MEGABYTE])
@pytest.mark.parametrize("name", FLOODS)
def test_response_flood(name: str, size: int) -> None:
    """A server can flood too."""
    flood, reason = FLOODS[name]
    parser = ResponseParser()
    parser.start("GET")
    fault, peak = fault_and_peak(parser, in_feeds(OK + flood, size))
    assert fault is not None
    assert (fault.status, fault.reason) == (502, reason)
    assert peak - min(size, len(OK + flood)) < 4 * MEGABYTE
    assert not parser.reusable


@pytest.mark.parametrize("size", [100, 262_144])
def test_first_line_flood(size: int) -> None:
    """A target has a limit and a status of its own; a reason counts with its head."""
    fault, _ = fault_and_peak(RequestParser(), in_feeds(b"GET /" + b"a" * 10 * MEGABYTE, size))
    assert fault is not None
    assert fault.status == 414
    parser = ResponseParser()
    parser.start("GET")
    fault, _ = fault_and_peak(parser, in_feeds(b"HTTP/1.1 200 " + b"a" * 10 * MEGABYTE, size))
    assert fault is not None
    assert fault.reason == "head_too_large"


def test_space_before_a_target() -> None:
    """httptools reads over any number of spaces there."""
    fault, _ = fault_and_peak(RequestParser(), in_feeds(b"GET" + b" " * MEGABYTE, 1_000))
    assert fault is not None
    assert fault.status == 431


def test_empty_lines_take_no_memory() -> None:
    """They are no request, so there is nothing to answer, and nothing of them is kept."""
    parser = RequestParser()
    fault, peak = fault_and_peak(parser, in_feeds(b"\r\n" * MEGABYTE, 65_536))
    assert fault is None
    assert peak < MEGABYTE
    assert not parser.mid_message


HEADS = {
    "the last octet": (GET + b"X: " + b"a" * (1_000 - 1 - 9 - 5) + b"\r\n\r\n", ["GET /", "END"]),
    "one octet more": (GET + b"X: " + b"a" * (1_000 - 9 - 5) + b"\r\n\r\n", ["FAULT 431 head_too_large"]),
    "the last field": (GET + b"X: a\r\n" * 9 + b"\r\n", ["GET /", "END"]),
    "one field more": (GET + b"X: a\r\n" * 10 + b"\r\n", ["FAULT 431 too_many_fields"]),
    "the longest target": (
        b"GET /" + b"a" * 99 + b" HTTP/1.0\r\n\r\n",
        ["GET /" + "a" * 99 + " 1.0 last", "END"],
    ),
    "a longer target": (b"GET /" + b"a" * 100 + b" HTTP/1.0\r\n\r\n", ["FAULT 414 target_too_long"]),
    "the last trailer": (
        GET + CHUNKED + b"0\r\n" + b"X: a\r\n" * 10 + b"\r\n",
        ["GET / chunked", "trailers " + ", ".join(["X: a"] * 10), "END"],
    ),
    "one trailer more": (
        GET + CHUNKED + b"0\r\n" + b"X: a\r\n" * 11 + b"\r\n",
        ["GET / chunked", "FAULT 431 too_many_fields"],
    ),
    "large trailers": (
        GET + CHUNKED + b"0\r\nX: " + b"a" * 1_000 + b"\r\n\r\n",
        ["GET / chunked", "FAULT 431 head_too_large"],
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_limits_are_exact(name: str) -> None:
    """Where a limit lies does not depend on how the bytes come, or on what stands before them."""
    wire, events = HEADS[name]
    before = GET + b"Content-Length: 3000\r\n\r\n" + b"x" * 3_000
    assert shown(read_requests([wire], LIMITS)) == events
    assert shown(read_requests(byte_by_byte(wire), LIMITS)) == events
    assert shown(read_requests([before + wire[:20], wire[20:]], LIMITS))[3:] == events


def test_head_behind_a_large_body_is_not_charged_for_it() -> None:
    """The bytes of one message never count against the next."""
    body = b"x" * 500_000
    wire = (GET + b"Content-Length: %d\r\n\r\n" % len(body) + body) * 3
    for size in (1_000, 65_536, 262_144, len(wire)):
        assert shown(read_requests(in_feeds(wire, size))).count("END") == 3


def test_chunks_with_extensions_are_not_charged_to_the_next_request() -> None:
    """Each message has its own account."""
    chunks = (b"1;" + b"a" * 1_000 + b"\r\nx\r\n") * 50 + b"0\r\n\r\n"
    wire = (GET + CHUNKED + chunks) * 10
    for size in (1_000, 1_460, 65_536):
        assert shown(read_requests(in_feeds(wire, size))).count("END") == 10


def test_chunks_of_one_octet() -> None:
    """Small chunks are slow, and legitimate: a model that streams its answer sends little else."""
    wire = OK + CHUNKED + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
    for size in (7, 1_460, 262_144, len(wire)):
        exchange = read_response("GET", in_feeds(wire, size))
        assert exchange.events[-1] is END
        assert exchange.events[1] == b"x" * 100_000
        assert exchange.reusable


def test_pipelined_requests() -> None:
    """Thousands in one feed are thousands of requests."""
    assert shown(read_requests([(GET + b"\r\n") * 10_000])).count("END") == 10_000


def test_parser_leaves_no_garbage_that_stays() -> None:
    """httptools and its callbacks refer to each other; the collector has to be able to part them."""

    def tapes() -> int:
        """Counted, since a compiled object takes no weak reference."""
        gc.collect()
        return sum(type(each) is RequestTape for each in gc.get_objects())

    before = tapes()
    parser = RequestParser()
    parser.feed(GET)
    assert tapes() == before + 1
    del parser
    assert tapes() == before
