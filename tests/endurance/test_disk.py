"""A journal whose disk breaks under a running sidecar: it says what is wrong, does what the policy says, and goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endurance.begun import warned
from tests.endurance.disks import Disk, Failing, Mounted
from tests.support.behaviours import answer, stall
from tests.support.callers import Answer, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

HEALTHY = "waterclock_journal_healthy"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    """A small volume."""
    folder = tmp_path / "volume"
    folder.mkdir()
    volume = Mounted(folder)
    yield volume
    volume.unmount()


@pytest.fixture(params=["failing", "full"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """A disk that fails, or one that is full."""
    if request.param == "failing":
        return Failing(tmp_path)
    mounted: Mounted = request.getfixturevalue("mounted")
    return mounted


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Answers at once, and on one path never."""
    with Upstream(answer()) as upstream:
        yield upstream.on("/stall", stall())


def started(disk: Disk, on_failure: str) -> Sidecar:
    """A sidecar whose journal is on that disk, and nothing else."""
    journal = {"path": str(disk.folder / "journal.db"), "on_failure": on_failure}
    routes = [{"name": "stall", "match": {"path": "/stall"}, "cap": "100ms"}]
    return Sidecar({"journal": journal, "routes": routes, "writes": {"linger": "200ms"}})


def write(sidecar: Sidecar, upstream: Upstream, path: str = "/write") -> Answer:
    """A write like any other."""
    return call(sidecar, "POST", upstream.url(path), body=b"{}")


def breaks(disk: Disk, sidecar: Sidecar, upstream: Upstream) -> None:
    """The disk breaks. Before it is so for good, a write may still find room that was given back."""
    disk.breaks(sidecar)

    def fails() -> bool:
        write(sidecar, upstream)
        return sidecar.samples()[HEALTHY] == 0

    eventually(lambda: all(fails() for _ in range(4)))
    words = str(disk.folder / "journal.db")
    time.sleep(0.2)  # the log is written in batches
    assert disk.problem in warned(sidecar, words)["message"]
    while any(event["event"] == "log" for event in sidecar.events):
        warned(sidecar, words)


def mends(disk: Disk, sidecar: Sidecar) -> None:
    """The disk is mended, and the sidecar finds it so by itself."""
    disk.mends(sidecar)
    warned(sidecar, "it can be written again")
    eventually(lambda: sidecar.samples()[HEALTHY] == 1)


def test_refuse(disk: Disk, upstream: Upstream) -> None:
    """No write is sent that nobody would know of after a crash; all else goes on, and so do writes when they can."""
    with started(disk, "refuse") as sidecar:
        assert write(sidecar, upstream).status == 200
        known = write(sidecar, upstream, "/stall")
        breaks(disk, sidecar, upstream)
        for _ in range(3):
            before = len(upstream.requests)
            refused = write(sidecar, upstream)
            assert (refused.status, refused.outcome.reason) == (503, "journal_unavailable")
            assert (refused.outcome.effect, refused.outcome.phase) == ("none", "not_sent")
            assert refused.get("retry-after") is None
            detail = refused.problem["detail"]
            assert str(disk.folder / "journal.db") in detail
            assert disk.problem in detail
            assert disk.remedy in detail
            assert len(upstream.requests) == before, "not a byte has left"
        for method in ("GET", "PUT", "DELETE"):
            assert call(sidecar, method, upstream.url()).status == 200
        samples = sidecar.samples()
        assert samples[HEALTHY] == 0
        assert samples["waterclock_journal_failures_total"] > 0
        mends(disk, sidecar)
        assert write(sidecar, upstream).status == 200
        sidecar.kill()
        sidecar.restart()
        listed = sidecar.ask("/uncertain?state=uncertain")["writes"]
        assert [each["id"] for each in listed] == [known.record]


def test_continue(disk: Disk, upstream: Upstream) -> None:
    """Writes are sent on without a record on disk; in memory there is one, and the disk gets it as soon as it can."""
    with started(disk, "continue") as sidecar:
        assert write(sidecar, upstream).status == 200
        breaks(disk, sidecar, upstream)
        for _ in range(3):
            assert write(sidecar, upstream).status == 200
            assert sidecar.samples()[HEALTHY] == 0
        cut = write(sidecar, upstream, "/stall")
        assert (cut.status, cut.problem["effect"]) == (424, "uncertain")
        again = write(sidecar, upstream, "/stall")
        assert (again.status, again.problem["record"]) == (424, cut.record)
        assert len(upstream.seen("/stall")) == 1
        mends(disk, sidecar)
        assert write(sidecar, upstream).status == 200
        sidecar.kill()
        sidecar.restart()
        listed = sidecar.ask("/uncertain?state=uncertain")["writes"]
        assert [each["id"] for each in listed] == [cut.record]


def test_resolving_while_the_disk_is_broken(disk: Disk, upstream: Upstream) -> None:
    """A verdict that cannot be kept is not taken: whoever gave it is told to give it again."""
    with started(disk, "refuse") as sidecar:
        cut = write(sidecar, upstream, "/stall")
        breaks(disk, sidecar, upstream)
        said = sidecar.resolve(cut.record, applied=False)
        assert said["status"] == 503
        assert disk.problem in said["detail"]
        assert sidecar.uncertain(cut.record)["state"] == "uncertain"
        mends(disk, sidecar)
        assert sidecar.resolve(cut.record, applied=False)["state"] == "not_applied"


def test_stopping_while_the_disk_is_broken(disk: Disk, upstream: Upstream) -> None:
    """It ends all the same, in time and with a clean status."""
    with started(disk, "continue") as sidecar:
        breaks(disk, sidecar, upstream)
        assert sidecar.stop() == 0


def test_read_only_volume(mounted: Mounted, upstream: Upstream) -> None:
    """A sidecar that could keep nothing does not start: the pod would look well, and is not."""
    with started(mounted, "refuse"):
        pass
    mounted.turn_read_only()
    with pytest.raises(AssertionError, match="did not start") as raised:
        started(mounted, "refuse").start()
    said = str(raised.value)
    assert str(mounted.folder / "journal.db") in said
    assert "it cannot be written" in said
    assert "mount its volume for writing, owned by the sidecar's user" in said


def test_removed_file(tmp_path: Path, upstream: Upstream) -> None:
    """What was removed can be written to for ever, and is gone with the process: a new file is begun."""
    disk = Failing(tmp_path)
    with started(disk, "refuse") as sidecar:
        assert write(sidecar, upstream).status == 200
        for path in tmp_path.glob("journal.db*"):
            if path.suffix != ".lock":
                path.unlink()

        def noticed() -> bool:
            write(sidecar, upstream)
            return any("removed or replaced" in event.get("message", "") for event in sidecar.events)

        eventually(noticed)
        warned(sidecar, "removed or replaced while in use")
        eventually(lambda: write(sidecar, upstream).status == 200)
        warned(sidecar, "it can be written again")
        cut = write(sidecar, upstream, "/stall")
        sidecar.kill()
        sidecar.restart()
        assert cut.record in [each["id"] for each in sidecar.uncertain()["writes"]]
