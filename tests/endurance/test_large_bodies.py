"""Bodies larger than all of the sidecar's memory pass through it, and nobody who is slow can make it keep them."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endurance.bulk import GIB, KIB, MIB, Bulk, Download, pieces, upload
from tests.support.callers import Caller
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE, eventually

BOUND_MIB = 100
"""What the process may ever have in use; the interpreter itself is about half of it."""
KERNEL = 48 * MIB
"""More than what the socket buffers of two hops can hold."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    """One sidecar for all of it: the bound holds for the sum of what it has been through."""
    with Sidecar("writes: {linger: 300ms}") as sidecar:
        yield sidecar


@pytest.fixture
def bulk() -> Iterator[Bulk]:
    """A server that sends and takes the pattern."""
    with Bulk() as bulk:
        yield bulk


@pytest.fixture(autouse=True)
def _bounded(sidecar: Sidecar) -> Iterator[None]:
    yield
    status = Path(f"/proc/{sidecar.pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    assert int(peak[1]) / KIB < BOUND_MIB, f"{int(peak[1]) // KIB} MiB at its peak"


def stalled(bulk: Bulk) -> int:
    """Wait until the server can send nothing more; return how much it could."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < 0.3:
        if bulk.sent != seen:
            seen, since = bulk.sent, time.monotonic()
        time.sleep(0.01)
    return seen


@pytest.mark.parametrize(("way", "size"), [("send", GIB), ("chunked", 256 * MIB)])
def test_large_answer(way: str, size: int, sidecar: Sidecar, bulk: Bulk) -> None:
    """It arrives whole, byte for byte."""
    download = Download(sidecar.address, "GET", bulk.url(f"/{way}/{size}"))
    assert download.read(2 * size) == size
    download.close()


@pytest.mark.parametrize(
    ("method", "size", "chunked"), [("PUT", GIB, False), ("POST", GIB, False), ("POST", 256 * MIB, True)]
)
def test_large_upload(method: str, size: int, chunked: bool, sidecar: Sidecar, bulk: Bulk) -> None:
    """A write is held for its fingerprint, but not one of this size."""
    status, said = upload(sidecar.address, method, bulk.url("/take"), size, chunked=chunked)
    assert (status, said) == (200, b"%d" % size)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_slow_reader(method: str, sidecar: Sidecar, bulk: Bulk) -> None:
    """The server is made to wait for the client; then all goes on, and nothing is missing."""
    download = Download(sidecar.address, method, bulk.url(f"/send/{GIB}"))
    assert download.read(64 * KIB) == 64 * KIB
    assert stalled(bulk) < KERNEL
    assert download.read(64 * MIB) == 64 * MIB
    download.close()
    assert bulk.left.wait(PATIENCE), "the server is told that nobody reads any more"


def test_many_slow_readers(sidecar: Sidecar, bulk: Bulk) -> None:
    """What one of them can make the sidecar keep stays small for many."""
    downloads = [Download(sidecar.address, "GET", bulk.url(f"/send/{GIB}")) for _ in range(20)]
    assert all(download.read(KIB) == KIB for download in downloads)
    assert stalled(bulk) < len(downloads) * KERNEL
    for download in downloads:
        download.close()


def test_slow_reader_of_a_tunnel(sidecar: Sidecar, bulk: Bulk) -> None:
    """Bytes that nobody here can read are not kept either."""
    with Caller(sidecar) as caller:
        caller.request("CONNECT", f"127.0.0.1:{bulk.port}", {"Host": f"127.0.0.1:{bulk.port}"})
        assert b" 200 " in caller.until(b"\r\n\r\n")
        caller.request("GET", f"/send/{GIB}")
        assert len(caller.exactly(64 * KIB)) == 64 * KIB
        assert stalled(bulk) < KERNEL
    assert bulk.left.wait(PATIENCE)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_slow_server(method: str, sidecar: Sidecar, bulk: Bulk) -> None:
    """The client is made to wait for the server; then all goes on, and nothing is missing."""
    total = 128 * MIB
    head = f"{method} {bulk.url('/wait')} HTTP/1.1\r\nHost: {bulk.url('')[7:]}\r\nContent-Length: {total}\r\n\r\n"
    with socket.create_connection(sidecar.address) as caller:
        sent = 0

        def send() -> None:
            nonlocal sent
            caller.sendall(head.encode())
            for piece in pieces(total):
                caller.sendall(piece)
                sent += len(piece)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        eventually(lambda: sent > MIB)
        last = -1
        while sent != last:
            last = sent
            sender.join(0.3)
        assert sent < KERNEL
        assert bulk.taken == 0
        bulk.go.set()
        sender.join(PATIENCE)
        caller.settimeout(PATIENCE)
        eventually(lambda: bulk.taken == total)
        assert caller.recv(KIB).startswith(b"HTTP/1.1 200 ")
