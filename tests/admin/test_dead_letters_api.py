"""The units that were given up, and what is decided about them, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy.admin.control import control_app
from proxy.admin.server import Listening
from proxy.admin.views import write_view
from proxy.core.writes import WriteEvent, WriteRecord, WriteState, WrongTransition
from proxy.store.errors import JournalError
from tests.admin.asking import served
from tests.admin.contract import ask
from tests.admin.writes import ANSWER, NOW_MS, UNCERTAIN, Sidecar, write

DEAD = write("dead", state=WriteState.DEAD_LETTERED, attempts=5, reason="max_attempts")
ANSWERED = write("told", state=WriteState.DEAD_LETTERED, answer=ANSWER, opened_at=NOW_MS - 100_000)
RELEASED = write("free", state=WriteState.RELEASED, resolved_by="operator")
DISCARDED = write("gone", state=WriteState.DISCARDED, resolved_by="operator")


@pytest.fixture
def sidecar() -> Sidecar:
    return Sidecar(UNCERTAIN, DEAD, ANSWERED, RELEASED, DISCARDED)


@pytest.fixture
async def at(sidecar: Sidecar) -> AsyncIterator[Listening]:
    async with served(control_app(sidecar, lambda: NOW_MS)) as listening:
        yield listening


async def test_list(at: Listening) -> None:
    """Those that wait and those that were decided, the oldest first; no other writes, and no bodies."""
    document = (await ask(at, "/dead-letters")).json
    assert (document["waiting"], document["total"]) == (2, 4)
    assert [each["id"] for each in document["dead_letters"]] == ["told", "dead", "free", "gone"]
    assert "body" not in document["dead_letters"][0]["answer"]
    assert document["dead_letters"][1] == write_view(DEAD, NOW_MS)


@pytest.mark.parametrize(
    ("state", "ids"), [("dead_lettered", ["told", "dead"]), ("released", ["free"]), ("discarded", ["gone"])]
)
async def test_list_by_state(at: Listening, state: str, ids: list[str]) -> None:
    """Only what is asked for; how many wait is said in any case."""
    document = (await ask(at, f"/dead-letters?state={state}")).json
    assert ([each["id"] for each in document["dead_letters"]], document["waiting"]) == (ids, 2)
    assert (await ask(at, "/dead-letters?state=uncertain")).status == 400


async def test_long_list_is_bounded() -> None:
    """Thousands are counted, and the oldest of them shown."""
    many = (write(f"d{number:04}", state=WriteState.DEAD_LETTERED) for number in range(700))
    async with served(control_app(Sidecar(*many), lambda: NOW_MS)) as at:
        document = (await ask(at, "/dead-letters")).json
    assert (document["waiting"], len(document["dead_letters"])) == (700, 500)


async def test_one(at: Listening) -> None:
    """With its late answer; a write that is none is said to be what it is."""
    assert (await ask(at, "/dead-letters/told")).json["answer"]["body"] == "made"
    assert (await ask(at, "/dead-letters/gone")).json["state"] == "discarded"
    answer = await ask(at, "/dead-letters/w1")
    assert (answer.status, answer.json["detail"]) == (404, "The write w1 is no dead letter: it is uncertain.")
    assert "/uncertain/w1" in answer.json["remedy"]
    assert (await ask(at, "/dead-letters/w9")).status == 404


@pytest.mark.parametrize(("action", "state"), [("release", "released"), ("discard", "discarded")])
async def test_decide(at: Listening, sidecar: Sidecar, action: str, state: str) -> None:
    """It is kept, and asked for again it changes nothing; the opposite is a conflict, for the first one stands."""
    for _ in range(2):
        answer = await ask(at, f"/dead-letters/dead/{action}", "POST")
        assert (answer.status, answer.json["state"], answer.json["resolved_by"]) == (200, state, "operator")
    assert len(sidecar.decided) == 1
    opposite = "discard" if action == "release" else "release"
    answer = await ask(at, f"/dead-letters/dead/{opposite}", "POST")
    assert (answer.status, state in answer.json["detail"]) == (409, True)
    assert len(sidecar.decided) == 1


async def test_a_dead_letter_may_still_be_found_out(at: Listening, sidecar: Sidecar) -> None:
    """Who knows whether it happened says that instead."""
    answer = await ask(at, "/uncertain/dead/resolve", "POST", body=b'{"applied": true}')
    assert (answer.status, answer.json["state"]) == (200, "applied")
    assert (await ask(at, "/dead-letters/dead/release", "POST")).status == 404


async def test_nothing_else_can_be_released(at: Listening, sidecar: Sidecar) -> None:
    """An uncertain write is to be resolved; of the others there is nothing to decide."""
    for action in ("release", "discard"):
        assert (await ask(at, f"/dead-letters/w1/{action}", "POST")).status == 404
        assert (await ask(at, f"/dead-letters/w9/{action}", "POST")).status == 404
    assert sidecar.decided == []


@pytest.mark.parametrize(
    ("failure", "status", "says"),
    [
        (KeyError("dead"), 404, "'dead'"),
        (WrongTransition(WriteState.APPLIED, WriteEvent.RELEASED), 409, "applied"),
        (JournalError(Path("j.db"), "the disk is full", "free space"), 503, "the disk is full"),
    ],
)
async def test_decision_that_fails_on_the_way(
    at: Listening, sidecar: Sidecar, failure: Exception, status: int, says: str
) -> None:
    """The record may be forgotten or answered in the meantime, and the disk may be full."""
    sidecar.failure = failure
    for action in ("release", "discard"):
        answer = await ask(at, f"/dead-letters/dead/{action}", "POST")
        assert (answer.status, says in answer.json["detail"]) == (status, True)


async def test_two_decisions_at_once(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is being written to disk, the other waits, and is then told; a verdict too."""

    def slowly(name: str) -> None:
        decide = getattr(Sidecar, name)

        async def slow(self: Sidecar, id: str, *more: Any) -> WriteRecord:
            await asyncio.sleep(0.05)
            record: WriteRecord = await decide(self, id, *more)
            return record

        monkeypatch.setattr(Sidecar, name, slow)

    for name in ("release", "discard", "resolve"):
        slowly(name)
    async with served(control_app(sidecar, lambda: NOW_MS)) as at, asyncio.TaskGroup() as group:
        asked = [
            group.create_task(ask(at, "/dead-letters/dead/release", "POST")),
            group.create_task(ask(at, "/dead-letters/dead/discard", "POST")),
            group.create_task(ask(at, "/uncertain/dead/resolve", "POST", body=b'{"applied":true}')),
        ]
    statuses = sorted(task.result().status for task in asked)
    assert statuses[0] == 200
    assert {404, 409} >= set(statuses[1:])
    assert len(sidecar.decided) == 1
