"""The agents of the storm: a process of its own, which reads its orders as JSON from stdin, and writes what became of
them into the file that it is run with.

Each agent has one job: some calls in a row, every one waiting for the one before, to be done by a deadline. Many begin
at once, others keep coming at a steady rate. When each comes and how long its calls take is drawn from the seed, so that
two runs with one seed have the same to do.

A call is tried again as the SDKs of OpenAI and Stripe do it. Each try has a time limit of its own. A connection that
breaks, a try that takes too long, and 408, 409, 429 and 5xx are tried again, unless `x-should-retry` says otherwise;
before that comes a wait that doubles from half a second, less some jitter, or the one that `Retry-After-Ms` or
`Retry-After` asks for. They say how long they wait in `X-Stainless-Read-Timeout`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, process_time
from typing import Final, cast

import httptools
import uvloop

HOST: Final = "127.0.0.1"
OK: Final = 200
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 8.0
JITTER: Final = 0.25
LONGEST_ASKED: Final = 60.0
_RETRIED: Final = frozenset({408, 409, 429})
_SERVER_ERROR: Final = 500
_GRACE: Final = 0.2
_SLOW_ONE_IN: Final = 3


@dataclass(frozen=True)
class Orders:
    """What the agents do. Times are milliseconds, but for `seconds`, in which new agents come.

    `port`: where calls are sent, to the `tool` itself or to the sidecar, then with the headers of a budget (`budgets`).
    `holds`: an agent gives up at its deadline by itself. `tells`: callers say how long they wait.
    """

    port: int
    tool: int
    budgets: bool
    holds: bool
    tells: bool
    seed: int
    agents: int
    arrivals: int
    seconds: int
    calls: int
    deadline: int
    limit: int
    retries: int
    fast: int
    slow: int
    burst: int


@dataclass
class Job:
    """What became of one job. Times are seconds since the start of the run; `ended` None: not while we looked.

    `in_time`: when each answer came that came before the deadline; `taken_ms`: how much work of the tool is in all its
    answers; `ends`: how many of its tries ended how.
    """

    began: float
    ended: float | None = None
    calls: int = 0
    tries: int = 0
    complete: bool = False
    in_time: list[float] = field(default_factory=list)
    taken_ms: int = 0
    ends: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Answer:
    """`status` 0: there was none. `end`: how the try ended, in words."""

    status: int
    end: str
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


def again(answer: Answer, made: int, chance: float) -> float | None:
    """In how many seconds a call is tried again after `made` tries; None: it is not. `chance` is drawn from [0, 1)."""
    told = answer.headers.get(b"x-should-retry")
    if told == b"false" or (told != b"true" and not _retried(answer.status)):
        return None
    for name, unit in ((b"retry-after-ms", 0.001), (b"retry-after", 1.0)):
        asked = float(answer.headers.get(name, 0)) * unit
        if 0 < asked <= LONGEST_ASKED:
            return asked
    wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (made - 1))
    return wait * (1 - JITTER * chance)


def _retried(status: int) -> bool:
    return not status or status in _RETRIED or status >= _SERVER_ERROR


def arrivals(orders: Orders) -> list[float]:
    """When each agent begins: the first ones within the burst, the others spread over the whole time."""
    chance = Random(f"{orders.seed} arrivals")
    first = [chance.uniform(0, orders.burst / 1000) for _ in range(orders.agents)]
    later = [chance.uniform(0, orders.seconds) for _ in range(orders.arrivals * orders.seconds)]
    return [*first, *sorted(later)]


def work(orders: Orders, agent: int) -> list[int]:
    """How long the tool works on each call of an agent: one in three takes long."""
    chance = Random(f"{orders.seed} work {agent}")
    return [orders.slow if chance.randrange(_SLOW_ONE_IN) == 0 else orders.fast for _ in range(orders.calls)]


class _Link(asyncio.Protocol):
    """One connection, with one call at a time on it."""

    def __init__(self) -> None:
        self.open = True
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def call(self, request: bytes) -> Answer:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        outcome, _, _ = self._headers.get(b"budget-outcome", b"").decode().partition(";")
        self._settle(
            Answer(status, "answered" if status == OK else f"{status} {outcome}".strip(), self._headers)
        )
        if not self._parser.should_keep_alive():
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._settle(Answer(0, "broken"))

    def _settle(self, answer: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def close(self) -> None:
        self.open = False
        self._transport.abort()


class _Agent:
    def __init__(self, orders: Orders, number: int, started: float) -> None:
        self._orders = orders
        self._number = number
        self._started = started
        self._jitter = Random(f"{orders.seed} jitter {number}")
        self._link: _Link | None = None
        self.job: Job | None = None

    def _now(self) -> float:
        return monotonic() - self._started

    async def play(self, begins: float) -> None:
        await asyncio.sleep(begins)
        job = self.job = Job(self._now())
        deadline = self._orders.deadline / 1000
        try:
            async with asyncio.timeout(deadline if self._orders.holds else None):
                await self._calls(job)
        except TimeoutError:
            job.ends["deadline"] += 1
        finally:
            self._hang_up()
        job.ended = self._now()
        job.complete = len(job.in_time) == self._orders.calls

    async def _calls(self, job: Job) -> None:
        for ms in work(self._orders, self._number):
            job.calls += 1
            if not await self._call(job, ms):
                return

    async def _call(self, job: Job, ms: int) -> bool:
        for made in range(1, self._orders.retries + 2):
            job.tries += 1
            answer = await self._try(job, ms)
            job.ends[answer.end] += 1
            if answer.status == OK:
                job.taken_ms += ms
                if self._left(job) > 0:
                    job.in_time.append(self._now())
                return True
            wait = again(answer, made, self._jitter.random())
            if wait is None or made > self._orders.retries:
                break
            await asyncio.sleep(wait)
        return False

    async def _try(self, job: Job, ms: int) -> Answer:
        try:
            async with asyncio.timeout(self._orders.limit / 1000):
                if self._link is None or not self._link.open:
                    loop = asyncio.get_running_loop()
                    _, self._link = await loop.create_connection(_Link, HOST, self._orders.port)
                return await self._link.call(self._request(job, ms))
        except TimeoutError:
            self._hang_up()
            return Answer(0, "own limit")
        except OSError:
            return Answer(0, "no connection")

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()

    def _left(self, job: Job) -> float:
        """What is left of the job, in milliseconds."""
        return (job.began - self._now()) * 1000 + self._orders.deadline

    def _request(self, job: Job, ms: int) -> bytes:
        orders = self._orders
        tool, path = f"{HOST}:{orders.tool}", f"/work/{self._number}-{job.calls}?ms={ms}"
        lines = [f"GET {path} HTTP/1.1", f"Host: {tool}"]
        if orders.budgets:
            lines[0] = f"GET http://{tool}{path} HTTP/1.1"
            left = max(0, int(self._left(job)))
            lines += [f"Budget-Id: agent-{self._number}", f"Budget-Remaining-Ms: {left}"]
        if orders.tells:
            lines.append(f"X-Stainless-Read-Timeout: {orders.limit / 1000}")
        return "\r\n".join([*lines, "\r\n"]).encode()


async def _play(orders: Orders) -> list[Job]:
    """All agents, until no job that has begun can still be done in time."""
    started = monotonic()
    begins = arrivals(orders)
    agents = [_Agent(orders, number, started) for number in range(len(begins))]
    with suppress(TimeoutError):
        async with asyncio.timeout(orders.seconds + orders.deadline / 1000 + _GRACE):
            async with asyncio.TaskGroup() as group:
                for agent, when in zip(agents, begins, strict=True):
                    group.create_task(agent.play(when))
    return [agent.job for agent in agents if agent.job is not None]


if __name__ == "__main__":
    jobs = uvloop.run(_play(Orders(**json.load(sys.stdin))))
    told = {"jobs": [vars(job) for job in jobs], "cpu_seconds": process_time()}
    Path(sys.argv[1]).write_text(json.dumps(told))
