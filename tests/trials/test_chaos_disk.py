"""The disks of the chaos trial: each breaks under a process that writes on it, and is well again afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from trials.chaos.disk import Disk, Limited, Volume, disk

WRITER = """
import sys
with open(sys.argv[1], "ab", buffering=0) as file:
    for _ in sys.stdin:
        try:
            file.write(b"x" * 8192)
            print("written", flush=True)
        except OSError as error:
            print(error.errno, flush=True)
"""


@pytest.fixture(params=[Limited, Volume])
def fragile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk of either sort."""
    folder = tmp_path / "volume"
    folder.mkdir()
    try:
        made: Disk = request.param(folder)
    except OSError as problem:
        pytest.skip(f"no volume can be mounted here: {problem}")
    yield made
    made.close()


def test_it_breaks_and_is_mended(fragile: Disk) -> None:
    """Nothing can be written while it is broken, and everything before and after."""
    file = fragile.folder / "journal.db"
    with subprocess.Popen(
        (sys.executable, "-c", WRITER, str(file)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None

        def writes() -> bool:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write("again\n")
            writer.stdin.flush()
            return writer.stdout.readline().strip() == "written"

        assert writes()
        fragile.breaks(writer.pid)
        eventually(lambda: not writes())
        fragile.mends(writer.pid)
        eventually(writes)
        assert all(writes() for _ in range(20))


def test_one_can_always_be_had(tmp_path: Path) -> None:
    """A volume of its own where that is allowed, else what looks like one that fails."""
    made = disk(tmp_path / "volume")
    try:
        (made.folder / "file").write_text("held")
        assert made.what
    finally:
        made.close()
