"""Logs of sidecars, as collectors hand them on: every step is found, and what is none is no step."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.units import MILLISECOND
from proxy.observe.lines import step_line
from proxy.tuning.faults import Untunable
from proxy.tuning.jobs import Jobs
from proxy.tuning.seen import Unreadable
from proxy.tuning.steplog import LONGEST, Line, read_logs, step_of
from tests.observe.records import records
from tests.tuning.telling import line, policy, record, step

POLICY = policy()
EVENT = (
    b'{"time":"2026-11-30T01:49:41.943Z","event":"degraded","record":"p1-1","step":3,"budget_id":"run-1"}\n'
)


def read(*names: Path | str) -> tuple[Jobs, tuple[str, ...]]:
    jobs = Jobs(POLICY)
    return jobs, read_logs(map(str, names), jobs)


# -- lines -------------------------------------------------------------------------------------------------------------

WHOLE = Line(step(), 1_796_003_340_400 * MILLISECOND)


@pytest.mark.parametrize(
    "wrapped",
    [
        line(),
        b"2026-11-30T01:49:00.151234567Z " + line(),
        b"2026-11-30T01:49:00.151234567Z stdout F " + line(),
        b"[pod/agent-7d9-x2x/waterclock] " + line(),
        json.dumps({"log": line().decode(), "stream": "stdout", "time": "2026-11-30T01:49:00.2Z"}).encode(),
        line().rstrip() + b"\r\n",
    ],
)
def test_what_collectors_put_around_a_line_is_taken_off(wrapped: bytes) -> None:
    """A time, a name, or an object that holds it."""
    assert step_of(wrapped) == WHOLE


@pytest.mark.parametrize(
    "other", [EVENT, b"\n", b"", b"Starting\n", b'{"event":"started"}\n', b'["record", {}', b"\xff\x00\n"]
)
def test_other_lines_are_no_steps(other: bytes) -> None:
    """Events name steps too."""
    assert step_of(other) is None


@pytest.mark.parametrize(
    "broken",
    [
        line()[:-40],
        b'"record"',
        b'{"record": ' * 5000,
        b'{"record":1,"step":1,"budget_id":"a","remaining_ms":1}',
        line(elapsed_ms="400"),
        b'{"log":"{\\"record\\"","stream":"stdout"}',
        b'{"record":"a","step":' + b"9" * 5000 + b"}",
    ],
)
def test_broken_lines_are_unreadable(broken: bytes) -> None:
    """And nothing worse."""
    with pytest.raises(Unreadable):
        step_of(broken)


@pytest.mark.parametrize(
    "at", ["?", "yesterday", "2026-11-30", "9999-99-99T00:00:00Z", 17, None, "0001-01-01T00:00:00"]
)
def test_a_time_that_is_none(at: Any) -> None:
    """The step counts all the same."""
    found = step_of(line(at=at))
    assert found is not None
    assert found.step == step()


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\n", b"")))
@example(b'{"record":null,"step":null}')
@example(b'{"record":"a","step":1e999}')
def test_any_bytes(data: bytes) -> None:
    """A step, none, or unreadable."""
    for each in (data, b'{"record":' + data, line()[:-2] + data):
        with contextlib.suppress(Unreadable):
            step_of(each)


@given(records())
def test_what_a_sidecar_writes_can_be_read(record: Any) -> None:
    """Any record at all, as its log has it."""
    found = step_of(step_line(record, "2026-11-30T01:49:00.150Z").encode())
    assert found is not None
    if record.budget_id is not None and record.remaining_ms is not None:
        assert found.step is not None
        assert (found.step.budget_id, found.step.number, found.step.route) == (
            record.budget_id,
            record.step,
            record.route,
        )
        assert found.step.elapsed == round(record.elapsed_ms * MILLISECOND)


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_of_all_kinds(tmp_path: Path) -> None:
    """Plain, rotated and compressed, whatever they are called."""
    (tmp_path / "a.log").write_bytes(EVENT + line() + line(stage=None))
    (tmp_path / "a.log.1").write_bytes(gzip.compress(line(budget_id="run-2")) + gzip.compress(EVENT))
    jobs, notes = read(tmp_path / "a.log", tmp_path / "a.log.1")
    assert (jobs.steps, notes) == (3, ())


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a pipe."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(line() + line(step=2))))
    assert read("-")[0].steps == 2


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    """And said."""
    log = tmp_path / "a.log"
    log.write_bytes(line() + line()[:100] + b"\n" + line(step=2, elapsed_ms=None, outcome=None))
    jobs, notes = read(log)
    assert (jobs.steps, notes) == (1, (f"Of 3 lines of {log}, 2 could not be read.",))


def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    """What follows it is read."""
    log = tmp_path / "a.log"
    log.write_bytes(line(target="x" * 3 * LONGEST) + line(step=2) + b"x" * LONGEST + b"\n" + line(step=3))
    jobs, notes = read(log)
    assert (jobs.steps, notes) == (2, (f"Of 4 lines of {log}, 1 could not be read.",))


def test_compressed_data_that_ends_early(tmp_path: Path) -> None:
    """Rotation was under way: what is there counts, and it is said."""
    log = tmp_path / "a.gz"
    packed = gzip.compress(b"".join(line(budget_id=f"run-{number}") for number in range(20_000)))
    log.write_bytes(packed[: len(packed) // 2])
    jobs, notes = read(log)
    assert 0 < jobs.steps < 20_000
    assert notes == (f"{log} ends within its compressed data; what comes before was read.",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not the log of a sidecar: it is empty"),
        (b"GET / HTTP/1.1\n" * 3, "among 3 lines there is no step"),
        (EVENT, "among 1 line there is no step"),
        (b"\x28\xb5\x2f\xfd....", "is compressed with zstd"),
        (gzip.compress(line())[:-8] + b"x" * 8, "is damaged"),
    ],
)
def test_what_is_no_log(tmp_path: Path, data: bytes, says: str) -> None:
    """It is said what would be one."""
    log = tmp_path / "a.log"
    log.write_bytes(data)
    with pytest.raises(Untunable, match=says) as caught:
        read(log)
    assert str(log) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"), [("none.log", "No such file"), ("", "cannot be read"), ("a\0b", "no path of a file")]
)
def test_what_is_no_file(tmp_path: Path, name: str, says: str) -> None:
    """A folder, a missing file, no name of any."""
    with pytest.raises(Untunable, match=says):
        read(f"{tmp_path}/{name}")


def test_a_long_log_takes_little_memory(tmp_path: Path) -> None:
    """A line at a time, and as many jobs as may be under way at once; how far it has come is told."""
    log = tmp_path / "a.log"
    with log.open("wb") as file:
        for number in range(30_000):
            file.write(line(budget_id=f"run-{number}", record=f"p1-{number:x}"))
    told: list[int] = []
    jobs = Jobs(POLICY, most=100)
    tracemalloc.start()
    read_logs([str(log)], jobs, told.append)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert jobs.steps == 30_000
    assert peak < 4 * 1024 * 1024
    assert 0 < sum(told) <= log.stat().st_size
    assert record()["budget_id"] == "run-1"
