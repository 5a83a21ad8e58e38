"""What the tests of the ways in share: an authority nobody knows, a name server, and sidecars that are told little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.fixtures import budget, shared_sidecar, sidecar
from tests.ways.names import Names
from tests.ways.redirection import inside, led, led_hastily, running_led, space

__all__ = ["budget", "inside", "led", "led_hastily", "running_led", "shared_sidecar", "sidecar", "space"]


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
def names() -> Iterator[Names]:
    """A name server that knows what it is told."""
    with Names() as server:
        yield server
