"""The local embeddings, loaded once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.semantic.embeddings.local import LocalEmbeddings
from proxy.semantic.worker import Worker


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """A thread for long texts."""
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def local(worker: Worker) -> LocalEmbeddings:
    """The model that is in WordLlama's wheel."""
    return LocalEmbeddings(worker)
