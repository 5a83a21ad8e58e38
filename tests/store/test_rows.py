"""Every record that can be made comes back from its row as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.calls import Phase
from proxy.core.writes import LateAnswer, WriteRecord, WriteState
from proxy.store.rows import COLUMNS, record_of, row_of
from tests.store.samples import ANSWER, write

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
WHOLE = st.integers(0, 2**53)
ANSWERS = st.builds(
    LateAnswer,
    st.integers(100, 599),
    st.lists(st.tuples(TEXT, TEXT)).map(tuple),
    st.binary(),
    WHOLE,
    st.floats(0, 1e9),
)
RECORDS = st.builds(
    WriteRecord,
    id=TEXT,
    state=st.sampled_from(WriteState),
    opened_at=WHOLE,
    origin=TEXT,
    method=TEXT,
    target=TEXT,
    route=TEXT,
    budget_id=TEXT,
    step=WHOLE,
    key=st.none() | TEXT,
    fingerprint=TEXT,
    phase=st.sampled_from(Phase),
    reason=TEXT,
    resolved_by=TEXT,
    answer=st.none() | ANSWERS,
    attempts=WHOLE,
)


@given(RECORDS)
def test_a_record_comes_back_as_it_was(record: WriteRecord) -> None:
    assert record_of(row_of(record)) == record


def test_there_is_a_column_for_every_field() -> None:
    assert list(COLUMNS) == [*WriteRecord._fields, "answer_body"]


def test_only_plain_values_reach_the_database() -> None:
    row = row_of(write("a", WriteState.REPORTED, answer=ANSWER))
    assert {type(value) for value in row} == {str, int, bytes}


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", "lost"), ("phase", "half"), ("answer", "{"), ("answer", "{}"), ("answer", "[]")],
)
def test_a_row_that_says_what_no_record_can_say_is_named(column: str, value: str) -> None:
    row = list(row_of(write("w-1", WriteState.REPORTED, answer=ANSWER)))
    row[COLUMNS.index(column)] = value
    with pytest.raises(ValueError, match="the record w-1 cannot be read"):
        record_of(tuple(row))  # type: ignore[arg-type]
