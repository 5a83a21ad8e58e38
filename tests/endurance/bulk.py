"""A server and a client for bodies that no memory should hold: they send and check a pattern, and keep nothing.

The server has a thread for each connection, and says at any time how many bytes it has been able to send and take.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from types import TracebackType

from tests.support.ports import free_port
from tests.support.waiting import PATIENCE

KIB, MIB, GIB = 1024, 1024**2, 1024**3

_PIECE = 256 * KIB
# Of a length that no buffer has, so that what is lost, doubled or out of order shows.
_PATTERN = bytes(number * number % 251 for number in range(65_521))
_RING = _PATTERN * (_PIECE // len(_PATTERN) + 2)


def pieces(total: int) -> Iterator[bytes]:
    """The pattern, in pieces."""
    sent = 0
    while sent < total:
        size = min(_PIECE, total - sent)
        at = sent % len(_PATTERN)
        yield _RING[at : at + size]
        sent += size


class Checked:
    """Takes pieces of the pattern and counts them. Raises ValueError at the first that is not as it should be."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, data: bytes) -> None:
        """Take the next bytes, at most as many as a piece has."""
        at = self.count % len(_PATTERN)
        if data != _RING[at : at + len(data)]:
            raise ValueError(f"the pattern is broken within {len(data)} bytes after {self.count}")
        self.count += len(data)


class Bulk:
    """The server. What it is asked is told by the target:

    `/send/N`      answers with N bytes of the pattern, as fast as it can
    `/chunked/N`   the same, chunked
    `/take`        takes a body of the pattern, and answers how many bytes it was
    `/wait`        the same, but reads no body before `go` is set
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.sent = 0
        self.taken = 0
        self.go = threading.Event()
        self.left = threading.Event()
        """A peer has left before it was sent all."""
        self.failures: list[Exception] = []
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._sockets: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def url(self, path: str) -> str:
        """The absolute form of a path here."""
        return f"http://127.0.0.1:{self.port}{path}"

    def __enter__(self) -> Bulk:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go.set()
        for opened in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        self._thread.join(PATIENCE)
        if failure is None and self.failures:
            raise self.failures[0]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                opened, _ = self._listener.accept()
            except OSError:
                break
            self._sockets.add(opened)
            threads.append(threading.Thread(target=self._serve, args=(opened,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(PATIENCE)

    def _serve(self, opened: socket.socket) -> None:
        with opened, opened.makefile("rb") as reader:
            try:
                while line := reader.readline():
                    _, target, _ = line.split()
                    fields = http.client.parse_headers(reader)
                    _, what, *size = target.decode().split("/")
                    if what in ("send", "chunked"):
                        self._send(opened, int(size[0]), chunked=what == "chunked")
                        continue
                    if what == "wait":
                        assert self.go.wait(PATIENCE)
                    body = b"%d" % self._take(reader, fields)
                    opened.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            except OSError:
                self.left.set()
            except Exception as failure:  # noqa: BLE001 - shown by the test's end, in the test's own thread
                self.failures.append(failure)

    def _send(self, opened: socket.socket, total: int, *, chunked: bool) -> None:
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % total
        opened.sendall(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % framing)
        for piece in pieces(total):
            opened.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.sent += len(piece)
        if chunked:
            opened.sendall(b"0\r\n\r\n")

    def _take(self, reader: object, fields: http.client.HTTPMessage) -> int:
        checked = Checked()
        for data in _body(reader, fields):
            checked.take(data)
            self.taken += len(data)
        return checked.count


def _body(reader: object, fields: http.client.HTTPMessage) -> Iterator[bytes]:
    length = fields["Content-Length"]
    if length is not None:
        yield from _exactly(reader, int(length))
        return
    while size := int(reader.readline(), 16):  # type: ignore[attr-defined]
        yield from _exactly(reader, size)
        reader.readline()  # type: ignore[attr-defined]
    reader.readline()  # type: ignore[attr-defined]


def _exactly(reader: object, size: int) -> Iterator[bytes]:
    while size:
        data = reader.read(min(size, _PIECE))  # type: ignore[attr-defined]
        if not data:
            raise ConnectionError("the body ended early")
        size -= len(data)
        yield data


class Download:
    """The client of one large answer, which reads as fast as it is told to."""

    def __init__(self, address: tuple[str, int], method: str, url: str, body: bytes | None = None) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=60)
        self._connection.request(method, url, body)
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.checked = Checked()

    def read(self, size: int) -> int:
        """Read and check so many bytes, or to the end; return how many there were."""
        before = self.checked.count
        while self.checked.count - before < size:
            data = self._response.read(min(_PIECE, size - (self.checked.count - before)))
            if not data:
                break
            self.checked.take(data)
        return self.checked.count - before

    def close(self) -> None:
        """Leave."""
        self._response.close()
        self._connection.close()


def upload(
    address: tuple[str, int], method: str, url: str, total: int, *, chunked: bool = False
) -> tuple[int, bytes]:
    """Send the pattern as a body; return the status and the answer's body."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        fields = {} if chunked else {"Content-Length": str(total)}
        connection.request(method, url, pieces(total), fields, encode_chunked=chunked)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
