"""The demo of the ladder from beginning to end: start everything, play the jobs, tell, check, and clear away."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp

from proxy.demo import sidecar, telling
from proxy.demo import table as tables
from proxy.demo.degrade import model, plan, search, service, table
from proxy.demo.degrade.chat import Agent, Heard, Others, Played, need_sdk
from proxy.demo.degrade.checks import check_case, check_events, check_metrics, check_miss, check_stream
from proxy.demo.degrade.model import Model
from proxy.demo.degrade.plan import CASES, FAST, FULL, MINIMAL, POLICY, WORDINGS, Case
from proxy.demo.degrade.search import Search
from proxy.demo.degrade.service import Service
from proxy.demo.sidecar import Sidecar, Unable, until
from proxy.demo.telling import Teller

EVENTS_WITHIN: Final = 5.0

INTRODUCTION: Final = f"""\
An agent answers questions: it looks for passages, and gives them to a language model. Both calls go through a Waterclock \
sidecar, under one Budget-Id, and the agent asks for the same every time: eight passages, the large model. The route of the \
chat has a ladder of five rungs: the large model if {FULL:,} ms are left, a fast one with {FAST}, a small one elsewhere with \
{MINIMAL}, an answer from the cache, an apology. The highest rung that fits what is left is taken."""

COLUMNS: Final = {
    "allowed": "the time the call was given: what was left of the share of its stage, and of the budget",
    "carried": "the part of it that an earlier stage had left unused",
    "rung": "which rung of the ladder of its route has answered",
    "reached": "what an upstream was asked for, by its own account",
}

STREAM: Final = f"""\
A stream of 60 words takes the large model 3 s, and there are {plan.STREAM_BUDGET:,} ms. It is read with the SDK that OpenAI \
publishes. {plan.MARGIN} ms before its time is over, the sidecar closes it in its own form and leaves the model."""

NEXT: Final = {
    "{} demo-degrade --keep": "keep the policy, step log and journal",
    "{} demo": "the same for a job that cannot do with less",
    "{} check --help": "whether a ladder of your own is one",
    "docs/degrade.md": "how a rung is chosen, and what follows it",
}


def play(*, keep: bool) -> int:
    """Play the demo, and return the status to end with. Everything it started is gone afterwards, whatever happens."""
    story = _Story()
    return telling.play(story, story.tell, "waterclock.yaml, steps.jsonl, journal.db" if keep else None)


class _Story(Teller):
    async def tell(self, folder: Path) -> int:
        """Tell the whole story, and return the status to end with. Raises Unable."""
        need_sdk()
        self.say(INTRODUCTION)
        self.console.print("\nAll times are milliseconds, as the sidecar logs them:")
        self.console.print(tables.pairs(COLUMNS))
        timeout = aiohttp.ClientTimeout(total=30)
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            others = Others(
                await stack.enter_async_context(search.running(Search())),
                await stack.enter_async_context(model.running(Model(plan.VOICES))),
                await stack.enter_async_context(model.running(Model(plan.SMALL_VOICES))),
            )
            cache = await stack.enter_async_context(service.running(folder, others.big.url, session))
            urls = {"search": others.search.url, "big": others.big.url, "small": others.small.url}
            holes = plan.HOLES | urls | {"service": cache.url}
            side = await stack.enter_async_context(sidecar.running(folder, POLICY, session, **holes))
            agent = Agent(session, side, others)
            try:
                await self._play(agent, side, others, cache, session)
            except (aiohttp.ClientError, TimeoutError) as error:
                raise Unable(f"A call failed: {error!r}. The sidecar said: {side.complaints()}") from error
        return self.conclude(NEXT)

    async def _play(
        self, agent: Agent, side: Sidecar, others: Others, cache: Service, session: aiohttp.ClientSession
    ) -> None:
        jobs: list[Played] = []
        for number, case in enumerate(CASES, 1):
            await self._case(number, case, agent, jobs)
        heard = await self._stream(len(CASES) + 1, agent, others)
        self.checks.that(await cache.has_kept(session), "`waterclock cache` was given no answer to keep")
        self.say(f"\nThe next two are looked up in `waterclock cache`, a process of its own, {cache.how}.")
        for number, case in enumerate(WORDINGS, len(CASES) + 2):
            await self._case(number, case, agent, jobs)
        missed = await cache.why_missed(session)
        check_miss(self.checks, missed)
        self.say(f"The reason by the metrics of `waterclock cache`: {', '.join(missed) or 'none'}.")
        await self._agree(side, session, jobs, heard)
        self.title("Side by side")
        self.console.print(table.summary(jobs, heard))

    async def _case(self, number: int, case: Case, agent: Agent, jobs: list[Played]) -> None:
        self.title(f"{number}. {case.title}: {case.budget:,} ms")
        self.say(case.before)
        played = Played(case)
        await agent.play(played)
        check_case(self.checks, played, jobs[0] if jobs else None)
        self.console.print(table.steps_table(played))
        self.console.print(table.said(played))
        self.say(case.after)
        jobs.append(played)

    async def _stream(self, number: int, agent: Agent, others: Others) -> Heard:
        self.title(f"{number}. A stream that is too long: {plan.STREAM_BUDGET:,} ms")
        self.say(STREAM)
        heard = Heard()
        await agent.listen(heard)
        check_stream(self.checks, heard, others)
        self.say(f"… {heard.text[-60:]}")
        self.say(
            f"finish_reason: {heard.finish}\nthe SDK raised: {heard.raised or 'nothing'}\n"
            f"the model said {others.big.chats[-1].said} words before it was left\n"
            f"the ledger says: {heard.closed['verdict']}"
        )
        self.say("The agent has a text that ends truthfully, and nobody pays for words that nobody hears.")
        return heard

    async def _agree(
        self, side: Sidecar, session: aiohttp.ClientSession, jobs: Sequence[Played], heard: Heard
    ) -> None:
        """Hold the events of the log and the metrics against the records."""
        steps = [step for played in jobs for step in played.steps] + [heard.step]
        degraded = sum(bool(step.record and step.record["degraded"]) for step in steps)

        async def look() -> bool:
            return len(side.events("degraded")) >= degraded

        await until(look, EVENTS_WITHIN, f"The log had not {degraded} events of degraded steps")
        check_events(self.checks, [step for step in steps if step.record], side.events("degraded"))
        check_metrics(self.checks, [step for step in steps if step.record], await side.samples(session))
