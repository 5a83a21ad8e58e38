"""What the tests of the ways in share: an authority nobody knows, a name server, and sidecars that are told little."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fixtures import budget, ca, ca_file, shared_sidecar, sidecar
from tests.ways.names import Names
from tests.ways.redirection import inside, led, led_hastily, running_led, space

__all__ = [
    "budget",
    "ca",
    "ca_file",
    "inside",
    "led",
    "led_hastily",
    "running_led",
    "shared_sidecar",
    "sidecar",
    "space",
]


@pytest.fixture(scope="session")
def names() -> Iterator[Names]:
    """A name server that knows what it is told."""
    with Names() as server:
        yield server
