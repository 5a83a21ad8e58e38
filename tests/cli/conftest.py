"""Commands, and a sidecar for them to ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.writes import Sidecar
from tests.cli.controls import Commands, serving
from tests.support.ports import free_port


@pytest.fixture
def sidecar() -> Sidecar:
    """What the sidecar knows. A test adds to it."""
    return Sidecar()


@pytest.fixture
def asked(sidecar: Sidecar, tmp_path: Path) -> Iterator[Commands]:
    """Commands that ask this sidecar."""
    with serving(sidecar) as port:
        yield Commands(tmp_path, port)


@pytest.fixture
def alone(tmp_path: Path) -> Commands:
    """Commands whose policy names a port that nobody listens on."""
    return Commands(tmp_path, free_port())
