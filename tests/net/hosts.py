"""The other side, as small as it can be: a name server, a TCP server, a parent proxy, and a count of open files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from proxy.net.resolver import Resolver

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class NameServer(asyncio.DatagramProtocol):
    """Answers A and AAAA for the names it knows, says nothing of those in `silent`, and NXDOMAIN of all others."""

    def __init__(self, names: dict[str, list[str]], silent: set[str]) -> None:
        self.names = names
        self.silent = silent
        self.asked: list[tuple[str, int]] = []
        self.delay = 0.0
        self.ttl = 1
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        labels, at = [], 12
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode())
            at += 1 + length
        name = ".".join(labels).lower()
        (kind,) = struct.unpack_from("!H", data, at + 1)
        self.asked.append((name, kind))
        if name in self.silent:
            return
        question = data[12 : at + 5]
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        records = [
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, self.ttl, len(packed)) + packed
            for address in self.names.get(name, [])
            if family == (socket.AF_INET6 if ":" in address else socket.AF_INET)
            for packed in [socket.inet_pton(family, address)]
        ]
        flags = 0x8180 if name in self.names else 0x8183
        head = data[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        answer = head + question + b"".join(records)
        assert self.transport is not None
        asyncio.get_running_loop().call_later(self.delay, self.transport.sendto, answer, addr)


@contextlib.asynccontextmanager
async def name_server(
    names: dict[str, list[str]], silent: set[str] | None = None, at: str = "127.0.0.1:0"
) -> AsyncIterator[tuple[NameServer, str]]:
    """A name server on a port of this host, and its address as a resolver takes it."""
    loop = asyncio.get_running_loop()
    host, _, port = at.rpartition(":")
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: NameServer(names, silent or set()), local_addr=(host, int(port))
    )
    try:
        yield protocol, "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])
    finally:
        transport.close()


@contextlib.asynccontextmanager
async def resolving(*nameservers: str, **options: Any) -> AsyncIterator[Resolver]:
    """A resolver that is closed at the end, so that nothing calls back to a loop that has gone."""
    resolver = Resolver(nameservers, **options)
    try:
        yield resolver
    finally:
        await resolver.close()


@contextlib.asynccontextmanager
async def server(
    handler: Handler, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A TCP server on a port of this host; yields the port. What it still serves at the end is dropped."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.close()

    listening = await asyncio.start_server(serve, host, 0, ssl=tls)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what comes, in capitals."""
    while data := await reader.read(1024):
        writer.write(data.upper())


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read, and say nothing."""
    while await reader.read(1024):
        pass


class Parent:
    """A parent proxy: opens tunnels when `status` is 200, else says `status`. Always with `head` first."""

    def __init__(
        self, status: str = "200 Connection established", early: bytes = b"", interim: bytes = b""
    ) -> None:
        self.status = status
        self.early = early
        self.interim = interim
        self.heads: list[str] = []
        self.hosts: dict[str, str] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        answer = self.interim + f"HTTP/1.1 {self.status}\r\n\r\n".encode() + self.early
        if not self.status.startswith("200"):
            writer.write(answer)
            return
        host, _, port = head.split()[1].rpartition(":")
        there, back = await asyncio.open_connection(self.hosts.get(host, host.strip("[]")), int(port))
        writer.write(answer)

        async def relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(4096):
                sink.write(data)
            sink.close()

        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(relay(reader, back))
                both.create_task(relay(there, writer))
        except* OSError:
            pass
        finally:
            back.transport.abort()


def server_context(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    """The context of a server with a certificate for these names."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(*names).configure_cert(context)
    return context


@contextlib.contextmanager
def full_backlog(host: str = "127.0.0.1") -> Iterator[int]:
    """A port that answers no SYN any more, since nobody accepts what has queued up there; yields the port."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind((host, 0))
        listening.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", listening.getsockname()[1]))
        yield listening.getsockname()[1]


def apart(prepare: str, module: str, function: str) -> None:
    """Run an async function of a test module in network and mount namespaces of its own, after shell commands.

    Skips, with the reason, where the machine does not allow that.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare, to make namespaces")
    ready = "ready-6f1d"
    shell = f'ip link set lo up\n{prepare}\necho {ready}\nexec "$@"'
    code = f"import uvloop; from tests.net import {module} as module; uvloop.run(module.{function}())"
    run = subprocess.run(
        ["unshare", "--mount", "--net", "sh", "-ec", shell, "sh", sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if ready not in run.stdout:
        pytest.skip(f"this machine does not allow it: {run.stderr.strip()}")
    assert run.returncode == 0, run.stderr


def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def open_sockets() -> int:
    """How many sockets and pipes this process has open."""
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(entry.readlink()).startswith(("socket:", "pipe:"))
    return count
