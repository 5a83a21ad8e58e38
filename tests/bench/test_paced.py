"""Requests at a steady rate: when each was due decides how long it took, whatever became of those before it."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from bench.comparison import paced
from bench.comparison.paced import Pace, steadily

REQUEST = b"GET http://127.0.0.1/small HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[int], bytes | None]


@contextmanager
def server(answer: Answer) -> Iterator[int]:
    """`answer` gets the number of the request over all connections; None closes the connection. Yields the port."""
    numbers = count(1)
    turn = threading.Lock()

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline():
                while self.rfile.readline().strip():
                    pass
                with turn:
                    said = answer(next(numbers))
                if said is None:
                    return
                self.wfile.write(said)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()
            thread.join()


def well(number: int) -> bytes:
    return OK


def test_every_request_is_asked_for_once_and_timed() -> None:
    """Those of the lead warm up, and are not timed."""
    with server(well) as port:
        block = steadily(port, REQUEST, Pace(rate=200, seconds=0.5, connections=4, lead=0.1))
    assert len(block.ms) == 100
    assert min(block.ms) > 0
    assert block.failed == block.unanswered == 0


def test_one_slow_answer_makes_those_slow_that_were_due_behind_it() -> None:
    """A caller that waits with its next request would see one slow call, and hide all the others."""

    def once_slow(number: int) -> bytes | None:
        if number == 40:
            time.sleep(0.2)
        return OK

    with server(once_slow) as port:
        block = steadily(port, REQUEST, Pace(rate=200, seconds=0.5, connections=1, lead=0.1))
    assert len(block.ms) == 100
    assert sum(ms > 90 for ms in block.ms) >= 20


def test_what_is_not_answered_counts_for_as_long_as_it_was_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be a fast proxy otherwise that drops what takes long."""

    def stops(number: int) -> bytes | None:
        return OK if number <= 30 else b""

    monkeypatch.setattr(paced, "LINGER", 0.2)
    with server(stops) as port:
        block = steadily(port, REQUEST, Pace(rate=100, seconds=0.5, connections=2, lead=0.1))
    assert len(block.ms) == 50
    assert block.unanswered == 30
    assert sum(ms > 190 for ms in block.ms) >= 30


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", b"no HTTP at all\r\n\r\n"],
    ids=["another status", "garbage"],
)
def test_what_is_no_answer_is_counted(answer: bytes) -> None:
    """A refusal may be fast, and is no call that was relayed."""

    def badly(number: int) -> bytes | None:
        return answer

    with server(badly) as port:
        block = steadily(port, REQUEST, Pace(rate=100, seconds=0.2, connections=2, lead=0))
    assert len(block.ms) == block.failed == 20


def test_a_connection_that_is_closed_is_replaced() -> None:
    """In the middle of a request it fails that one, and no other."""

    def leaves(number: int) -> bytes | None:
        return None if number % 10 == 0 else OK

    with server(leaves) as port:
        block = steadily(port, REQUEST, Pace(rate=100, seconds=0.5, connections=2, lead=0))
    assert len(block.ms) == 50
    assert block.failed == 5
    assert block.unanswered == 0


def test_a_port_that_takes_nobody_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is unanswered, and no connection is tried for ever."""
    monkeypatch.setattr(paced, "LINGER", 0.1)
    with server(well) as port:
        pass
    block = steadily(port, REQUEST, Pace(rate=100, seconds=0.2, connections=2, lead=0))
    assert (len(block.ms), block.unanswered) == (20, 20)
