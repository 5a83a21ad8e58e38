"""A certificate authority that only the test trusts, and a guard against what is left open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from tests.net.hosts import open_sockets
from tests.support.fixtures import ca

__all__ = ["ca", "ca_file", "leaves_nothing_open"]


@pytest.fixture
def ca_file(ca: trustme.CA, tmp_path: Path) -> str:
    """The PEM file of that authority."""
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
async def leaves_nothing_open() -> AsyncIterator[None]:
    """Fails a test after which this process has more sockets open than before it."""
    before = open_sockets()
    yield
    for _ in range(200):
        if open_sockets() <= before:
            return
        await asyncio.sleep(0.01)  # what belongs to a channel is closed by the thread that destroys it
    assert open_sockets() <= before
