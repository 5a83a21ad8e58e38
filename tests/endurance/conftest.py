"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Callers that wait while the test goes on."""
    with ThreadPoolExecutor(8) as pool:
        yield pool
