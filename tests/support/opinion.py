"""What h11 makes of one message: the second opinion on framing."""

from __future__ import annotations

from typing import Final

import h11

_MOST_HELD: Final = 1 << 20


class Opinion:
    """What h11 made of the first message in `wire`: None for a part that it did not come to.

    `rest`: what it has left for whoever reads on. `persists`: whether it would read another message;
    `switched`: another protocol has begun.
    """

    def __init__(self, connection: h11.Connection, wire: bytes, *, eof: bool = False) -> None:
        """Let this connection read all of it and, where `eof`, the end of the connection."""
        self.interim: list[int] = []
        self.head: h11.Request | h11.Response | None = None
        self.body = b""
        self.trailers: list[tuple[bytes, bytes]] = []
        self.ended = False
        self.refused = ""
        try:
            connection.receive_data(wire)
            if eof:
                connection.receive_data(b"")
            self._read(connection)
        except h11.RemoteProtocolError as error:
            self.refused = str(error)
        self.rest = bytes(connection.trailing_data[0])
        self.switched = connection.their_state is h11.SWITCHED_PROTOCOL
        self.persists = connection.their_state is not h11.MUST_CLOSE

    def _read(self, connection: h11.Connection) -> None:
        while not self.ended:
            event = connection.next_event()
            if isinstance(event, h11.InformationalResponse):
                self.interim.append(event.status_code)
                if event.status_code == 101:
                    self.ended = True
            elif isinstance(event, h11.Request | h11.Response):
                self.head = event
            elif isinstance(event, h11.Data):
                self.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.trailers = list(event.headers)
                self.ended = True
            else:
                return


def of_request(wire: bytes) -> Opinion:
    """Let h11 read it as a server."""
    return Opinion(h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HELD), wire)


def of_response(method: str, wire: bytes, *, eof: bool, asks_upgrade: bool = False) -> Opinion:
    """Let h11 read it as a client that has sent a request with this method."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HELD)
    fields = [("Host", "a")]
    if asks_upgrade:
        fields += [("Connection", "upgrade"), ("Upgrade", "x")]
    connection.send(h11.Request(method=method, target="a:1" if method == "CONNECT" else "/", headers=fields))
    connection.send(h11.EndOfMessage())
    return Opinion(connection, wire, eof=eof)
