"""What the demo shows: tables that fit into 80 columns, with one sentence for each thing that is new."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from proxy.demo.job import Job, Step
from proxy.demo.plan import TOTAL, Variant

_COLOURS = {"completed": "green", "deadline_exceeded": "yellow", "refused": "magenta"}


def steps_table(steps: list[Step], variant: Variant | None = None) -> Table:
    """Return one line for each step, as far as it has come: from its answer at first, from its record in the end."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("step", min_width=7)
    for heading in ("needs", "starts", "allowed", "took", "status"):
        table.add_column(heading, justify="right")
    table.add_column("outcome", min_width=17)
    table.add_column("effect", min_width=9)
    for step in steps:
        table.add_row(step.name, str(step.needs or ""), *_what_happened(step, variant))
    return table


def _what_happened(step: Step, variant: Variant | None) -> list[RenderableType]:
    answer, record = step.answer, step.record
    if answer is None:
        return [] if step.began is None else [_ms(step.began), "", "", "", Text("under way", "dim")]
    if record is None:
        allowed, took = (answer.headers.get(f"Budget-{what}-Ms", "") for what in ("Allowed", "Elapsed"))
        outcome, reason, effect = (answer.outcome.get(what, "") for what in ("outcome", "reason", "effect"))
        started = _ms(step.began)
    else:
        allowed, took = _ms(record["allowed_ms"]), _ms(record["elapsed_ms"])
        outcome, reason, effect = record["outcome"], record["reason"] or "", record["effect"]
        started = _ms(step.began if variant is not None and variant.apart else record["started_ms"])
    told = Text(outcome, _COLOURS.get(outcome, "red"))
    if reason:
        told.append(f"\n{reason}", "dim")
    return [started, allowed, took, str(answer.status), told, effect]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def verdicts(job: Job) -> Text:
    """Return the two verdicts on a job, and what else the ledger says of it."""
    said = Text.assemble(
        "complete? ",
        _verdict(job.complete),
        "   in time? ",
        _verdict(job.on_time),
        f"   closed at {job.closed_at:,.0f} of {TOTAL:,} ms",
    )
    ignored = sum(budget["extensions_ignored"] for budget in job.budgets)
    if ignored:
        said.append(f"\nignored: {ignored} attempts to lengthen it")
    if job.variant.apart:
        each = ", ".join(sorted({budget["verdict"] for budget in job.budgets}))
        said.append(f"\nof each of the {len(job.budgets)} budgets the ledger says: {each}")
    return said


def _verdict(good: bool) -> tuple[str, str]:
    return ("yes", "bold green") if good else ("no", "bold red")


def summary(jobs: list[Job]) -> Table:
    """Return one line for each variant: its verdicts side by side."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("the job", min_width=23)
    for heading in ("C was allowed", "complete?", "in time?", "closed at"):
        table.add_column(heading, justify="right")
    for job in jobs:
        third = job.steps[2].record or {}
        table.add_row(
            job.variant.title,
            _ms(third.get("allowed_ms")),
            Text(*_verdict(job.complete)),
            Text(*_verdict(job.on_time)),
            _ms(job.closed_at),
        )
    return table


def pairs(rows: Mapping[str, str]) -> Table:
    """Return words and what each of them means."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for name, meaning in rows.items():
        table.add_row(f"  {name}", meaning)
    return table


def command(words: str, printed: Text) -> Text:
    """Return a command and what it printed."""
    shown = printed.copy()
    shown.rstrip()
    return Text.assemble((f"$ {words}\n", "bold"), shown)
