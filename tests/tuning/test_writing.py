"""The policy's file, exchanged as a whole, and not at all where somebody else keeps it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from proxy.tuning.faults import Untunable
from proxy.tuning.writing import rewrite

BEFORE, AFTER = "budget: {stages: {a: 1s}}\r\n# ü\n", "budget: {stages: {a: 2s}}\r\n# ü\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "waterclock.yaml"
    file.write_bytes(BEFORE.encode())
    file.chmod(0o640)
    return file


def left_over(file: Path) -> list[str]:
    return [each.name for each in file.parent.iterdir() if each.name != file.name]


def test_it_is_exchanged(policy: Path) -> None:
    """Byte for byte what was meant, with the mode that it had, and nothing else is left there."""
    rewrite(policy, BEFORE, AFTER)
    assert policy.read_bytes() == AFTER.encode()
    assert stat.S_IMODE(policy.stat().st_mode) == 0o640
    assert left_over(policy) == []


def test_what_has_changed_meanwhile_is_not_overwritten(policy: Path) -> None:
    """Somebody else was quicker."""
    policy.write_text("mode: observe\n")
    with pytest.raises(Untunable, match="has been changed meanwhile"):
        rewrite(policy, BEFORE, AFTER)
    assert policy.read_text() == "mode: observe\n"
    assert left_over(policy) == []


def test_a_link_stays_one(policy: Path, tmp_path: Path) -> None:
    """What it leads to is exchanged."""
    (tmp_path / "etc").mkdir()
    link = tmp_path / "etc" / "waterclock.yaml"
    link.symlink_to("../waterclock.yaml")
    rewrite(link, BEFORE, AFTER)
    assert link.is_symlink()
    assert policy.read_bytes() == AFTER.encode()


def test_a_config_map_is_not_written(tmp_path: Path) -> None:
    """A mounted one looks like a file, and would be one file's worth of disagreement with the cluster."""
    version = tmp_path / "..2026_11_30"
    version.mkdir()
    (version / "waterclock.yaml").write_text(BEFORE)
    (tmp_path / "..data").symlink_to(version.name)
    mounted = tmp_path / "waterclock.yaml"
    mounted.symlink_to("..data/waterclock.yaml")
    with pytest.raises(Untunable, match=r"shown by a ConfigMap(.|\n)*kubectl edit configmap"):
        rewrite(mounted, BEFORE, AFTER)
    assert mounted.read_bytes() == BEFORE.encode()


def test_a_file_that_is_gone(policy: Path) -> None:
    """It is said, with what helps."""
    policy.unlink()
    with pytest.raises(Untunable, match="No such file or directory"):
        rewrite(policy, BEFORE, AFTER)


def test_a_folder_that_cannot_be_written(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose root is read-only."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    with pytest.raises(
        Untunable, match=r"cannot be written: Read-only file system\.\nThe folder must be writable"
    ):
        rewrite(policy, BEFORE, AFTER)
    assert policy.read_bytes() == BEFORE.encode()


def test_a_disk_that_is_full_leaves_the_old_one(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing half-written."""

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Untunable, match="No space left"):
        rewrite(policy, BEFORE, AFTER)
    assert policy.read_bytes() == BEFORE.encode()
    assert left_over(policy) == []
