"""Callers that send exactly the bytes they are told to, and say exactly what they saw.

    answer = call(sidecar, "POST", upstream.url("/orders"), body=b"{}", headers={"Budget-Remaining-Ms": 300})
    assert answer.status == 424 and answer.outcome.effect == "uncertain"

`Caller` is one connection, for tests that want to pipeline, half-close or leave. Answers are read with h11; one that
does not end as HTTP says is no exception but an `Answer` that is not `complete`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol

import h11

from tests.support.waiting import PATIENCE

Headers = Mapping[str, Any]


class Address(Protocol):
    """A sidecar, or anything else that can be connected to."""

    @property
    def address(self) -> tuple[str, int]: ...


class Said(NamedTuple):
    """`Budget-Outcome`, taken apart."""

    outcome: str
    effect: str | None = None
    retry: str | None = None
    reason: str | None = None
    phase: str | None = None
    would: str | None = None


class Answer(NamedTuple):
    """What came back. `ended` says how the reading ended: the message did, or the connection by FIN or RST before.

    Spans are milliseconds from the moment the request began to be sent: to the head, and to the end. `trailers`: the
    fields after a chunked body.
    """

    status: int
    fields: list[tuple[str, str]]
    body: bytes
    ended: Literal["message", "fin", "reset", "garbage"]
    interim: list[int]
    head_after: float
    after: float
    trailers: Sequence[tuple[str, str]] = ()

    @property
    def complete(self) -> bool:
        """Whether a client may take this for a whole answer."""
        return self.ended == "message"

    def get(self, name: str) -> str | None:
        """The value of a field, repeated ones joined."""
        values = [value for known, value in self.fields if known == name.lower()]
        return ", ".join(values) if values else None

    @property
    def outcome(self) -> Said:
        """What the sidecar says of the call."""
        value = self.get("budget-outcome")
        assert value is not None, f"no Budget-Outcome in {self}"
        token, *parameters = value.split("; ")
        return Said(token, **dict(parameter.split("=", 1) for parameter in parameters))

    @property
    def record(self) -> str:
        """The id of the step's record."""
        value = self.get("budget-record")
        assert value is not None, f"no Budget-Record in {self}"
        return value

    @property
    def problem(self) -> dict[str, Any]:
        """The body of an answer of the sidecar's own."""
        assert self.get("content-type") == "application/problem+json", self
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document


NOTHING = Answer(0, [], b"", "fin", [], 0.0, 0.0)
"""No answer at all."""


def render(
    method: str, target: str, headers: Headers | None = None, body: bytes = b"", *, version: str = "1.1"
) -> bytes:
    """The bytes of a request. A Host and a Content-Length are added unless they are given, even if only as None."""
    given = dict(headers or {})
    names = {name.lower() for name in given}
    if "host" not in names:
        given["Host"] = target.split("/")[2] if "://" in target else "localhost"
    if body and not names & {"content-length", "transfer-encoding"}:
        given["Content-Length"] = len(body)
    lines = [f"{method} {target} HTTP/{version}"]
    lines += [
        f"{name}: {each}" for name, value in given.items() if value is not None for each in _each(value)
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def chunked(*pieces: bytes) -> bytes:
    """A whole chunked body."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class Caller:
    """One connection."""

    def __init__(self, to: Address | tuple[str, int], *, timeout: float = PATIENCE) -> None:
        address = to if isinstance(to, tuple) else to.address
        self.socket = socket.create_connection(address, timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._began = time.monotonic_ns()
        self._over: Literal["fin", "reset"] | None = None

    def __enter__(self) -> Caller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # -- what it does ----------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> Caller:
        """Send bytes as they are. The clock of the next answer starts now."""
        self._began = time.monotonic_ns()
        self.add(data)
        return self

    def add(self, data: bytes) -> Caller:
        """Send more of what was begun. A sidecar that has closed already is no error here: its answer tells."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)
        return self

    def request(
        self,
        method: str,
        target: str,
        headers: Headers | None = None,
        body: bytes = b"",
        *,
        version: str = "1.1",
    ) -> Caller:
        """Send a request."""
        return self.send(render(method, target, headers, body, version=version))

    def half_close(self) -> Caller:
        """Say that no more will be sent."""
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def leave(self, *, reset: bool = False) -> None:
        """Close the connection at once."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # -- what it sees ----------------------------------------------------------------------------------------------

    def receive(self, size: int = 65_536) -> bytes:
        """Whatever has come next; b"" when the other side has ended, by FIN or by RST."""
        if self._rest:
            data, self._rest = self._rest[:size], self._rest[size:]
            return data
        try:
            data = self.socket.recv(size)
        except ConnectionResetError:
            self._over = "reset"
            return b""
        if not data:
            self._over = self._over or "fin"
        return data

    def exactly(self, size: int) -> bytes:
        """So many bytes, fewer only if the other side ends."""
        data = b""
        while len(data) < size and (more := self.receive(size - len(data))):
            data += more
        return data

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with a mark."""
        data = b""
        while mark not in data and (more := self.receive()):
            data += more
        at = data.find(mark)
        if at >= 0:
            at += len(mark)
            data, self._rest = data[:at], data[at:] + self._rest
        return data

    def rest(self) -> bytes:
        """Everything until the other side ends."""
        data = b""
        while more := self.receive():
            data += more
        return data

    @property
    def ended_by(self) -> Literal["fin", "reset"] | None:
        """How the other side has ended, as far as was read."""
        return self._over

    def answer(self, method: str = "GET") -> Answer:
        """Read the answer to a request with this method."""
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=4_000_000)
        parser.send(
            h11.Request(
                method=method,
                target="/",
                headers=[("Host", "a"), ("Upgrade", "any"), ("Connection", "upgrade")],
            )
        )
        parser.send(h11.EndOfMessage())
        status, fields, interim, head_after = 0, [], [], 0.0
        trailers: list[tuple[str, str]] = []
        body = bytearray()
        ended: Literal["message", "fin", "reset", "garbage"] = "message"
        while True:
            try:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    data = self.receive()
                    parser.receive_data(data)
                    continue
            except h11.RemoteProtocolError:
                ended = self._over or "garbage"
                break
            if isinstance(event, h11.ConnectionClosed):
                ended = self._over or "fin"
                break
            if isinstance(event, h11.Data):
                body += event.data
                continue
            if isinstance(event, h11.EndOfMessage):
                # Without a length, h11 takes any end for the end; a reset is none.
                ended = "reset" if self._over == "reset" else "message"
                trailers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
                break
            assert isinstance(event, (h11.Response, h11.InformationalResponse))
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                interim.append(event.status_code)
                continue
            status, head_after = event.status_code, self._since()
            fields = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
            if status == 101:
                break
        trailing, _ = parser.trailing_data
        self._rest = bytes(trailing) + self._rest
        return Answer(status, fields, bytes(body), ended, interim, head_after, self._since(), trailers)

    def _since(self) -> float:
        return (time.monotonic_ns() - self._began) / 1e6


def call(
    to: Address | tuple[str, int],
    method: str,
    target: str,
    *,
    headers: Headers | None = None,
    body: bytes = b"",
    version: str = "1.1",
) -> Answer:
    """One call on a connection of its own."""
    with Caller(to) as caller:
        return caller.request(method, target, headers, body, version=version).answer(method)
