"""What the tests with real SDKs share: a server of transcripts, and the packages for Node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.degrade.sdk import node_readers
from tests.degrade.sdk.served import Shelf
from tests.support.upstream import Upstream

_OWN_SETTINGS = ("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_")


@pytest.fixture(scope="session")
def shelf() -> Shelf:
    """What is served. Everything keeps its name for the whole run."""
    return Shelf()


@pytest.fixture(scope="session")
def service(shelf: Shelf) -> Iterator[Upstream]:
    """The service that all SDKs ask."""
    with Upstream(shelf.behave) as upstream:
        yield upstream


@pytest.fixture(scope="session")
def node_packages() -> Path:
    """The SDKs on Node."""
    if not node_readers.NPM.is_file():
        pytest.skip(f"there is no npm at {node_readers.NPM}")
    try:
        return node_readers.installed()
    except node_readers.NotInstalled as fault:
        if "CI" in os.environ:
            raise
        pytest.skip(f"npm could not fetch the SDKs for Node: {fault}")


@pytest.fixture(scope="session", autouse=True)
def _nobodys_settings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(_OWN_SETTINGS):
                patch.delenv(name)
        yield
