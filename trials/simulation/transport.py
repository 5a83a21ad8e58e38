"""The sidecar's end of a connection: an asyncio transport on a simulated socket, with the semantics of uvloop's.

Nothing is noticed while it does not read: neither the other side's end nor its reset, until something is written. What
has been written is with the kernel, or in the transport's own buffer, which a process that is killed takes with it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket as sockets
import struct
from typing import TYPE_CHECKING, Any, Final, cast

from trials.simulation.pipes import End

if TYPE_CHECKING:
    from trials.simulation.loop import Loop

HIGH_WATER: Final = 65_536
LOW_WATER: Final = 16_384
READS: Final = 65_536
_TCP_ESTABLISHED: Final = 1
_TCP_CLOSE: Final = 7
_SOL_IP: Final = 0
_ORIGINAL_DST: Final = 80


class Socket:
    """What the sidecar asks of a socket besides bytes."""

    def __init__(self, number: int) -> None:
        """Begin without a connection."""
        self.number = number
        self.end: End | None = None
        self.local: tuple[str, int] = ("127.0.0.1", 0)
        self.peer: tuple[str, int] = ("127.0.0.1", 0)
        self.original: tuple[str, int] | None = None
        self.resets_on_close = False
        self.closed = False
        self.on_close: Any = None
        self._held = 1

    def setblocking(self, flag: bool) -> None:
        """Nothing blocks."""

    def fileno(self) -> int:
        """Return a number of its own."""
        return self.number

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        """Take the one option that shows: how it is closed."""
        if option == sockets.SO_LINGER and level == sockets.SOL_SOCKET:
            self.resets_on_close = True

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        """Say how the connection stands, or where it was going before it was redirected. Raises OSError for all else."""
        if level == _SOL_IP and option == _ORIGINAL_DST and self.original is not None:
            address, port = self.original
            return struct.pack("!2xH4s8x", port, sockets.inet_aton(address))
        if option != sockets.TCP_INFO or level != sockets.IPPROTO_TCP:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        info = bytearray(104)
        info[0] = _TCP_CLOSE if self.end is None or self.end.reset else _TCP_ESTABLISHED
        struct.pack_into("=I", info, 68, 100)
        return bytes(info[:size])

    def getsockname(self) -> tuple[str, int]:
        """Return the address of this end."""
        return self.local

    def getpeername(self) -> tuple[str, int]:
        """Return the address of the other end. Raises OSError once that has gone."""
        if self.end is None or self.end.reset:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self.peer

    def close(self) -> None:
        """Let go of the connection, unless another descriptor of it is open."""
        if self.closed:
            return
        self.closed = True
        if self.on_close is not None:
            self.on_close()
        self._let_go()

    def dup(self) -> Second:
        """Return another descriptor of the same connection. Raises OSError without one."""
        if self.closed or self.end is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._held += 1
        return Second(self)

    def unsent(self) -> int:
        """Return how many bytes the other side's kernel does not have yet. Raises OSError without a connection."""
        if self.closed or self.end is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self.end.conn.under_way(self.end)

    def _let_go(self) -> None:
        self._held -= 1
        if not self._held and self.end is not None:
            self.end.close(hard=self.resets_on_close)


class Second:
    """A second descriptor of a connection."""

    def __init__(self, first: Socket) -> None:
        """Hold it open."""
        self._first: Socket | None = first

    def recv(self, most: int, flags: int = 0) -> bytes:
        """Read what has come. Raises BlockingIOError when nothing has, ConnectionResetError after a reset."""
        end = self._first.end if self._first is not None else None
        if end is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if end.inbox:
            return end.take(most)
        if end.reset:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        if end.ended:
            return b""
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def close(self) -> None:
        """Let go; safe to call twice."""
        first, self._first = self._first, None
        if first is not None:
            first._let_go()


class Transport(asyncio.Transport):
    """A transport over a connected socket. `protocol` is told of it by whoever makes it."""

    def __init__(self, loop: Loop, sock: Socket, protocol: Any) -> None:
        """Take the socket; nothing is read before `start`."""
        super().__init__()
        assert sock.end is not None
        self.loop = loop
        self.sock = sock
        self.end = sock.end
        self._protocol = protocol
        self._pending = bytearray()
        self._reading = False
        self._told = False  # the loop knows that there is something to see to
        self._saw_end = False
        self._closing = False
        self._losing = False
        self._says_end = False
        self._paused = False
        self.end.on_readable = self._readable
        self.end.on_room = self._has_room

    def start(self) -> None:
        """Begin to read."""
        self._reading = True
        self._look()

    # -- as protocols see it -----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the socket and its addresses; those of a connection that was reset are not known any more."""
        if name == "socket":
            return self.sock
        if name in ("sockname", "peername"):
            if self.end.reset:
                return None
            return self.sock.local if name == "sockname" else self.sock.peer
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell another one from now on."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return who is told."""
        return cast(asyncio.BaseProtocol, self._protocol)

    def is_reading(self) -> bool:
        """Say whether it reads."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        if not (self._closing or self._reading):
            self._reading = True
            self._look()

    def write(self, data: Any) -> None:
        """Send: at once as far as there is room, and the rest when there is."""
        if self._says_end:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._losing or self._closing or not self.loop.alive:
            return
        if self.end.reset:
            self._fail(errno.EPIPE)
            return
        watch = self.loop.network.wire
        if watch is not None:
            watch(self.end, bytes(data))
        if not self._pending:
            data = bytes(data)
            taken = self.end.write(data)
            if taken == len(data):
                return
            self._pending += data[taken:]
        else:
            self._pending += data
        if len(self._pending) > HIGH_WATER and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Return how much has not been given to the kernel."""
        return len(self._pending)

    def can_write_eof(self) -> bool:
        """Say that one side can be ended."""
        return True

    def write_eof(self) -> None:
        """End this side once all has been sent."""
        if not self._says_end:
            self._says_end = True
            if not self._pending and self.loop.alive:
                self.end.end()

    def is_closing(self) -> bool:
        """Say whether it is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """Close once all has been sent."""
        if not self._closing:
            self._closing = True
            if not self._pending:
                self._lose_soon(None)

    def abort(self) -> None:
        """Close now."""
        self._closing = True
        self._pending.clear()
        self._lose_soon(None)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        if self.end.reset and self._pending and self.loop.alive:
            self.loop.event(self._flush)
        if self._reading and not self._told and self.loop.alive:
            self._told = True
            self.loop.event(self._read)

    def _look(self) -> None:
        end = self.end
        if end.inbox or end.reset or (end.ended and not self._saw_end):
            self._readable()

    def _read(self) -> None:
        self._told = False
        end = self.end
        if self._closing or not self._reading or end.closed:
            return
        if end.inbox:
            self._protocol.data_received(end.take(READS))
        elif end.reset:
            self._fail(errno.ECONNRESET)
            return
        elif end.ended and not self._saw_end:
            self._saw_end = True
            if not self._protocol.eof_received():
                self.close()
            return
        if self.is_reading():
            self._look()

    def _has_room(self) -> None:
        if self._pending and self.loop.alive:
            self.loop.event(self._flush)

    def _flush(self) -> None:
        if not self._pending or self._losing:
            return
        if self.end.reset:
            self._fail(errno.EPIPE)
            return
        taken = self.end.write(bytes(self._pending))
        del self._pending[:taken]
        if self._paused and len(self._pending) <= LOW_WATER:
            self._paused = False
            self._protocol.resume_writing()
        if not self._pending:
            if self._says_end:
                self.end.end()
            if self._closing:
                self._lose_soon(None)

    def _fail(self, number: int) -> None:
        self._closing = True
        self._pending.clear()
        kind = ConnectionResetError if number == errno.ECONNRESET else BrokenPipeError
        self._lose_soon(kind(number, os.strerror(number)))

    def _lose_soon(self, exc: Exception | None) -> None:
        if not self._losing:
            self._losing = True
            self.loop.call_soon(self._lose, exc)

    def _lose(self, exc: Exception | None) -> None:
        try:
            self._protocol.connection_lost(exc)
        finally:
            self.sock.close()
