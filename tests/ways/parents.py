"""A parent proxy, as small as it can be: it opens tunnels, passes on requests in absolute form, or refuses."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

from tests.support.upstream import Upstream, Wire


class Parent(Upstream):
    """Reaches every name on the port that is asked for, on this machine. `heads`: the first head of each connection.

    `answers`: what it says instead, to whatever it is asked.
    """

    def __init__(self, *, answers: bytes | None = None) -> None:
        super().__init__(talk=self._talk)
        self.answers = answers
        self.heads: list[str] = []

    def __enter__(self) -> Parent:
        self.start()
        return self

    @property
    def url(self) -> str:  # type: ignore[override]  # it has no paths
        """What the policy says of it."""
        return f"http://{self.authority}"

    @property
    def asked(self) -> list[str]:
        """The first lines of what it was asked, without the version."""
        return [head.split("\r\n")[0].removesuffix(" HTTP/1.1") for head in self.heads]

    def fields(self, number: int = -1) -> dict[str, str]:
        """The fields of one head, names in lower case."""
        lines = self.heads[number].split("\r\n")[1:]
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines if line)}

    async def _talk(self, wire: Wire) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = await wire.receive()
            if not more:
                return
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        self.heads.append(head.decode("latin-1"))
        if self.answers is not None:
            await wire.send(self.answers)
            await wire.until_left()
            return
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        port = int(target.rpartition(":")[2]) if method == "CONNECT" else urlsplit(target).port or 80
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if method == "CONNECT":
            # Whatever the server says first goes out together with the answer.
            early = b""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.03):
                    early = await reader.read(1000)
            await wire.send(b"HTTP/1.1 200 Connection established\r\n\r\n" + early)
            writer.write(rest)
        else:
            writer.write(data)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._back(reader, wire))
                both.create_task(self._on(wire, writer))
        except* OSError:
            pass
        finally:
            writer.transport.abort()

    async def _back(self, reader: asyncio.StreamReader, wire: Wire) -> None:
        while data := await reader.read(65_536):
            await wire.send(data)
        wire.half_close()

    async def _on(self, wire: Wire, writer: asyncio.StreamWriter) -> None:
        while data := await wire.receive():
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
