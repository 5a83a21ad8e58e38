"""A server that takes every request and never answers. Run with the port to listen on.

`GET /readyz` alone gets an answer, so that its start can be awaited like any other.
"""

from __future__ import annotations

import asyncio
import sys


class _Silent(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET /readyz "):
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._transport.close()


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Silent, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
