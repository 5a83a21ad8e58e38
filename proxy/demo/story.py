"""The demo from beginning to end: start everything, run the six jobs and the write, tell, check, and clear away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
from rich.live import Live
from rich.table import Table

from proxy.demo import doubt, sidecar, table, telling, tool
from proxy.demo.checks import check_job, check_waterfall
from proxy.demo.job import Agent, Job, Step, add_records
from proxy.demo.plan import CAP, ORDER_CAP, ORDER_NEEDS, POLICY, RESERVE, TOTAL, VARIANTS, Variant
from proxy.demo.sidecar import Sidecar, Unable
from proxy.demo.telling import Teller
from proxy.demo.tool import Tool

INTRODUCTION: Final = f"""\
An agent has promised an answer within {TOTAL:,} ms. Its job is three tool calls in a row, A, B and C, and a cleanup \
call. All of them go through a Waterclock sidecar, under one Budget-Id. The last {RESERVE} ms are a reserve that only \
the cleanup may use, and no single call may take more than {CAP} ms, its cap. Then the agent closes the job (POST \
/budgets/ID/close), and the sidecar's ledger gives its two verdicts: is the work complete, and was it closed in time?"""

COLUMNS: Final = {
    "needs": "what it takes if let run: a part of it the tool, the rest the agent",
    "starts": "when it began, counted from the first (in 6, by the agent's clock)",
    "allowed": "the time it was given: its cap, or what was left if that was less",
    "took": "the time until it was answered, cut or refused",
    "outcome": "what became of it, and below that why, if it did not complete",
    "effect": "what it may have changed on the other side: none, reported, uncertain",
}

DOUBT: Final = f"""\
The tool commits an order at once, and answers after {ORDER_NEEDS:,} ms. An order may take {ORDER_CAP} ms here. The agent \
sends one, then repeats it blindly, as many clients do: under a new idempotency key, with other spaces in its JSON. Then \
it looks."""

NEXT: Final = {
    "{} run": "a sidecar of your own",
    "{} demo --keep": "keep the policy, step log and journal",
    "{} explain --help": "what would become of a call",
    "README.md": "your first budgeted call",
}


def play(*, keep: bool) -> int:
    """Play the demo, and return the status to end with. Everything it started is gone afterwards, whatever happens."""
    story = _Story()
    return telling.play(story, story.tell, "waterclock.yaml, steps.jsonl, journal.db" if keep else None)


class _Story(Teller):
    async def tell(self, folder: Path) -> int:
        """Tell the whole story, and return the status to end with. Raises Unable."""
        self.say(INTRODUCTION)
        self.console.print("\nAll times are milliseconds, as the sidecar logs them:")
        self.console.print(table.pairs(COLUMNS))
        timeout = aiohttp.ClientTimeout(total=30)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            tool.running() as tools,
            sidecar.running(folder, POLICY, session) as side,
        ):
            agent = Agent(session, side, tools.url)
            try:
                await self._jobs(agent, side, tools)
                await self._doubt(agent, side, session, tools)
            except (aiohttp.ClientError, TimeoutError) as error:
                raise Unable(f"A call failed: {error!r}. The sidecar said: {side.complaints()}") from error
        return self.conclude(NEXT, agent.oversleeps)

    async def _jobs(self, agent: Agent, side: Sidecar, tools: Tool) -> None:
        jobs: list[Job] = []
        for number, variant in enumerate(VARIANTS, 1):
            self.title(f"{number}. {variant.title}")
            self.say(variant.before)
            job = Job.of(variant)
            with self._filling(job.steps, variant):
                await agent.run(job)
                await add_records(side, job.steps)
            check_job(self.checks, job, tools)
            self.console.print(table.verdicts(job))
            self.say(variant.after)
            if not jobs:
                await self._draw(side, job)
            jobs.append(job)
        self.title("Side by side")
        self.console.print(table.summary(jobs))

    async def _draw(self, side: Sidecar, job: Job) -> None:
        drawn = await side.command("timeline", job.variant.id, width=self.console.width)
        check_waterfall(self.checks, job, drawn.plain)
        self.console.print(table.command(f"waterclock timeline {job.variant.id}", drawn))

    async def _doubt(self, agent: Agent, side: Sidecar, session: aiohttp.ClientSession, tools: Tool) -> None:
        self.title(f"{len(VARIANTS) + 1}. A write in doubt")
        self.say(DOUBT)
        case = doubt.Doubt()
        with self._filling(case.steps, None):
            await doubt.play(agent, side, session, case)
        doubt.check_doubt(self.checks, case, tools)
        for sentence in doubt.told(case, tools):
            self.say(sentence)
        self.console.print(table.command(f"waterclock uncertain show {case.id}", case.shown))

    @contextmanager
    def _filling(self, steps: list[Step], variant: Variant | None) -> Iterator[None]:
        """Show the table of the steps as it fills, where that can be done, and as it is in the end."""

        def rows() -> Table:
            return table.steps_table(steps, variant)

        with Live(get_renderable=rows, console=self.console, refresh_per_second=8, transient=True):
            yield
        self.console.print(rows())
