"""`waterclock simulate`: a job on paper, under one shared budget and beside it with a fresh limit for each step."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from proxy.cli.output import json_option
from proxy.cli.policy_file import complain
from proxy.config import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from proxy.core.simulation import Job, Plan, Ran


@click.command(short_help="Play a planned job on paper, before it runs.")
@click.argument("plan", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def simulate(plan: Path, as_json: bool) -> None:
    """Show what would become of the job in PLAN: under one shared budget, and with a fresh limit for each step.

    Nothing is sent, and nothing is waited for: the figures are those of the arithmetic that the sidecar uses. Ends with
    status 0 when under the shared budget the job is complete and on time, 1 when it is not, 2 when the plan has faults;
    all of them are printed at once.

    \b
    Example, in plan.yaml:
      total: 10s             # the promise, for the whole job
      reserve: 1s            # the end of it, which only the cleanup call may use
      cap: 4s                # what no single step exceeds
      cleanup: 1s            # what the cleanup call needs
      steps:
        - {name: search, needs: 4s}
        - {name: read, needs: 4s}
        - {name: answer, needs: 4s}

    \b
      waterclock simulate plan.yaml

    `answer` starts at 8 s, is allowed the 1 s that is left, and is cut at 9 s; the cleanup call ends at 10 s: incomplete, and
    on time. With a fresh limit for each step the same job takes 13 s.

    \b
    What a plan may say besides:
      transit: 50ms          # lost on the way to every step but the first
      width: 3               # so many of a group at once; the rest waits
      stages: {llm: 5s}      # shares of the total, for steps that name them
      carry: true            # what a stage leaves unused goes to those after it

    \b
    What a step may say besides:
      cap: 2s                # its own, instead of that of the plan
      min_start: 500ms       # with less than this it is not started
      stage: llm             # it uses this stage's share
      after: 250ms           # a pause before it

    \b
    Steps that start together are one entry:
      - parallel: [{name: left, needs: 3s}, {name: right, needs: 4s}]
    """
    from proxy.config.plan import load_plan
    from proxy.core.simulation import simulate as play

    try:
        planned = load_plan(plan)
    except ConfigError as error:
        complain(error)
    shared, fresh = play(planned), play(planned, fresh=True)
    if as_json:
        click.echo(json.dumps(_document(planned, shared, fresh), indent=2))
    else:
        _print(planned, shared, fresh)
    sys.exit(0 if shared.verdict.complete and shared.verdict.on_time else 1)


# -- for programs ------------------------------------------------------------------------------------------------------


def _document(plan: Plan, shared: Job, fresh: Job) -> dict[str, Any]:
    return {
        "total_ms": _ms(plan.total),
        "reserve_ms": _ms(plan.reserve),
        "shared": _job(shared),
        "fresh": _job(fresh),
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "complete": job.verdict.complete,
        "on_time": job.verdict.on_time,
        "ended_ms": _ms(job.ended),
        "late_ms": _ms(job.late),
        "steps": [_step(ran) for ran in job.steps],
        "cleanup": None if job.cleanup is None else _step(job.cleanup),
    }


def _step(ran: Ran) -> dict[str, Any]:
    return {
        "name": ran.name,
        "needs_ms": _ms(ran.needs),
        "arrived_ms": _ms(ran.arrived),
        "started_ms": None if ran.started is None else _ms(ran.started),
        "allowed_ms": _ms(max(0, ran.allowed)),
        "bound": ran.bound,
        "waited_ms": _ms(ran.waited),
        "ended_ms": _ms(ran.ended),
        "outcome": ran.outcome,
        "reason": ran.reason,
    }


def _ms(span: int) -> int | float:
    """Return a span in milliseconds, as a whole number where it is one."""
    whole, rest = divmod(span, 1_000_000)
    return span / 1_000_000 if rest else whole


# -- for people --------------------------------------------------------------------------------------------------------

_WIDEST: Final = 110
_WIDEST_BAR: Final = 48
_NARROWEST_BAR: Final = 8
_LONGEST_NAME: Final = 16
_FIGURES: Final = ("needs", "starts", "allowed", "ends")
_COLOURS: Final = {"completed": "green", "deadline_exceeded": "yellow"}


class _Marks(NamedTuple):
    """What bars are drawn with."""

    running: str = "█"
    waiting: str = "░"
    broken: str = "×"
    end: str = "│"
    more: str = "…"


class _Layout(NamedTuple):
    """What both tables have in common, so that their bars can be compared.

    A bar has `width` columns for `whole` nanoseconds; `figures` are the widths of the columns of figures.
    """

    whole: int
    budget: int
    figures: tuple[int, ...]
    marks: _Marks
    width: int

    @property
    def due(self) -> int:
        """The columns of a bar that the budget takes; where anything lasts longer, there are others."""
        return max(1, min(self._rounded(self.budget), self.width - (self.whole > self.budget)))

    def column(self, time: int) -> int:
        """Return how many columns come before a time, on the same side of the budget's end as the time itself."""
        column = self._rounded(time)
        return min(column, self.due) if time <= self.budget else max(column, self.due)

    def _rounded(self, time: int) -> int:
        return (2 * time * self.width + self.whole) // (2 * self.whole)


def _print(plan: Plan, shared: Job, fresh: Job) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, _WIDEST)
    marks = _Marks("#", ".", "x", "|", "~") if console.options.ascii_only else _Marks()
    layout = _layout(plan, (shared, fresh), console, marks)
    reserve = f", the last {_seconds(plan.reserve)} s of it for cleanup only" if plan.reserve else ""
    console.print(f"One shared budget: {_seconds(plan.total)} s for the whole job{reserve}", style="bold")
    console.print(_table(shared, layout))
    console.print(_verdict(shared))
    if shared.late:
        console.print("The pauses between its steps outlast the budget; no limit can cut those.")
    console.print("\nA fresh limit for each step: nothing is shared", style="bold")
    console.print(_table(fresh, layout))
    console.print(_verdict(fresh))
    console.print(f"\n{_legend((shared, fresh), marks)}", style="dim")


def _layout(plan: Plan, jobs: tuple[Job, Job], console: Console, marks: _Marks) -> _Layout:
    """Return the layout that fills the console; one too narrow for the shortest bars is taken as wider."""
    from rich.measure import Measurement

    whole = max(plan.total, *(job.ended for job in jobs))
    rows = [_FIGURES, *(_figures(ran) for job in jobs for ran in _calls(job))]
    figures = tuple(max(map(len, column)) for column in zip(*rows, strict=True))
    least = _Layout(whole, plan.total, figures, marks, _NARROWEST_BAR)
    unlimited = console.options.update(max_width=1000)
    taken = max(Measurement.get(console, unlimited, _table(job, least)).maximum for job in jobs)
    console.width = max(console.width, taken)
    return least._replace(width=min(_WIDEST_BAR, _NARROWEST_BAR + console.width - taken))


def _calls(job: Job) -> list[Ran]:
    return [*job.steps, *([] if job.cleanup is None else [job.cleanup])]


def _figures(ran: Ran) -> tuple[str, ...]:
    started = "-" if ran.started is None else _seconds(ran.started)
    return (_seconds(ran.needs), started, _seconds(max(0, ran.allowed)), _seconds(ran.ended))


def _table(job: Job, layout: _Layout) -> Table:
    """Return the steps of a job, a line each, with a bar that shows when."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("step", no_wrap=True)
    for heading, width in zip(_FIGURES, layout.figures, strict=True):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    table.add_column("outcome", min_width=17, no_wrap=True)
    table.add_column(_axis(layout), no_wrap=True)
    for ran in _calls(job):
        told = [Text(ran.outcome, _COLOURS.get(ran.outcome, "magenta"))]
        told += [Text(why, "dim") for why in _details(ran)]
        bars = [_bar(ran, layout), *(_with_end([" "] * layout.width, "", layout) for _ in told[1:])]
        table.add_row(
            _short(ran.name, layout.marks), *_figures(ran), Text("\n").join(told), Text("\n").join(bars)
        )
    return table


def _short(name: str, marks: _Marks) -> Text:
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    fits = cell_len(name) <= _LONGEST_NAME
    return Text(name if fits else set_cell_size(name, _LONGEST_NAME - 1).rstrip() + marks.more)


def _details(ran: Ran) -> Iterator[str]:
    if ran.reason is not None:
        yield ran.reason
    if ran.waited and ran.started is not None:
        yield f"waited {_seconds(ran.waited)}"


def _axis(layout: _Layout) -> Text:
    """Return the heading of the bars: where they begin, the budget ends and, if that is later, the longer job does."""
    from rich.text import Text

    due, whole = _seconds(layout.budget), _seconds(layout.whole)
    beyond = layout.width - layout.due
    within = f"0{due.rjust(layout.due - 1)}" if len(due) < layout.due else "0".ljust(layout.due)[: layout.due]
    return Text(f"{within}{layout.marks.end}{whole.rjust(beyond) if len(whole) <= beyond else ''}")


def _bar(ran: Ran, layout: _Layout) -> Text:
    marks, cells = layout.marks, [" "] * layout.width
    last = (layout.due if ran.ended <= layout.budget else layout.width) - 1
    arrived, ended = layout.column(ran.arrived), layout.column(ran.ended)
    started = ended if ran.started is None else min(layout.column(ran.started), last)
    cells[arrived:started] = marks.waiting * (started - arrived)
    if ran.started is not None and ran.ended > ran.started:
        ended = max(ended, started + 1)
        cells[started:ended] = marks.running * (ended - started)
    if ran.outcome != "completed":
        cells[min(ended, last)] = marks.broken
    return _with_end(cells, _COLOURS.get(ran.outcome, "magenta"), layout)


def _with_end(cells: list[str], colour: str, layout: _Layout) -> Text:
    """Return a bar with the line of the budget's end in it; what is beyond is red."""
    from rich.text import Text

    within, beyond = "".join(cells[: layout.due]), "".join(cells[layout.due :])
    return Text.assemble((within, colour), (layout.marks.end, "bold"), (beyond, "red"))


def _verdict(job: Job) -> Text:
    from rich.text import Text

    complete, on_time = job.verdict.complete, job.verdict.on_time
    return Text.assemble(
        ("complete", "bold green") if complete else ("incomplete", "bold red"),
        "; ",
        ("on_time", "bold green") if on_time else ("late", "bold red"),
        f"   ends at {_seconds(job.ended)} s",
        f": {_seconds(job.late)} s late" if job.late else "",
    )


def _legend(jobs: tuple[Job, ...], marks: _Marks) -> str:
    """Return what the signs mean, of those that are there."""
    ran = [each for job in jobs for each in _calls(job)]
    said = ["All in seconds.", f"{marks.running} under way"]
    if any(each.waited for each in ran):
        said.append(f"{marks.waiting} waiting")
    if any(each.outcome != "completed" for each in ran):
        said.append(f"{marks.broken} cut or not started")
    return "  ".join([*said, f"{marks.end} end of budget"])


def _seconds(span: int) -> str:
    """Return a span in seconds, exactly."""
    whole, rest = divmod(span, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
