"""The image, built once for all tests of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.images import NAME, Image, build, configuration, must_be_able, run


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image, and its files, mounted. Skips, with the reason, where none can be built."""
    must_be_able()
    name = build()
    container = run("buildah", "from", name).strip()
    try:
        yield Image(name, configuration(name), Path(run("buildah", "mount", container).strip()))
    finally:
        run("buildah", "umount", container)
        run("buildah", "rm", container)
        if name == NAME:
            run("buildah", "rmi", name)
