"""The jobs of the slow-down: each looks for passages and asks a model, through one of the sidecars, under one budget.

They come at a steady rate, whether or not those before are answered, and every variant has the same jobs to do at the same
moments: when each comes and what it asks is drawn from the seed. Half-way the model becomes slower by a factor, for all of
them at once. The model and the retrieval are those of `waterclock demo-degrade`; they sleep, so that no processor is what is
slow.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import exp
from random import Random
from time import monotonic
from typing import Any, Final

import aiohttp

from bench.procs import progress
from proxy.demo.degrade import model, search
from proxy.demo.degrade.model import Model, Voice
from proxy.demo.degrade.search import Search

FULL: Final = "full"
APOLOGY: Final = "sorry"
NOTHING: Final = "nothing"
LATE: Final = "late"
_OK: Final = 200
_GRACE: Final = 2_000


@dataclass(frozen=True)
class Load:
    """Times are milliseconds, but for `seconds`, how long each of the two halves takes. `rate`: jobs a second of a variant.

    `questions`: how many different ones there are; `spread`: of the model's times, as the deviation of their logarithm.
    """

    seed: int
    seconds: int
    rate: int
    budget: int
    factor: float
    questions: int
    spread: float
    full: int
    fast: int
    minimal: int


@dataclass(frozen=True)
class Asked:
    """One job as its agent saw it. `began`: seconds since the start. `answer`: the rung that gave a text in time, `sorry` for
    the apology, `late` for a text that came too late, `nothing` for the rest. `slow`: it began when the model was slow.
    """

    variant: str
    began: float
    slow: bool
    took_ms: float
    answer: str
    status: int

    @property
    def useful(self) -> bool:
        """Whether it has some text to show by its deadline."""
        return self.answer not in (APOLOGY, NOTHING, LATE)


def arrivals(load: Load) -> list[tuple[float, int]]:
    """When each job of a variant begins, and which question it asks: some are asked far more often than others."""
    chance = Random(f"{load.seed} arrivals")
    count = 2 * load.seconds * load.rate
    weights = [1 / (rank + 1) for rank in range(load.questions)]
    questions = chance.choices(range(load.questions), weights, k=count)
    return list(
        zip(sorted(chance.uniform(0, 2 * load.seconds) for _ in range(count)), questions, strict=True)
    )


def answer_of(status: int, degraded: str | None, body: bytes, *, in_time: bool) -> str:
    """Which rung an answer came from, or what else it is: an apology, late, or nothing at all."""
    level, rung = 0, FULL
    for part in (degraded or "").split("; "):
        name, _, value = part.partition("=")
        level, rung = (int(value), rung) if name == "level" else (level, value if name == "rung" else rung)
    if level and rung == APOLOGY:
        return APOLOGY
    if status != _OK or not _text(body):
        return NOTHING
    return rung if in_time else LATE


def _text(body: bytes) -> Any:
    """What a chat completion says."""
    try:
        return json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        return None


class Others:
    """The model's two servers and the retrieval, on ports that were known before."""

    def __init__(self, load: Load) -> None:
        chance = Random(f"{load.seed} times")
        mean = exp(load.spread**2 / 2)

        def jitter() -> float:
            return exp(chance.gauss(0, load.spread)) / mean

        self.big = Model({"gpt-4o": Voice(load.full), "gpt-4o-mini": Voice(load.fast)}, jitter)
        self.small = Model({"small": Voice(load.minimal)}, jitter)
        self.search = Search()

    async def serve(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(model.running(self.big))
        await stack.enter_async_context(model.running(self.small))
        await stack.enter_async_context(search.running(self.search))

    def slow_down(self, factor: float) -> None:
        self.big.factor = self.small.factor = factor


async def play(load: Load, ports: dict[str, int], others: Others) -> list[Asked]:
    """All jobs of all variants. `ports`: where the sidecar of each listens."""
    found: list[Asked] = []
    started = monotonic()
    timeout = aiohttp.ClientTimeout(total=(load.budget + _GRACE) / 1000)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as session,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(_slow_down_half_way(load, others, started))
        for number, (begins, question) in enumerate(arrivals(load)):
            await asyncio.sleep(max(0.0, started + begins - monotonic()))
            for variant, port in ports.items():
                job = _Job(load, variant, port, number, question)
                group.create_task(job.play(session, started, found))
    return found


async def _slow_down_half_way(load: Load, others: Others, started: float) -> None:
    progress(f"  {load.seconds} s as usual")
    await asyncio.sleep(max(0.0, started + load.seconds - monotonic()))
    progress(f"  {load.seconds} s with a model that is {load.factor:g} times as slow")
    others.slow_down(load.factor)


@dataclass(frozen=True)
class _Job:
    load: Load
    variant: str
    port: int
    number: int
    question: int

    async def play(self, session: aiohttp.ClientSession, started: float, found: list[Asked]) -> None:
        load, began = self.load, monotonic()
        headers = {"Budget-Id": f"job-{self.number}", "Authorization": "Bearer bench"}
        opening = headers | {"Budget-Remaining-Ms": str(load.budget)}
        url = f"http://127.0.0.1:{self.port}"
        status, degraded, body = 0, None, b""
        try:
            async with session.get(f"{url}/retrieval/search?k=4", headers=opening) as answer:
                await answer.read()
            async with session.post(
                f"{url}/chat/v1/chat/completions", headers=headers, json=self._asks()
            ) as answer:
                status, degraded = answer.status, answer.headers.get("Budget-Degraded")
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            status = 0
        took = (monotonic() - began) * 1000
        came = answer_of(status, degraded, body, in_time=took <= load.budget)
        slow = began - started >= load.seconds
        found.append(Asked(self.variant, began - started, slow, took, came, status))

    def _asks(self) -> dict[str, Any]:
        return {"model": "gpt-4o", "messages": [{"role": "user", "content": f"Question {self.question}?"}]}


def of(found: Sequence[Asked], variant: str, *, slow: bool) -> list[Asked]:
    """The jobs of one variant in one half."""
    return [asked for asked in found if asked.variant == variant and asked.slow is slow]
