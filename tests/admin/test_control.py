"""The control API, asked over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy.admin import asked
from proxy.admin.control import control_app
from proxy.admin.server import Listening
from proxy.admin.views import policy_view, write_view
from proxy.core.policy import Mode, Policy
from proxy.core.writes import WriteEvent, WriteState, WrongTransition
from proxy.store.errors import JournalError
from tests.admin.asking import Answer, exchange, parsed, served
from tests.admin.contract import ask
from tests.admin.jobs import opened
from tests.admin.writes import ANSWER, NOW_MS, UNCERTAIN, Sidecar, write

INTENT = write("under-way", state=WriteState.INTENT)
REPORTED = write("late", state=WriteState.REPORTED, opened_at=NOW_MS - 100_000, answer=ANSWER)


@pytest.fixture
def sidecar() -> Sidecar:
    return Sidecar(UNCERTAIN, INTENT, REPORTED, policy=Policy(mode=Mode.OBSERVE))


@pytest.fixture
async def at(sidecar: Sidecar) -> AsyncIterator[Listening]:
    async with served(control_app(sidecar, lambda: NOW_MS)) as listening:
        yield listening


def problem_of(answer: Answer, status: int) -> dict[str, Any]:
    """Every error explains itself, and says what helps."""
    assert (answer.status, answer.headers["content-type"].split(";")[0]) == (
        status,
        "application/problem+json",
    )
    document: dict[str, Any] = answer.json
    assert document["status"] == status
    assert all(document[name] for name in ("type", "title", "detail", "remedy"))
    return document


async def resolve(at: Listening, id: str, body: bytes) -> Answer:
    return await ask(at, f"/uncertain/{id}/resolve", "POST", body=body)


async def test_index_lists_every_endpoint(at: Listening, sidecar: Sidecar) -> None:
    """What it lists is there."""
    opened(sidecar.ledger, "w1", 100)
    sidecar.writes.put(write("w1", state=WriteState.DEAD_LETTERED))
    answer = await ask(at, "/")
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    listed = {(endpoint["method"], endpoint["path"]) for endpoint in answer.json["endpoints"]}
    assert {("GET", "/config"), ("GET", "/budgets"), ("POST", "/uncertain/{id}/resolve")} <= listed
    for method, path in listed:
        if method == "GET":
            assert (await ask(at, path.replace("{id}", "w1"))).status == 200


async def test_config_is_the_policy_in_force(at: Listening, sidecar: Sidecar) -> None:
    """As it is now, not as it was at the start."""
    assert (await ask(at, "/config")).json == policy_view(sidecar.policy())
    assert (await ask(at, "/config")).json["mode"] == "observe"
    sidecar._policy = Policy()
    assert (await ask(at, "/config")).json["mode"] == "enforce"


async def test_list_has_the_oldest_first_and_no_bodies(at: Listening) -> None:
    """Writes under way are not in doubt, so they are not listed."""
    document = (await ask(at, "/uncertain")).json
    assert (document["uncertain"], document["total"]) == (1, 2)
    assert [shown["id"] for shown in document["writes"]] == ["late", "w1"]
    assert document["writes"][1] == write_view(UNCERTAIN, NOW_MS)
    assert "body" not in document["writes"][0]["answer"]


async def test_list_by_state(at: Listening) -> None:
    """Only what still needs somebody."""
    document = (await ask(at, "/uncertain?state=uncertain")).json
    assert [shown["id"] for shown in document["writes"]] == ["w1"]
    assert "uncertain, reported" in problem_of(await ask(at, "/uncertain?state=lost"), 400)["remedy"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?states=uncertain", "It takes state."),
        ("?state=uncertain&state=reported", "once"),
        ("?state=", "Use one of"),
        ("?", None),
    ],
)
async def test_query_is_read_strictly(at: Listening, query: str, says: str | None) -> None:
    """A slip of the pen is not passed over: what comes back would be taken for what was asked for."""
    answer = await ask(at, f"/uncertain{query}")
    if says is None:
        assert answer.status == 200
    else:
        assert says in problem_of(answer, 400)["remedy"]
    assert "none" in problem_of(await ask(at, "/config?all=1"), 400)["remedy"]


async def test_long_list_is_bounded() -> None:
    """Thousands of records are counted, and the first of them shown."""
    sidecar = Sidecar(*(write(f"w{number:04}") for number in range(1200)))
    async with served(control_app(sidecar, lambda: NOW_MS)) as at:
        document = (await ask(at, "/uncertain")).json
    assert (document["total"], document["uncertain"], len(document["writes"])) == (1200, 1200, 500)


async def test_one_record_with_its_late_answer(at: Listening) -> None:
    """The answer that came after the cut is the result somebody is looking for."""
    assert (await ask(at, "/uncertain/late")).json == write_view(REPORTED, NOW_MS)
    assert (await ask(at, "/uncertain/late")).json["answer"]["body"] == "made"
    assert (await ask(at, "/uncertain/under-way")).json["state"] == "intent"
    assert "'w9'" in problem_of(await ask(at, "/uncertain/w9"), 404)["detail"]


@pytest.mark.parametrize(("applied", "state"), [(b"true", "applied"), (b"false", "not_applied")])
async def test_resolve(at: Listening, sidecar: Sidecar, applied: bytes, state: str) -> None:
    """The verdict is kept, and the answer shows the record as it is then."""
    answer = await resolve(at, "w1", b'{"applied": ' + applied + b"}")
    assert (answer.status, answer.json["state"]) == (200, state)
    assert sidecar.resolved == [("w1", applied == b"true")]
    assert (await ask(at, "/uncertain/w1")).json["state"] == state


async def test_same_verdict_again_is_no_error(at: Listening, sidecar: Sidecar) -> None:
    """Whoever lost the first answer can ask again; another verdict is a conflict, for the first one stands."""
    assert (await resolve(at, "w1", b'{"applied": true}')).status == 200
    again = await resolve(at, "w1", b'{"applied": true}')
    assert (again.status, again.json["state"]) == (200, "applied")
    assert "as applied" in problem_of(await resolve(at, "w1", b'{"applied": false}'), 409)["detail"]
    assert sidecar.resolved == [("w1", True)]


async def test_two_verdicts_at_once(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is being written to disk, the other waits, and is then told."""
    kept = Sidecar.resolve

    async def slow(self: Sidecar, id: str, applied: bool) -> Any:
        record = self.writes.get(id)
        await asyncio.sleep(0.05)
        assert self.writes.get(id) is record
        return await kept(self, id, applied)

    monkeypatch.setattr(Sidecar, "resolve", slow)
    async with served(control_app(sidecar, lambda: NOW_MS)) as at:
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(resolve(at, "w1", body))
                for body in (b'{"applied":true}', b'{"applied":false}')
            ]
        assert sorted(task.result().status for task in asked) == [200, 409]


async def test_resolve_of_what_cannot_be_resolved(at: Listening, sidecar: Sidecar) -> None:
    """Under way, answered, unknown: each says so."""
    assert "under way" in problem_of(await resolve(at, "under-way", b'{"applied": true}'), 409)["detail"]
    assert "reported" in problem_of(await resolve(at, "late", b'{"applied": true}'), 409)["detail"]
    problem_of(await resolve(at, "w9", b'{"applied": true}'), 404)
    assert sidecar.resolved == []


@pytest.mark.parametrize(
    ("failure", "status", "says"),
    [
        (KeyError("w1"), 404, "'w1'"),
        (WrongTransition(WriteState.REPORTED, WriteEvent.FOUND_APPLIED), 409, "reported"),
        (JournalError(Path("j.db"), "the disk is full", "free space"), 503, "the disk is full"),
    ],
)
async def test_resolve_that_fails_on_the_way(
    at: Listening, sidecar: Sidecar, failure: Exception, status: int, says: str
) -> None:
    """The record may be forgotten or answered in the meantime, and the disk may be full."""
    sidecar.failure = failure
    assert says in problem_of(await resolve(at, "w1", b'{"applied": true}'), status)["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"applied=true",
        b"null",
        b"true",
        b"{}",
        b'{"applied": 1}',
        b'{"applied": "true"}',
        b'{"applied": null}',
        b'{"applied": true, "force": true}',
        b'{"Applied": true}',
        b'{"applied": true',
        b'{"applied": true}\xff',
        b'{"applied": true, "applied": false}',
        b"[" * 4000,
    ],
)
async def test_verdict_has_to_be_clear(at: Listening, sidecar: Sidecar, body: bytes) -> None:
    """It cannot be taken back, so nothing is guessed."""
    assert '{"applied": true}' in problem_of(await resolve(at, "w1", body), 400)["remedy"]
    assert sidecar.resolved == []


async def test_large_body_is_refused(at: Listening, sidecar: Sidecar) -> None:
    """Its size is bounded, said beforehand or not, and packed or not."""
    body = b'{"applied": true}' + b" " * 100_000
    problem_of(await resolve(at, "w1", body), 413)
    head = b"POST /uncertain/w1/resolve HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    problem_of(parsed(await exchange(at, head + chunked)), 413)
    packed = gzip.compress(body)
    compressed = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(packed), packed)
    problem_of(parsed(await exchange(at, head + compressed)), 413)
    assert sidecar.resolved == []


async def test_body_that_never_comes(
    at: Listening, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is waited for: the answer says so, and the connection ends."""
    monkeypatch.setattr(asked, "BODY_WITHIN_S", 0.05)
    head = b"POST /uncertain/w1/resolve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n"
    problem_of(parsed(await exchange(at, head + b'{"applied"')), 408)
    assert sidecar.resolved == []


async def test_unknown_path_and_method(at: Listening) -> None:
    """404 says what there is, 405 what may be done."""
    assert "GET /" in problem_of(await ask(at, "/nothing/here"), 404)["remedy"]
    answer = await ask(at, "/config", "DELETE")
    assert "GET" in problem_of(answer, 405)["remedy"]
    assert "GET" in answer.headers["allow"]


async def test_own_fault_is_logged_and_answered(
    at: Listening, sidecar: Sidecar, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug here is no traceback to the caller, and no silence in the log."""
    sidecar.failure = ZeroDivisionError("ours")
    document = problem_of(await resolve(at, "w1", b'{"applied": true}'), 500)
    assert "ours" not in str(document)
    (logged,) = caplog.record_tuples
    assert logged == ("waterclock.admin", logging.ERROR, "POST /uncertain/w1/resolve failed")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:10802", "localhost", "LOCALHOST:1", "127.9.9.9", "[::1]:80", "a.localhost"]
)
async def test_loopback_names_are_served(at: Listening, host: str) -> None:
    """Whatever the port: `kubectl port-forward` gives it another one."""
    assert (await ask(at, "/", host=host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:10802",
        "10.0.0.7:10802",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "0.0.0.0",
        "[::]",
        "@",
    ],
)
async def test_other_names_are_refused(at: Listening, sidecar: Sidecar, host: str) -> None:
    """A page whose name resolves to the loopback (DNS rebinding) learns and changes nothing."""
    assert "Host" in problem_of(await ask(at, "/uncertain", host=host), 403)["detail"]
    problem_of(await ask(at, "/uncertain/w1/resolve", "POST", host=host, body=b'{"applied": true}'), 403)
    problem_of(await ask(at, "/no/such/thing", host=host), 403)
    assert sidecar.resolved == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_web_pages_are_refused(at: Listening, sidecar: Sidecar, headers: dict[str, str]) -> None:
    """A browser says that a page is asking, also where it asks for no permission first."""
    problem_of(
        await ask(at, "/uncertain/w1/resolve", "POST", headers=headers, body=b'{"applied": true}'), 403
    )
    problem_of(await ask(at, "/config", headers=headers), 403)
    preflight = await ask(at, "/uncertain/w1/resolve", "OPTIONS", headers=headers)
    problem_of(preflight, 403)
    assert "access-control-allow-origin" not in preflight.headers
    assert sidecar.resolved == []


async def test_person_with_a_browser_may_look(at: Listening) -> None:
    """An address typed in by hand carries no Origin."""
    assert (await ask(at, "/", headers={"Sec-Fetch-Site": "none"})).status == 200


async def test_record_changes_while_asked(at: Listening, sidecar: Sidecar) -> None:
    """Ages are of the moment."""
    sidecar.writes.put(UNCERTAIN._replace(opened_at=NOW_MS - 1))
    assert (await ask(at, "/uncertain/w1")).json["age_ms"] == 1
