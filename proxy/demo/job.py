"""The agent: it runs A, B and C in a row under one `Budget-Id`, then a cleanup call, and says that the job is done.

It is an ordinary HTTP client with a proxy. All that it does for the budget is to send three headers, and in the end one
request to the control API, which answers with the ledger's record of the job. It looks at no header: whatever a call
comes to, it goes on to the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp

from proxy.demo.plan import TOTAL, Stated, Variant, Work
from proxy.demo.sidecar import Sidecar

Document = dict[str, Any]


class Answer(NamedTuple):
    """What came back for one call."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def record(self) -> str:
        """The id of the step's record in the sidecar's log."""
        return self.headers.get("Budget-Record", "")

    @property
    def outcome(self) -> dict[str, str]:
        """The parts of `Budget-Outcome`, the first of them under `outcome`."""
        first, *parameters = self.headers.get("Budget-Outcome", "").split("; ")
        return {"outcome": first} | dict(each.split("=", 1) for each in parameters)


@dataclass(slots=True)
class Step:
    """One step of a job: what it was to be, and as far as it has come, when it began, its answer, its record.

    `began` counts in milliseconds from the job's first call, by the agent's clock; `record` is the sidecar's log line.
    """

    name: str
    needs: int
    began: float | None = None
    answer: Answer | None = None
    record: Document | None = None


@dataclass(slots=True)
class Job:
    """A variant of the job, as far as it has come: its steps, and what the ledger said of its budgets as they were closed.

    It has one budget, or one for each step where they are `apart`.
    """

    variant: Variant
    steps: list[Step]
    budgets: list[Document] = field(default_factory=list)

    @classmethod
    def of(cls, variant: Variant) -> Job:
        """Return a job with all of its steps still to come."""
        return cls(variant, [Step(work.name, work.needs) for work in variant.steps])

    def started_at(self, step: Step) -> float:
        """Return when a step started, by the log; only the agent knows it when each step has its own budget."""
        assert step.record is not None
        assert step.began is not None
        started: float = step.record["started_ms"]
        return step.began if self.variant.apart else started

    @property
    def closed_at(self) -> float:
        """When the job was closed, by the ledger; where steps are apart, that of the last budget, since its step began."""
        closed: float = self.budgets[-1]["spent_ms"]
        return closed + (self.started_at(self.steps[-1]) if self.variant.apart else 0.0)

    @property
    def complete(self) -> bool:
        """Whether all its work was done, by the ledger."""
        return all(budget["complete"] for budget in self.budgets)

    @property
    def on_time(self) -> bool:
        """Whether it was closed in time, by the ledger; where steps are apart no ledger knows, and it is worked out."""
        if self.variant.apart:
            return self.closed_at <= TOTAL
        return self.budgets[-1]["on_time"] is True


class Agent:
    """A client that sends all its calls through the sidecar. `oversleeps`: the worst that its machine did to its timers."""

    def __init__(self, session: aiohttp.ClientSession, sidecar: Sidecar, tool: str) -> None:
        """Take the addresses of the sidecar and of the tool."""
        self._session = session
        self._sidecar = sidecar
        self._tool = tool
        self.oversleeps = 0.0

    async def call(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> Answer:
        """Send one call, and return its answer, whatever it is."""
        url = self._tool + path
        async with self._session.request(
            method, url, proxy=self._sidecar.proxy, headers=headers, data=body
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def close(self, budget_id: str) -> Document:
        """Say that a job is done, and return the ledger's record of it. Raises Unable."""
        return await self._sidecar.close(self._session, budget_id)

    async def run(self, job: Job) -> None:
        """Run a job to its close, and keep what happens, as it happens. Raises Unable."""
        variant = job.variant
        opened = now_ms()
        planned = 0.0
        for work, step in zip(variant.steps, job.steps, strict=True):
            planned += work.wait
            await self._sleep_until(opened + planned)
            step.began = now_ms() - opened
            step.answer = await self.call("GET", url_of(variant, work), headers_of(variant, work))
            planned = planned + work.needs if step.answer.status == 200 else now_ms() - opened
            if variant.apart or work is variant.steps[-1]:
                job.budgets.append(await self.close(budget_of(variant, work)))

    async def _sleep_until(self, due: float) -> None:
        pause = due - now_ms()
        if pause > 0:
            await asyncio.sleep(pause / 1000)
            self.oversleeps = max(self.oversleeps, now_ms() - due)


def url_of(variant: Variant, work: Work) -> str:
    """Return the URL of a step at the tool, which says how long it is to take."""
    return f"{work.path}/{work.name}?needs={work.tool}&job={variant.id}"


def budget_of(variant: Variant, work: Work) -> str:
    """Return the id of the budget that a step is made under."""
    return f"{variant.id}-{work.name}" if variant.apart else variant.id


def headers_of(variant: Variant, work: Work) -> dict[str, str]:
    """Return what the agent says of its budget: its id, what is left of it at first, and which call is the cleanup."""
    headers = {"Budget-Id": budget_of(variant, work)}
    if work is variant.steps[0] or variant.stated is not Stated.ONCE:
        headers["Budget-Remaining-Ms"] = str(TOTAL)
    if work is variant.steps[-1]:
        headers["Budget-Phase"] = "cleanup"
    return headers


async def add_records(sidecar: Sidecar, steps: list[Step]) -> None:
    """Give each step its line of the sidecar's log."""
    ids = {step.answer.record: step for step in steps if step.answer is not None}
    for id, record in (await sidecar.records(ids)).items():
        ids[id].record = record


def now_ms() -> float:
    """Return the agent's own clock, in milliseconds."""
    return time.monotonic_ns() / 1_000_000
