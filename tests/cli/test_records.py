"""`waterclock uncertain` and `dead-letters`: the same of a running sidecar and of the journal that one has left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.core.policy import JournalSync
from proxy.core.units import HOUR
from proxy.core.writes import WriteRecord, WriteState
from proxy.store.journal import Journal
from proxy.store.offline import OfflineJournal
from tests.admin.writes import ANSWER, NOW_MS, UNCERTAIN, Sidecar, write
from tests.cli.controls import Commands

RECORDS = (
    UNCERTAIN,
    write("told", state=WriteState.REPORTED, answer=ANSWER, opened_at=NOW_MS - 100_000),
    write("dead", state=WriteState.DEAD_LETTERED, attempts=5, reason="max_attempts"),
    write("free", state=WriteState.RELEASED, resolved_by="operator"),
    write("gone", state=WriteState.DISCARDED, resolved_by="operator"),
)


def keep(path: Path, *records: WriteRecord) -> None:
    """Leave records in a journal, as a sidecar does that stops."""
    journal = Journal(path, JournalSync.FULL, 10_000 * HOUR)
    journal.open(NOW_MS)
    database = journal._database
    database.apply({record.id: record for record in records})
    journal.close()


Where = tuple[Commands, Callable[[str], WriteRecord | None]]


@pytest.fixture(params=["running", "left"])
def kept(request: pytest.FixtureRequest, sidecar: Sidecar) -> Iterator[Where]:
    """Commands that find these records, and how to look one up behind their back."""
    if request.param == "running":
        for record in RECORDS:
            sidecar.writes.put(record)
        yield request.getfixturevalue("asked"), sidecar.writes.get
    else:
        commands: Commands = request.getfixturevalue("alone")
        keep(commands.journal, *RECORDS)

        def look(id: str) -> WriteRecord | None:
            with OfflineJournal(commands.journal) as journal:
                return journal.get(id)

        yield commands, look


def ids(text: str) -> list[str]:
    """Of a list in JSON."""
    return [each["id"] for each in json.loads(text)]


def test_lists(kept: Where) -> None:
    """What waits for somebody; all of it when asked for."""
    command, _ = kept
    assert ids(command.good("uncertain", "list", "--json")) == ["w1"]
    assert set(ids(command.good("uncertain", "list", "--all", "--json"))) == {each.id for each in RECORDS}
    assert ids(command.good("dead-letters", "list", "--json")) == ["dead"]
    assert ids(command.good("dead-letters", "list", "--all", "--json")) == ["dead", "free", "gone"]


def test_lists_for_people(kept: Where) -> None:
    """A line each."""
    command, _ = kept
    heading, row, *more = command.good("uncertain", "list").splitlines()
    assert heading.split() == ["record", "state", "age", "reason", "write"]
    assert row.split()[:2] == ["w1", "uncertain"]
    assert "POST" in row + "".join(more)
    assert "max_attempts" in command.good("dead-letters", "list")


def test_show(kept: Where) -> None:
    """All that is known, with a late answer."""
    command, _ = kept
    assert "idempotency_key:  k-1" in command.good("uncertain", "show", "w1")
    shown = command.good("uncertain", "show", "told")
    assert "  header:         content-type: text/plain" in shown
    assert "  body:           made" in shown
    shown = command.good("dead-letters", "show", "dead")
    assert "attempts:         5" in shown
    assert json.loads(command.good("dead-letters", "show", "dead", "--json"))["state"] == "dead_lettered"


@pytest.mark.parametrize(
    ("words", "id", "state"),
    [
        (["uncertain", "resolve", "--applied"], "w1", "applied"),
        (["uncertain", "resolve", "--not-applied"], "w1", "not_applied"),
        (["uncertain", "resolve", "--applied"], "dead", "applied"),
        (["dead-letters", "release"], "dead", "released"),
        (["dead-letters", "discard"], "dead", "discarded"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_decide(kept: Where, words: list[str], id: str, state: str, as_json: bool) -> None:
    """It is kept where the record is, and said with what comes next."""
    command, look = kept
    said = command.good(*words, id, *(["--json"] if as_json else []))
    assert json.loads(said)["state"] == state if as_json else said.startswith(f"{id}: {state}. ")
    record = look(id)
    assert record is not None
    assert (record.state, record.resolved_by) == (state, "operator")


@pytest.mark.parametrize(
    "words",
    [
        ["uncertain", "resolve", "gone", "--applied"],
        ["dead-letters", "release", "gone"],
        ["dead-letters", "discard", "free"],
        ["dead-letters", "release", "w1"],
        ["dead-letters", "show", "told"],
        ["dead-letters", "discard", "nothing"],
        ["uncertain", "show", "nothing"],
        ["uncertain", "resolve", "nothing", "--applied"],
    ],
)
def test_what_cannot_be_decided(kept: Where, words: list[str]) -> None:
    """Settled, unknown, or no dead letter: each says so, and nothing changes."""
    command, look = kept
    before = [look(each.id) for each in RECORDS]
    complaint = command.bad(*words)
    assert words[2] in complaint
    assert [look(each.id) for each in RECORDS] == before


@pytest.mark.parametrize("group", ["uncertain", "dead-letters"])
def test_nothing_on_record(asked: Commands, group: str) -> None:
    """One sentence."""
    assert asked.good(group, "list").startswith("No ")
    assert asked.good(group, "list", "--all").endswith("is on record.\n")
    assert asked.good(group, "list", "--json") == "[]\n"


def test_the_uncertain_are_found_behind_any_number_of_others(asked: Commands, sidecar: Sidecar) -> None:
    """A long list is bounded, so what is wanted is asked for, not picked out of what came."""
    for number in range(600):
        sidecar.writes.put(write(f"old-{number}", state=WriteState.APPLIED, opened_at=NOW_MS - 500_000))
    sidecar.writes.put(UNCERTAIN)
    assert ids(asked.good("uncertain", "list", "--json")) == ["w1"]
    assert asked.good("uncertain", "list", "--all").endswith(
        "101 more are on record; the oldest 500 are shown.\n"
    )


@pytest.mark.parametrize("group", ["uncertain", "dead-letters"])
def test_no_journal(alone: Commands, group: str) -> None:
    """Neither a sidecar nor what one has left."""
    assert str(alone.journal) in alone.bad(group, "list")


@pytest.mark.parametrize("group", ["uncertain", "dead-letters"])
def test_journal_in_use(alone: Commands, group: str) -> None:
    """A sidecar runs, but with another control port than this policy says."""
    keep(alone.journal)
    with OfflineJournal(alone.journal):
        complaint = alone.bad(group, "list")
    assert "name its policy with -c FILE" in complaint


def test_tables_cannot_be_played_with(asked: Commands, sidecar: Sidecar) -> None:
    """Targets stay in their line."""
    sidecar.writes.put(write("w", target="http://a/\n\x1b[31mb"))
    answer: Any = asked.good("uncertain", "list")
    assert "\x1b" not in answer
    assert "\\n" in answer
