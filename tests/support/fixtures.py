"""Fixtures for tests that send calls through a real sidecar. A folder takes them by naming them in its conftest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.sidecar import Sidecar

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    """An authority that no system store has."""
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The PEM file of that authority."""
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="session")
def shared_sidecar() -> Iterator[Sidecar]:
    """One sidecar for all tests that need nothing special of it: the built-in policy, and a short linger."""
    with Sidecar("writes: {linger: 1s}") as sidecar:
        yield sidecar


@pytest.fixture
def sidecar(shared_sidecar: Sidecar) -> Iterator[Sidecar]:
    """The shared sidecar. A fault that it reports of itself fails the test in which it did."""
    before = len(shared_sidecar.faults)
    yield shared_sidecar
    assert not shared_sidecar.faults[before:]


@pytest.fixture
def budget() -> str:
    """A budget's id that no other test uses."""
    return f"test-{next(_numbers)}"
