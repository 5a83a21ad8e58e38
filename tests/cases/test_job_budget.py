"""The worked examples of the contract between real sockets, with steps that each claim the whole budget for themselves.

One second of the contract is 400 ms here: a total of 4 s, the last 400 ms of which are reserved, and a cap of 1.6 s. Each
call states the full 4 s, as a client does that sets its timeout anew for each call, and the ledger keeps the clock. Needs
that have to fit exactly in the contract are somewhat smaller here, since getting there takes time too.
"""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.support.callers import Answer, call
from tests.support.pod import Job, Pod, Reply, runs
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream

SECOND = 400.0
TOTAL, WORK_END = 10 * SECOND, 9 * SECOND
SLACK = 0.5 * SECOND
POLICY: dict[str, Any] = {
    "budget": {"default": "4s", "reserve": "400ms"},
    "routes": [{"name": "careful", "match": {"path": "/careful/*"}, "cap": "1600ms", "min_start": "1600ms"}],
    "fallback": {"cap": "1600ms"},
}


class Example(NamedTuple):
    """What three steps need (in seconds of the contract), and how they end. `pause`: time that passes before the third."""

    needs: tuple[float, float, float]
    ends: tuple[str, str, str]
    pause: float = 0.0
    third: str = "work"


DONE, CUT, REFUSED = "completed", "deadline_exceeded", "refused"
EXAMPLES = {
    "one-is-cut": Example((3.4, 3.4, 4), (DONE, DONE, CUT)),
    "all-fit": Example((1.9, 2.8, 3.4), (DONE, DONE, DONE)),
    "time-is-lost-on-the-way": Example((2, 3, 4), (DONE, DONE, CUT), pause=0.5),
    "one-is-not-begun": Example((3.4, 3.4, 4), (DONE, DONE, REFUSED), third="careful"),
}

Claim = Callable[[str], dict[str, Any]]


def _user(budget: str) -> str:
    return "Basic " + base64.b64encode(f"{budget}:{TOTAL:.0f}".encode()).decode()


FRESH = {"Budget-Remaining-Ms": f"{TOTAL:.0f}"}
CLAIMS: dict[str, Claim] = {
    "id": lambda budget: {"Budget-Id": budget, **FRESH},
    "user": lambda budget: {"Proxy-Authorization": _user(budget), **FRESH},
    "password": lambda budget: {"Proxy-Authorization": _user(budget)},
}
"""By its id, by the user of the proxy URL, or by no more than that URL, whose password states it once and for all."""
JOBS = list(itertools.product(EXAMPLES, CLAIMS))


def takes_what_it_is_asked_for() -> Behaviour:
    """A tool that needs as many milliseconds as stand at the end of its path."""

    async def behave(exchange: Exchange) -> None:
        await exchange.read_all()
        await exchange.sleep(float(exchange.request.target.rpartition("/")[2]) / 1000)
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfact")

    return behave


@pytest.fixture(scope="module")
def tool() -> Iterator[Upstream]:
    with Upstream(takes_what_it_is_asked_for()) as upstream:
        yield upstream


def run(example: Example, tool: Upstream, send: Callable[[str, dict[str, Any]], Answer]) -> list[Answer]:
    """Run a job: three steps, one after the other, and the cleanup that follows."""
    told = []
    for number, need in enumerate(example.needs):
        if number == 2 and example.pause:
            time.sleep(example.pause * SECOND / 1000)
        way = example.third if number == 2 else "work"
        told.append(send(tool.url(f"/{way}/{need * SECOND:.0f}"), {}))
    told.append(send(tool.url(f"/cleanup/{0.1 * SECOND:.0f}"), {"Budget-Phase": "cleanup"}))
    return told


def check(name: str, told: list[Answer], record: dict[str, Any], *, extensions: int) -> None:
    """See that a job went as its example says."""
    example, steps = EXAMPLES[name], record["steps"]
    assert [step["outcome"] for step in steps] == [*example.ends, DONE], record
    assert [answer.outcome.outcome for answer in told] == [*example.ends, DONE]
    third = steps[2]
    for step in steps[:3]:
        limit = min(4 * SECOND, WORK_END - step["started_ms"])
        assert abs(step["allowed_ms"] - limit) < 0.01, "what is left of the one clock, whatever was claimed"
    if third["outcome"] == CUT:
        ended = third["started_ms"] + third["elapsed_ms"]
        assert WORK_END <= ended < WORK_END + SLACK
        assert third["reason"] == "budget_remaining"
    if third["outcome"] == REFUSED:
        assert (third["reason"], third["phase"], told[2].status) == ("below_min_start", "not_sent", 403)
    assert steps[3]["started_ms"] + steps[3]["elapsed_ms"] < TOTAL
    assert record["extensions_ignored"] == extensions
    assert record["total_ms"] == TOTAL
    assert record["verdict"] == verdict_of(name)
    uncut = sum(step["outcome"] == DONE for step in steps)
    assert (record["counts"]["total"], record["counts"]["completed"]) == (4, uncut)


def verdict_of(name: str) -> str:
    complete = set(EXAMPLES[name].ends) == {DONE}
    return f"{'complete' if complete else 'incomplete'}; on_time"


def test_jobs_that_are_closed_on_request(tool: Upstream) -> None:
    """Calls alone: the first opens the budget, and whoever runs the job says when it is done."""
    with Sidecar(POLICY) as sidecar, ThreadPoolExecutor(len(JOBS)) as threads:

        def job(each: tuple[str, str]) -> tuple[list[Answer], dict[str, Any]]:
            name, claim = each
            id = f"{name}.{claim}"

            def send(url: str, headers: dict[str, Any]) -> Answer:
                return call(sidecar, "GET", url, headers={**CLAIMS[claim](id), **headers})

            return run(EXAMPLES[name], tool, send), sidecar.ask(f"/budgets/{id}/close", {})

        for (name, claim), (told, record) in zip(JOBS, threads.map(job, JOBS), strict=True):
            assert (record["state"], record["closed_by"]) == ("closed", "request")
            check(name, told, record, extensions=0 if claim == "password" else 3)
        ignored = sum(3 for _, claim in JOBS if claim != "password")
        assert sidecar.samples()["waterclock_budget_extensions_ignored_total"] == ignored
    assert not [each for each in tool.requests if each.target.startswith("/careful/")]


def test_jobs_of_an_entry_request(tool: Upstream) -> None:
    """The entry request opens the budget; its answer says how the job went."""
    seen: dict[str, list[Answer]] = {}

    def work(job: Job) -> Reply:
        name, claim = job.budget.split(".")

        def send(url: str, headers: dict[str, Any]) -> Answer:
            return job.call("GET", url, {**CLAIMS[claim](job.budget), **headers}, named=False)

        seen[job.budget] = run(EXAMPLES[name], tool, send)
        return Reply()

    with Pod(runs(work), policy=POLICY) as pod, ThreadPoolExecutor(len(JOBS)) as threads:

        def enter(each: tuple[str, str]) -> Answer:
            return call(pod, "POST", "/run", headers={"Budget-Id": ".".join(each), **FRESH}, body=b"{}")

        for (name, claim), answer in zip(JOBS, threads.map(enter, JOBS), strict=True):
            id = f"{name}.{claim}"
            assert (answer.status, answer.get("budget-verdict")) == (200, verdict_of(name))
            assert (answer.get("budget-steps") or "").startswith("total=4, completed=")
            check(name, seen[id], pod.budget(id), extensions=0 if claim == "password" else 4)


def test_jobs_of_apps_that_know_nothing_of_budgets(tool: Upstream) -> None:
    """Each alone in its pod: its calls claim the full time and name nothing, and are held to the one clock all the same."""
    seen: dict[str, list[Answer]] = {}

    def work(job: Job) -> Reply:
        def send(url: str, headers: dict[str, Any]) -> Answer:
            return job.call("GET", url, {**FRESH, **headers}, named=False)

        seen[job.budget] = run(EXAMPLES[job.budget], tool, send)
        return Reply()

    with ExitStack() as stack, ThreadPoolExecutor(len(EXAMPLES)) as threads:
        pods = {name: stack.enter_context(Pod(runs(work), policy=POLICY)) for name in EXAMPLES}

        def enter(name: str) -> Answer:
            return call(pods[name], "POST", "/run", headers={"Budget-Id": name}, body=b"{}")

        for name, answer in zip(EXAMPLES, threads.map(enter, EXAMPLES), strict=True):
            assert (answer.status, answer.get("budget-verdict")) == (200, verdict_of(name))
            check(name, seen[name], pods[name].budget(name), extensions=4)


def test_a_job_that_overruns_is_closed_at_the_end_of_its_total(tool: Upstream) -> None:
    """An app that goes on after its steps were refused: the caller hears of it at the end, and not a moment before."""

    def work(job: Job) -> Reply:
        while True:
            told = job.call("GET", tool.url(f"/work/{2 * SECOND:.0f}"), CLAIMS["id"](job.budget))
            if told.status == 403:
                time.sleep(0.1)

    with Pod(runs(work), policy=POLICY) as pod:
        answer = call(pod, "GET", "/run", headers={"Budget-Id": "overrun", **FRESH})
        assert TOTAL - 1 <= answer.after < TOTAL + 1500
        assert answer.status == 504
        (entry,) = pod.entries("overrun")
        assert entry["verdict"].startswith("incomplete")
        assert answer.get("budget-verdict") == entry["verdict"]
        record = pod.budget("overrun")
        assert [step["outcome"] for step in record["steps"][:5]] == [DONE, DONE, DONE, DONE, CUT]
        assert {step["outcome"] for step in record["steps"][5:]} <= {REFUSED}
