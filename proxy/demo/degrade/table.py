"""What the demo of the ladder shows: each job as it went, and all of them side by side, within 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from proxy.demo.degrade.chat import Heard, Played
from proxy.demo.degrade.plan import STREAM_BUDGET
from proxy.demo.job import Document, Step

NOBODY = "nobody"
_LONGEST = 70


def steps_table(played: Played) -> Table:
    """Return the two steps of a job: what each was allowed, which rung it took, and what reached the other side."""
    table = _table("step", ["allowed", "carried", "took"], ["rung", "reached"], ["status"])
    sought = f"k={played.sought[0]}" if played.sought else NOBODY
    for step, reached in ((played.search, sought), (played.chat, _reached(played))):
        record = step.record or {}
        spans = [_ms(record.get(what)) for what in ("allowed_ms", "carried_ms", "elapsed_ms")]
        table.add_row(step.name, *spans, record.get("rung") or "", reached, _status(step))
    return table


def said(played: Played) -> Text:
    """Return what the agent got, and what was said of it."""
    answer = played.chat.answer
    assert answer is not None
    text = played.text if played.text is not None else answer.body.decode(errors="replace")
    rows = {
        "answer": text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…",
        "Budget-Degraded": answer.headers.get("Budget-Degraded", "–"),
        "Cache-Status": answer.headers.get("Cache-Status"),
        "the ledger says": played.closed["verdict"],
    }
    shown = [f"{name}: {value}" for name, value in rows.items() if value is not None]
    return Text("\n".join(shown))


def summary(jobs: Sequence[Played], heard: Heard) -> Table:
    """Return one line for each job."""
    table = _table("job", ["budget"], ["rung", "reached"], ["status", "complete?", "in time?", "degraded"])
    for played in jobs:
        rung = _rung(played.chat)
        _add(table, played.case.id, played.case.budget, rung, _reached(played), played.chat, played.closed)
    _add(table, "stream", STREAM_BUDGET, f"{_rung(heard.step)}, cut", "gpt-4o", heard.step, heard.closed)
    return table


def _add(table: Table, name: str, budget: int, rung: str, reached: str, step: Step, closed: Document) -> None:
    verdict = str(closed["verdict"]).split("; ")
    degraded = next((part.partition("=")[2] for part in verdict if part.startswith("degraded=")), "0")
    table.add_row(
        name,
        str(budget),
        rung,
        reached,
        _status(step),
        _verdict(verdict[0] == "complete"),
        _verdict("on_time" in verdict),
        degraded,
    )


def _table(first: str, *others: Any) -> Table:
    """Return an empty table: of the other columns, figures stand to the right and names to the left, in turn."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(first, min_width=9)
    for number, headings in enumerate(others):
        for heading in headings:
            table.add_column(heading, justify="left" if number % 2 else "right")
    return table


def _reached(played: Played) -> str:
    return ", ".join(str(asked.model) for _, asked in played.asked) or NOBODY


def _rung(step: Step) -> str:
    return (step.record or {}).get("rung") or ""


def _status(step: Step) -> str:
    return str(step.answer.status) if step.answer is not None else ""


def _ms(value: float | None) -> str:
    return "" if value is None else f"{round(value)}"


def _verdict(good: bool) -> Text:
    return Text("yes", "bold green") if good else Text("no", "bold red")
