"""What the tests of security share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import ca

__all__ = ["ca"]


@pytest.fixture
def page() -> str:
    """The page of the policy."""
    return (Path(__file__).parents[2] / "docs/policy.md").read_text()
