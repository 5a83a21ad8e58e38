"""One connection to a Redis or Valkey server: redis-py speaks, over a connection that `proxy.net` has opened.

redis-py would look the server's name up in the loop's shared thread pool, where a name server that hangs blocks everybody
else; so its connection is given one of ours, with our resolver, our TLS and our look at where it leads. It is never asked
to try again: how long anything may take is the business of whoever waits for it.

This is the only module that knows redis-py. Importing it takes some 70 ms and 9 MiB, so it is imported once a store is
configured, and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from proxy import __version__
from proxy.degrade.cache.store_address import StoreAddress
from proxy.net.dial import Dialer

Command: TypeAlias = Sequence[bytes | str | int]

_HANDSHAKE_BYTES: Final = 65_536
_BREATH: Final = 64
"""After so many pieces of a reply, others have their turn: a reply of a million numbers would not let go of the loop."""


def _names() -> dict[str, Any]:
    """Return how a connection names itself to the server, whatever the version of redis-py calls that.

    Where nobody says it, each connection looks its library's version up on the disk: a millisecond in which every call waits.
    """
    named = {"lib_name": "waterclock", "lib_version": __version__}
    try:
        from redis.driver_info import DriverInfo
    except ImportError:
        return named
    return {"driver_info": DriverInfo(name=named["lib_name"], lib_version=named["lib_version"])}


_NAMED: Final = _names()


class _Reader(asyncio.StreamReader):
    """What the server sends, up to a bound of bytes for each exchange."""

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._left = _HANDSHAKE_BYTES
        self._pieces = 0
        self._unread = 0

    @property
    def clean(self) -> bool:
        """Whether the other side is still there, and has said nothing that was not read."""
        return not self._unread and not self.at_eof() and self.exception() is None

    def feed_data(self, data: Any) -> None:
        self._unread += len(data)
        super().feed_data(data)

    def allow(self, most: int) -> None:
        """Begin an exchange, whose replies have `most` bytes at most."""
        self._left = most

    async def readline(self) -> bytes:
        await self._turn()
        return self._counted(await super().readline())

    async def readexactly(self, n: int) -> bytes:
        if not 0 <= n <= self._left:
            raise ValueError(f"the store announces {n} bytes, where {self._left} are the most")
        await self._turn()
        return self._counted(await super().readexactly(n))

    async def read(self, n: int = -1) -> bytes:
        await self._turn()
        return self._counted(await super().read(n))

    def _counted(self, data: bytes) -> bytes:
        self._unread -= len(data)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("the store sends more than was asked for")
        return data

    async def _turn(self) -> None:
        self._pieces += 1
        if self._pieces % _BREATH == 0:
            await asyncio.sleep(0)


class Link(AbstractConnection):
    """A connection for one exchange after another. One whose exchange has not ended cleanly is to be dropped."""

    def __init__(self, dialer: Dialer, address: StoreAddress) -> None:
        """Open nothing yet."""
        super().__init__(
            db=address.database,
            username=address.user,
            password=address.password,
            socket_timeout=None,
            socket_connect_timeout=None,
            protocol=2,
            **_NAMED,
        )
        self._dialer = dialer
        self._address = address
        self._incoming: _Reader | None = None

    @property
    def usable(self) -> bool:
        """Whether the next exchange may begin: the connection stands, and nobody has spoken on it unasked."""
        reader, writer = self._incoming, self._writer
        return (
            reader is not None and reader.clean and writer is not None and not writer.transport.is_closing()
        )

    async def open(self) -> None:
        """Connect, prove who we are, choose the database. Raises whatever goes wrong; the link is to be dropped then."""
        await AbstractConnection.connect(self)

    async def exchange(self, commands: Iterable[Command], most: int) -> list[Any]:
        """Send commands in one piece, and return the reply to each, in bytes; where the server refuses one, its error.

        Raises whatever else goes wrong, replies of more than `most` bytes included; the link is to be dropped then.
        """
        commands = list(commands)
        assert self._incoming is not None
        self._incoming.allow(most)
        await self.send_packed_command(self.pack_commands(commands), check_health=False)
        return [await self._reply() for _ in commands]

    def drop(self) -> None:
        """Close it at once, whatever is going on. Safe to call twice."""
        self._parser.on_disconnect()
        writer, self._writer, self._reader, self._incoming = self._writer, None, None, None
        if writer is not None:
            writer.transport.abort()

    async def _reply(self) -> Any:
        try:
            return await self.read_response(disable_decoding=True)
        except ResponseError as error:
            return error

    async def _connect(self) -> None:
        address = self._address
        reader = _Reader()
        loop = asyncio.get_running_loop()
        dialled = await self._dialer.dial(
            address.origin,
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop),
            tunnel=address.origin.scheme == "tcp",
        )
        self._reader = self._incoming = reader
        self._writer = asyncio.StreamWriter(dialled.transport, dialled.protocol, reader, loop)

    def _host_error(self) -> str:
        return repr(self._address)

    def repr_pieces(self) -> list[tuple[str, str]]:
        """Return what is shown of it."""
        return [("store", repr(self._address))]
