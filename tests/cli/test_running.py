"""The commands and a real sidecar: what they show is what has passed through it, and what they say counts there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.admin.contract import validate
from tests.support.behaviours import answer, stall
from tests.support.callers import call
from tests.support.ports import free_port
from tests.support.sidecar import PROGRAM, Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

POLICY = """
budget: {reserve: 500ms}
writes: {linger: 100ms}
routes:
  - {name: orders, match: {path: /orders}, cap: 300ms}
  - {name: payments, match: {path: /payments}, max_attempts: 1}
"""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(POLICY) as running:
        yield running


def run(sidecar: Sidecar, *words: str) -> str:
    """Run a command as a person would, with the sidecar's own policy."""
    ended = subprocess.run(
        [PROGRAM, *words, "-c", sidecar.config], capture_output=True, text=True, check=False, timeout=30
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def ask(sidecar: Sidecar, path: str, schema: str, body: Any = None) -> Any:
    """Ask the API, and hold its answer to the contract."""
    document = sidecar.ask(path, body)
    validate(document, {"$ref": f"#/components/schemas/{schema}"})
    return document


def test_a_job_from_its_first_call_to_its_verdict(sidecar: Sidecar) -> None:
    """A read that is answered, a write that is cut; then the job is closed, once."""
    budget = {"Budget-Id": "run:42~a", "Budget-Remaining-Ms": 20_000}
    with Upstream(answer()) as upstream:
        upstream.on("/orders", stall())
        first = call(sidecar, "GET", upstream.url("/search"), headers=budget)
        second = call(sidecar, "POST", upstream.url("/orders"), body=b"{}", headers=budget)
    assert (first.status, second.status) == (200, 424)

    record = ask(sidecar, "/budgets/run:42~a", "BudgetRecord")
    assert (record["state"], record["total_ms"], record["reserve_ms"]) == ("open", 20_000, 500)
    assert [each["record"] for each in record["steps"]] == [first.record, second.record]
    assert [each["id"] for each in record["writes"]] == [second.record]
    assert (record["counts"]["total"], record["counts"]["uncertain"]) == (2, 1)
    logged = sidecar.record(second.record)
    shown = record["steps"][1]
    assert {name: shown[name] for name in ("outcome", "effect", "reason", "allowed_ms")} == {
        name: logged[name] for name in ("outcome", "effect", "reason", "allowed_ms")
    }
    timeline = ask(sidecar, "/budgets/run:42~a/timeline", "Timeline")
    times = [each["at_ms"] for each in timeline["events"]]
    assert times == sorted(times)
    assert {each["event"] for each in timeline["events"]} >= {"granted", "completed", "expired", "released"}
    assert "run:42~a" in [each["id"] for each in ask(sidecar, "/budgets", "Budgets")["budgets"]]

    assert "is the cap of the route orders" in run(sidecar, "budgets", "run:42~a")
    assert "deadline_exceeded ?" in run(sidecar, "timeline", "run:42~a")
    assert run(sidecar, "close", "run:42~a").startswith("run:42~a: incomplete; on_time")
    event = sidecar.event("budget_closed")
    assert (event["budget_id"], event["by"], event["verdict"]) == (
        "run:42~a",
        "request",
        "incomplete; on_time",
    )
    told = len([each for each in sidecar.events if each["event"] == "budget_closed"])

    run(sidecar, "uncertain", "resolve", second.record, "--applied")
    again = ask(sidecar, "/budgets/run:42~a/close", "BudgetRecord", {})
    assert (again["closed_by"], again["counts"]["uncertain"]) == ("request", 0)
    assert len([each for each in sidecar.events if each["event"] == "budget_closed"]) == told


def test_a_unit_that_was_given_up_is_released(sidecar: Sidecar) -> None:
    """Its attempts are used up, so it is refused; somebody decides, and it goes through."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/payments"
    budget = {"Budget-Id": "run-pay", "Budget-Remaining-Ms": 20_000}
    failed = call(sidecar, "POST", url, body=b"{}", headers=budget)
    assert failed.status == 502
    refused = call(sidecar, "POST", url, body=b"{}", headers=budget)
    assert (refused.status, refused.outcome.reason) == (424, "dead_lettered")
    (dead,) = json.loads(run(sidecar, "dead-letters", "list", "--json"))
    assert (dead["budget_id"], dead["reason"], dead["attempts"]) == ("run-pay", "max_attempts", 1)
    assert run(sidecar, "dead-letters", "release", dead["id"]).startswith(f"{dead['id']}: released.")
    assert run(sidecar, "dead-letters", "list") == "No dead letter waits.\n"
    third = call(sidecar, "POST", url, body=b"{}", headers=budget)
    assert third.outcome.reason == "connection_refused"


def test_what_was_discarded_outlives_the_sidecar() -> None:
    """The decision is in the journal: a sidecar that starts on it refuses the repetition."""
    with Sidecar(POLICY) as sidecar:
        url = f"http://127.0.0.1:{free_port()}/payments"
        call(sidecar, "POST", url, body=b"{}")
        (dead,) = eventually(lambda: sidecar.ask("/dead-letters")["dead_letters"], what="a dead letter")
        assert ask(sidecar, f"/dead-letters/{dead['id']}/discard", "Write", {})["state"] == "discarded"
        sidecar.stop()
        shown = json.loads(run(sidecar, "dead-letters", "show", dead["id"], "--json"))
        assert (shown["state"], shown["resolved_by"]) == ("discarded", "operator")
        sidecar.restart()
        refused = call(sidecar, "POST", url, body=b"{}")
        assert (refused.status, refused.outcome.reason) == (424, "dead_lettered")
