"""Whatever is put and dropped, and however often it fails, the journal holds what a dictionary would."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.calls import Phase
from proxy.core.writes import WriteEvent, WriteRecord, WriteState
from proxy.store.database import Database
from proxy.store.errors import JournalError
from proxy.store.writer import Done
from tests.store.conftest import Disk
from tests.store.samples import ANSWER, found, opened, until, write

IDS = st.sampled_from("abcdef")
RECORDS = st.builds(
    lambda id, state, reason, answer: write(id, state, reason=reason, answer=answer),
    IDS,
    st.sampled_from(WriteState),
    st.sampled_from(["", "cut", "reset"]),
    st.none() | st.just(ANSWER),
)
# A change (put or drop), whether somebody waits for it; or a pause, so that groups form in every way; or a restart.
PUTS = st.tuples(st.just("put"), RECORDS, st.booleans())
DROPS = st.tuples(st.just("drop"), IDS, st.booleans())
STEPS = st.lists(PUTS | DROPS | st.just(("pause",)) | st.just(("restart",)), max_size=40)


def recovered(record: WriteRecord) -> WriteRecord:
    if record.state is not WriteState.INTENT:
        return record
    return record.after(WriteEvent.LOST)._replace(phase=Phase.SENDING, reason="recovered")


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_after_a_restart_it_holds_what_a_dictionary_would(steps: list[tuple[object, ...]]) -> None:
    model: dict[str, WriteRecord] = {}

    async def run(path: Path) -> None:
        journal = opened(path)
        untold: set[int] = set()

        def waiting(number: int) -> Done:
            untold.add(number)
            return lambda _: untold.discard(number)

        for number, step in enumerate(steps):
            match step:
                case ("put", WriteRecord() as record, waits):
                    model[record.id] = record
                    journal.put(record, waiting(number) if waits else None)
                case ("drop", str(id), waits):
                    model.pop(id, None)
                    journal.drop(id, waiting(number) if waits else None)
                case ("restart",):
                    assert journal.close()
                    journal = opened(path)
                    for id, record in model.items():
                        model[id] = recovered(record)
                case _:
                    await asyncio.sleep(0.0005)
        await until(lambda: not untold)
        assert journal.close()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        asyncio.run(run(path))
        assert found(path) == {id: recovered(record) for id, record in model.items()}


FAULTS = st.lists(PUTS | DROPS | st.just(("break",)) | st.just(("mend",)) | st.just(("pause",)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(FAULTS)
def test_what_was_acknowledged_is_there_and_what_failed_is_not(steps: list[tuple[object, ...]]) -> None:
    """Each change is waited for, on a disk that breaks and is mended: the model takes what was acknowledged."""
    model: dict[str, WriteRecord] = {}
    disk = Disk()

    async def run(path: Path) -> None:
        journal = opened(path)
        loop = asyncio.get_running_loop()
        for step in steps:
            told: asyncio.Future[JournalError | None] = loop.create_future()
            match step:
                case ("put", WriteRecord() as record, _):
                    journal.put(record, told.set_result)
                    if await told is None:
                        model[record.id] = record
                case ("drop", str(id), _):
                    journal.drop(id, told.set_result)
                    if await told is None:
                        model.pop(id, None)
                case ("break",):
                    disk.breaks()
                case ("mend",):
                    disk.mended()
                case _:
                    await asyncio.sleep(0.0005)
        disk.mended()
        assert journal.close()

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(Database, "connect", lambda database: disk.connect(database))  # noqa: PLW0108 - a bound method gets no `self`
        path = Path(folder) / "journal.db"
        asyncio.run(run(path))
        assert found(path) == {id: recovered(record) for id, record in model.items()}
