"""A write in doubt: a POST that the tool commits and answers late, its blind retry, and what is known in the end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from rich.text import Text

from proxy.demo.checks import LATE, Checks
from proxy.demo.job import Agent, Answer, Document, Step, add_records, now_ms
from proxy.demo.plan import ORDER_CAP, ORDER_NEEDS, TOTAL
from proxy.demo.sidecar import Sidecar, until
from proxy.demo.tool import Tool

ORDER: Final = {"item": "water clock", "count": 1}
PATH: Final = f"/orders?needs={ORDER_NEEDS}"
ANSWERS_WITHIN: Final = 10.0
JOB: Final = "order"


@dataclass(slots=True)
class Doubt:
    """What came of the write: the first try, its retry, and a look at the tool; then the record of the first.

    `closed` and `budget` are the ledger's record of the job: as it was closed, and after the late answer.
    """

    first: Step = field(default_factory=lambda: Step("order", ORDER_NEEDS))
    retry: Step = field(default_factory=lambda: Step("retry", ORDER_NEEDS))
    look: Step = field(default_factory=lambda: Step("look", 0))
    uncertain: int = 0
    closed: Document = field(default_factory=dict)
    record: Document = field(default_factory=dict)
    budget: Document = field(default_factory=dict)
    shown: Text = field(default_factory=Text)

    @property
    def id(self) -> str:
        """The id of the first try's record."""
        return self.first.answer.record if self.first.answer is not None else ""

    @property
    def steps(self) -> list[Step]:
        """The three calls, in order."""
        return [self.first, self.retry, self.look]


async def play(agent: Agent, sidecar: Sidecar, session: aiohttp.ClientSession, doubt: Doubt) -> None:
    """Send the write, send it again, look at what is there, close the job, and wait for the late answer. Raises Unable."""
    spaced, dense = json.dumps(ORDER, indent=2), json.dumps(ORDER, separators=(",", ":"))
    job = {"Budget-Id": JOB, "Content-Type": "application/json"}
    opening = job | {"Budget-Remaining-Ms": str(TOTAL), "Idempotency-Key": "first-try"}
    opened = now_ms()

    async def call(
        step: Step, method: str, path: str, headers: dict[str, str], body: str | None = None
    ) -> Answer:
        step.began = now_ms() - opened
        step.answer = await agent.call(method, path, headers, body)
        return step.answer

    first = await call(doubt.first, "POST", PATH, opening, spaced)
    await call(doubt.retry, "POST", PATH, job | {"Idempotency-Key": "second-try"}, dense)
    await call(doubt.look, "GET", "/orders", job)
    doubt.closed = await agent.close(JOB)
    doubt.uncertain = (await sidecar.ask(session, "/uncertain"))["uncertain"]
    await add_records(sidecar, doubt.steps)
    doubt.record = await _answered(sidecar, session, first.record)
    doubt.budget = await sidecar.ask(session, f"/budgets/{JOB}")
    doubt.shown = await sidecar.command("uncertain", "show", first.record)


async def _answered(sidecar: Sidecar, session: aiohttp.ClientSession, id: str) -> Document:
    """Return the record of a write once its late answer is in it. Raises Unable."""

    async def look() -> Document | None:
        record = await sidecar.ask(session, f"/uncertain/{id}")
        return record if record.get("state") != "uncertain" else None

    return await until(look, ANSWERS_WITHIN, f"No late answer came for the write {id}")


def told(doubt: Doubt, tool: Tool) -> list[str]:
    """Return what happened, in a sentence each."""
    late = doubt.record.get("answer") or {}
    named = json.loads(doubt.retry.answer.body).get("record") if doubt.retry.answer is not None else None
    order = (
        "order: sent, and cut before its answer came. The agent is told 424, effect=uncertain, retry=verify: it may have "
        "happened, so look before you send it again."
    )
    retry = f"retry: refused, and never sent. The agent is told the record of the first try, {named}."
    look = f"look: the tool's own count. {tool.seen[PATH]} order arrived, {len(tool.orders)} was committed."
    closed = (
        f"closed: the ledger has the job as {doubt.closed['verdict']}, with {doubt.closed['counts']['uncertain']} write in "
        "doubt."
    )
    listened = (
        f"The sidecar listened on, and heard the answer {late.get('elapsed_ms', 0):,.0f} ms after the start. It is kept "
        "with the record:"
    )
    return [order, retry, look, closed, listened]


def check_doubt(checks: Checks, doubt: Doubt, tool: Tool) -> None:
    """Check that the write was done once, and that everybody was told what was known."""
    _check_first(checks, doubt)
    _check_retry(checks, doubt)
    assert doubt.look.answer is not None
    checks.same("Orders that the tool has committed", len(tool.orders), 1)
    checks.same("Orders that reached the tool", tool.seen[PATH], 1)
    checks.same(
        "Orders that the agent finds when it looks", json.loads(doubt.look.answer.body), {"orders": 1}
    )
    checks.same("Writes in doubt before the late answer", doubt.uncertain, 1)
    checks.same("The same in the ledger", doubt.closed["counts"]["uncertain"], 1)
    checks.same("The ledger's verdict with a write in doubt", doubt.closed["verdict"], "incomplete; on_time")
    checks.same("Writes in doubt in the ledger in the end", doubt.budget["counts"]["uncertain"], 0)
    late = doubt.record.get("answer") or {}
    checks.same("The state of the record in the end", doubt.record.get("state"), "reported")
    checks.same("The status of the late answer", late.get("status"), 201)
    checks.same("The body of the late answer", late.get("body"), '{"order": 1}')
    checks.that(
        '{"order": 1}' in doubt.shown.plain, "`waterclock uncertain show` does not show the late answer"
    )


def _check_first(checks: Checks, doubt: Doubt) -> None:
    answer, record = doubt.first.answer, doubt.first.record
    assert answer is not None
    assert record is not None
    took = record["elapsed_ms"]
    checks.same("The order: its status", answer.status, 424)
    checks.same("The order: its outcome", answer.outcome["outcome"], "deadline_exceeded")
    checks.same("The order: its effect", answer.outcome.get("effect"), "uncertain")
    checks.same("The order: its retry", answer.outcome.get("retry"), "verify")
    checks.same("The order: its x-should-retry", answer.headers.get("x-should-retry"), "false")
    checks.between("The order: what it was allowed", record["allowed_ms"], ORDER_CAP, ORDER_CAP)
    checks.between("The order: what it took until it was cut", took, ORDER_CAP, ORDER_CAP + LATE)


def _check_retry(checks: Checks, doubt: Doubt) -> None:
    first, answer, record = doubt.first.answer, doubt.retry.answer, doubt.retry.record
    assert first is not None
    assert answer is not None
    assert record is not None
    checks.same("The retry: its status", answer.status, 424)
    checks.same("The retry: its outcome", answer.outcome["outcome"], "refused")
    checks.same("The retry: its reason", answer.outcome.get("reason"), "unresolved_write")
    checks.same("The retry: how far it got", record["phase"], "not_sent")
    checks.same("The retry: the record that it names", json.loads(answer.body).get("record"), first.record)
