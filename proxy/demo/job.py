"""The agent: it runs A, B and C in a row under one `Budget-Id`, then closes the job with a cleanup call.

It is an ordinary HTTP client with a proxy. The only thing it does for the budget is to send three headers, and to look
at none: whatever a call comes to, it goes on to the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import aiohttp

from proxy.demo.plan import TOTAL, Variant, Work
from proxy.demo.sidecar import Sidecar


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
    record: dict[str, Any] | None = None


class Agent:
    """A client that sends all its calls through the sidecar. `oversleeps`: the worst that its machine did to its timers."""

    def __init__(self, session: aiohttp.ClientSession, proxy: str, tool: str) -> None:
        """Take the addresses of the sidecar and of the tool."""
        self._session = session
        self._proxy = proxy
        self._tool = tool
        self.oversleeps = 0.0

    async def call(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> Answer:
        """Send one call, and return its answer, whatever it is."""
        url = self._tool + path
        async with self._session.request(
            method, url, proxy=self._proxy, headers=headers, data=body
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def run(self, variant: Variant, steps: list[Step]) -> None:
        """Run a job, and keep in `steps` what happens, as it happens."""
        opened = now_ms()
        planned = 0.0
        for work, step in zip(variant.steps, steps, strict=True):
            planned += work.wait
            await self._sleep_until(opened + planned)
            step.began = now_ms() - opened
            step.answer = await self.call("GET", url_of(variant, work), headers_of(variant, work))
            planned = planned + work.needs if step.answer.status == 200 else now_ms() - opened

    async def _sleep_until(self, due: float) -> None:
        pause = due - now_ms()
        if pause > 0:
            await asyncio.sleep(pause / 1000)
            self.oversleeps = max(self.oversleeps, now_ms() - due)


def url_of(variant: Variant, work: Work) -> str:
    """Return the URL of a step at the tool, which says how long it is to take."""
    return f"{work.path}/{work.name}?needs={work.tool}&job={variant.id}"


def headers_of(variant: Variant, work: Work) -> dict[str, str]:
    """Return what the agent says of its budget: its id, what is left of it at first, and which call is the cleanup."""
    headers = {"Budget-Id": f"{variant.id}-{work.name}" if variant.fresh else variant.id}
    if variant.fresh or work is variant.steps[0]:
        headers["Budget-Remaining-Ms"] = str(TOTAL)
    if work is variant.steps[-1]:
        headers["Budget-Phase"] = "cleanup"
    return headers


def steps_of(variant: Variant) -> list[Step]:
    """Return the steps of a job, all of them still to come."""
    return [Step(work.name, work.needs) for work in variant.steps]


async def add_records(sidecar: Sidecar, steps: list[Step]) -> None:
    """Give each step its line of the sidecar's log."""
    ids = {step.answer.record: step for step in steps if step.answer is not None}
    for id, record in (await sidecar.records(ids)).items():
        ids[id].record = record


def now_ms() -> float:
    """Return the agent's own clock, in milliseconds."""
    return time.monotonic_ns() / 1_000_000
