"""The demo from beginning to end: start everything, run the six jobs and the write, tell, check, and clear away."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.demo import doubt, sidecar, table, tool
from proxy.demo.checks import LATE, Checks, check_job, check_waterfall
from proxy.demo.job import Agent, Job, Step, add_records
from proxy.demo.plan import CAP, ORDER_CAP, ORDER_NEEDS, POLICY, RESERVE, TOTAL, VARIANTS, Variant
from proxy.demo.sidecar import Sidecar, Unable
from proxy.demo.tool import Tool

ALL_WELL: Final = 0
OFF: Final = 1
UNABLE: Final = 2
WIDEST: Final = 100

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
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST)
    story = _Story(console)
    try:
        with _folder(console, keep=keep) as folder:
            return asyncio.run(story.tell(folder))
    except Unable as why:
        story.name_faults()
        console.print(Text(f"The demo could not be played to its end. {why}", "bold red"))
        return UNABLE


@contextmanager
def _folder(console: Console, *, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="waterclock-demo-"))
    try:
        yield folder
    finally:
        if keep:
            console.print(f"Kept in {folder}: waterclock.yaml, steps.jsonl, journal.db", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


class _Story:
    """Tells everything on one console, and keeps what was off."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._checks = Checks()

    async def tell(self, folder: Path) -> int:
        """Tell the whole story, and return the status to end with. Raises Unable."""
        _end_on_signals()
        self._say(INTRODUCTION)
        self._console.print("\nAll times are milliseconds, as the sidecar logs them:")
        self._console.print(table.pairs(COLUMNS))
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
        return self._conclude(agent.oversleeps)

    async def _jobs(self, agent: Agent, side: Sidecar, tools: Tool) -> None:
        jobs: list[Job] = []
        for number, variant in enumerate(VARIANTS, 1):
            self._title(f"{number}. {variant.title}")
            self._say(variant.before)
            job = Job.of(variant)
            with self._filling(job.steps, variant):
                await agent.run(job)
                await add_records(side, job.steps)
            check_job(self._checks, job, tools)
            self._console.print(table.verdicts(job))
            self._say(variant.after)
            if not jobs:
                await self._draw(side, job)
            jobs.append(job)
        self._title("Side by side")
        self._console.print(table.summary(jobs))

    async def _draw(self, side: Sidecar, job: Job) -> None:
        drawn = await side.command("timeline", job.variant.id, width=self._console.width)
        check_waterfall(self._checks, job, drawn.plain)
        self._console.print(table.command(f"waterclock timeline {job.variant.id}", drawn))

    async def _doubt(self, agent: Agent, side: Sidecar, session: aiohttp.ClientSession, tools: Tool) -> None:
        self._title(f"{len(VARIANTS) + 1}. A write in doubt")
        self._say(DOUBT)
        case = doubt.Doubt()
        with self._filling(case.steps, None):
            await doubt.play(agent, side, session, case)
        doubt.check_doubt(self._checks, case, tools)
        for sentence in doubt.told(case, tools):
            self._say(sentence)
        self._console.print(table.command(f"waterclock uncertain show {case.id}", case.shown))

    def _conclude(self, oversleeps: float) -> int:
        if self._checks.faults:
            self.name_faults()
            if oversleeps > LATE / 2:
                self._say(
                    f"This machine is busy: timers came up to {oversleeps:.0f} ms late. Try when it is idle."
                )
            return OFF
        self._title(f"All {self._checks.count} checks hold: what you have seen is what was promised.")
        self._console.print("Try next:")
        waterclock = _waterclock()
        self._console.print(table.pairs({words.format(waterclock): says for words, says in NEXT.items()}))
        return ALL_WELL

    def name_faults(self) -> None:
        """Name everything that was off so far."""
        faults = self._checks.faults
        if faults:
            self._title(f"{len(faults)} of {self._checks.count} checks do not hold:")
        for fault in faults:
            self._say(f"- {fault}", "red")

    def _title(self, text: str) -> None:
        self._console.print(Text(f"\n{text}", "bold"))

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style))

    @contextmanager
    def _filling(self, steps: list[Step], variant: Variant | None) -> Iterator[None]:
        """Show the table of the steps as it fills, where that can be done, and as it is in the end."""

        def rows() -> Table:
            return table.steps_table(steps, variant)

        with Live(get_renderable=rows, console=self._console, refresh_per_second=8, transient=True):
            yield
        self._console.print(rows())


def _waterclock() -> str:
    """Return what to type for the command: after `make demo`, it is installed where no shell looks."""
    beside = Path(sys.executable).with_name("waterclock")
    if shutil.which("waterclock") is not None or not beside.exists():
        return "waterclock"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


def _end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: from inside, so that everything is cleared away."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
