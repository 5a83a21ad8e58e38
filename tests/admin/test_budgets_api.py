"""The budgets of jobs, asked for over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.admin.budget_views import Moment, budget_view, record_view, timeline_view
from proxy.admin.control import control_app
from proxy.admin.server import Listening
from proxy.core.units import MILLISECOND, SECOND
from tests.admin.asking import served
from tests.admin.contract import ask
from tests.admin.jobs import one_call, opened, tangled, worked_example
from tests.admin.writes import NOW, NOW_MS, UNCERTAIN, Sidecar, write

MOMENT = Moment(NOW, NOW_MS)


@pytest.fixture
def sidecar() -> Sidecar:
    return Sidecar(
        write("theirs", budget_id="run-1"),
        write("ours", budget_id="run-43"),
        UNCERTAIN._replace(budget_id="run-43"),
    )


@pytest.fixture
async def at(sidecar: Sidecar) -> AsyncIterator[Listening]:
    async with served(control_app(sidecar, lambda: NOW_MS + (sidecar.now - NOW) // MILLISECOND)) as listening:
        yield listening


async def listed(at: Listening, query: str = "") -> list[str]:
    """The ids of a list."""
    answer = await ask(at, f"/budgets{query}")
    assert answer.status == 200
    return [each["id"] for each in answer.json["budgets"]]


def fill(sidecar: Sidecar) -> None:
    """Budgets of every kind."""
    ledger = sidecar.ledger
    opened(ledger, "expired-lately", 100_000)
    opened(ledger, "expired-long-ago", 900_000)
    closed = opened(ledger, "closed-long-ago", 800_000, total_ms=3_000_000)
    ledger.close(closed, closed.opened + SECOND, "request")
    opened(ledger, "open-for-long", 700_000, total_ms=3_000_000)
    worked_example(ledger, "closed-lately", ago_ms=20_000)
    opened(ledger, "open", 5_000)
    one_call(ledger, "call", 1_000)


async def test_open_ones_come_first_then_those_that_ended_lately(at: Listening, sidecar: Sidecar) -> None:
    """Of both the newest first. What was over long ago, or was only one call, is not in the way."""
    fill(sidecar)
    assert await listed(at) == ["open", "open-for-long", "closed-lately", "expired-lately"]
    document = (await ask(at, "/budgets")).json
    assert (document["open"], document["total"], document["known"]) == (2, 4, 7)
    found = sidecar.ledger.get("closed-lately")
    assert found is not None
    assert document["budgets"][2] == budget_view(found, MOMENT)


@pytest.mark.parametrize(
    ("state", "ids"),
    [
        ("open", ["open", "open-for-long"]),
        ("closed", ["call", "closed-lately", "closed-long-ago"]),
        ("expired", ["expired-lately", "expired-long-ago"]),
        (
            "all",
            [
                "open",
                "open-for-long",
                "call",
                "closed-lately",
                "expired-lately",
                "closed-long-ago",
                "expired-long-ago",
            ],
        ),
    ],
)
async def test_by_state(at: Listening, sidecar: Sidecar, state: str, ids: list[str]) -> None:
    """All of a state, however old."""
    fill(sidecar)
    assert await listed(at, f"?state={state}") == ids


async def test_list_is_bounded(at: Listening, sidecar: Sidecar) -> None:
    """The newest of many, and how many there are."""
    for number in range(700):
        opened(sidecar.ledger, f"run-{number}", 1_000 - number)
    document = (await ask(at, "/budgets")).json
    assert (len(document["budgets"]), document["total"]) == (100, 700)
    assert document["budgets"][0]["id"] == "run-699"
    assert len(await listed(at, "?limit=500")) == 500
    assert await listed(at, "?limit=2&state=open") == ["run-699", "run-698"]


@pytest.mark.parametrize(
    "query",
    [
        "?limit=0",
        "?limit=501",
        "?limit=-1",
        "?limit=+5",
        "?limit=5.0",
        "?limit=",
        "?limit=%D9%A5",
        "?state=shut",
        "?all",
    ],
)
async def test_query_has_to_be_clear(at: Listening, query: str) -> None:
    """What is not understood is said, with what can be."""
    answer = await ask(at, f"/budgets{query}")
    assert answer.status == 400
    assert answer.json["remedy"].startswith(("Use", "It takes"))


async def test_empty_list(at: Listening) -> None:
    """A sidecar that has seen no call."""
    assert (await ask(at, "/budgets")).json == {"open": 0, "known": 0, "total": 0, "budgets": []}


async def test_record(at: Listening, sidecar: Sidecar) -> None:
    """All of one job, and of the writes only its own."""
    budget = tangled(sidecar.ledger)
    document = (await ask(at, "/budgets/run-43")).json
    writes = [each for each in sidecar.writes.listed() if each.id != "theirs"]
    assert document == record_view(budget, writes, MOMENT)
    assert sorted(each["id"] for each in document["writes"]) == ["ours", "w1"]


async def test_timeline(at: Listening, sidecar: Sidecar) -> None:
    """In milliseconds since the opening."""
    budget = tangled(sidecar.ledger)
    assert (await ask(at, "/budgets/run-43/timeline")).json == timeline_view(budget, MOMENT)


async def test_answers_are_of_the_moment(at: Listening, sidecar: Sidecar) -> None:
    """Time goes on between two of them."""
    opened(sidecar.ledger, "run", 1_000)
    before = (await ask(at, "/budgets/run")).json
    sidecar.now += SECOND
    after = (await ask(at, "/budgets/run")).json
    assert (before["remaining_ms"], after["remaining_ms"]) == (8_000, 7_000)


async def test_a_budget_was_opened_at_one_time(sidecar: Sidecar) -> None:
    """However the two clocks are read; only when the time of day is set anew, it is another one."""
    opened(sidecar.ledger, "run", 1_000)
    wall_ms = [NOW_MS]
    async with served(control_app(sidecar, lambda: wall_ms[0])) as at:
        first = (await ask(at, "/budgets/run")).json["opened_at"]
        for drift in (1, -1, 99):
            sidecar.now += 999_999
            wall_ms[0] = NOW_MS + drift
            assert (await ask(at, "/budgets/run")).json["opened_at"] == first
        wall_ms[0] = NOW_MS + 3_600_000
        assert (await ask(at, "/budgets/run")).json["opened_at"] > first


async def test_close(at: Listening, sidecar: Sidecar) -> None:
    """An agent says that it is done, and is told how that looks. A second time changes nothing."""
    opened(sidecar.ledger, "run", 1_000)
    first = (await ask(at, "/budgets/run/close", "POST")).json
    assert (first["state"], first["closed_by"], first["verdict"]) == (
        "closed",
        "request",
        "complete; on_time",
    )
    sidecar.now += 60 * SECOND
    again = (await ask(at, "/budgets/run/close", "POST")).json
    assert (again["closed_at"], again["verdict"]) == (first["closed_at"], "complete; on_time")
    assert sidecar.closed == ["run"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/timeline"), ("POST", "/close")],
)
async def test_unknown_budget(at: Listening, sidecar: Sidecar, method: str, path: str) -> None:
    """Why it may be gone, and where to look."""
    answer = await ask(at, f"/budgets/run-9{path}", method)
    assert answer.status == 404
    assert "'run-9'" in answer.json["detail"]
    assert "ledger.retention" in answer.json["detail"]
    assert "state=all" in answer.json["remedy"]
    assert sidecar.closed == []


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("run:42~a.b", "run:42~a.b"),
        ("run:42~a.b", "run%3A42%7Ea%2Eb"),
        ("..", ".."),
        ("..", "%2E%2E"),
        (".", "."),
        ("~", "~"),
        ("a" * 128, "a" * 128),
    ],
)
async def test_ids_are_taken_as_they_are(at: Listening, sidecar: Sidecar, id: str, path: str) -> None:
    """Whatever a budget's id may be, it can stand in a path."""
    opened(sidecar.ledger, id, 10)
    assert (await ask(at, f"/budgets/{path}")).json["id"] == id
    assert (await ask(at, f"/budgets/{path}/timeline")).json["id"] == id
    assert (await ask(at, f"/budgets/{path}/close", "POST")).json["closed_by"] == "request"


@pytest.mark.parametrize("path", ["%00", "%0d%0a", "%2e%2e%2f", "%ff", "a%20b", "<script>", "a" * 4_000])
async def test_other_ids_are_unknown(at: Listening, path: str) -> None:
    """They do no harm either."""
    answer = await ask(at, f"/budgets/{path}")
    assert answer.status == 404
    assert answer.body.isascii()


async def test_web_pages_cannot_close(at: Listening, sidecar: Sidecar) -> None:
    """A browser's request without a body needs no permission first, so it is refused here."""
    opened(sidecar.ledger, "run", 10)
    headers: dict[str, Any] = {"Origin": "http://evil.example"}
    assert (await ask(at, "/budgets/run/close", "POST", headers=headers)).status == 403
    assert (await ask(at, "/budgets/run/close", "POST", host="evil.example")).status == 403
    assert sidecar.closed == []
