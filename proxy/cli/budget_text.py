"""Budgets as text for people: a table of many, and the record of one, its verdict first."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.cli.less_text import ASCII_MARK, UNICODE_MARK, on_cache, on_less, rung_and_why
from proxy.cli.output import ago, many, one_line, seconds

Document = dict[str, Any]

_COLOURS: Final = {"completed": "green", "deadline_exceeded": "yellow"}
_GOOD: Final = {"complete": "bold green", "on_time": "bold green", "in_progress": "bold cyan"}
_LESS: Final = "bold yellow"
_IN_DOUBT: Final = frozenset({"uncertain", "dead_lettered"})
_LONGEST_RUNG: Final = 20  # in a table


# -- many --------------------------------------------------------------------------------------------------------------


def print_budgets(budgets: list[Document], out: Console) -> None:
    """Print a line for each budget."""
    table = _table()
    table.add_column("budget", overflow="fold")
    for heading_ in ("spent", "of"):
        table.add_column(heading_, justify="right", no_wrap=True)
    table.add_column("done", justify="right", no_wrap=True)
    table.add_column("in doubt", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for each in budgets:
        counts = each["counts"]
        table.add_row(
            each["id"],
            seconds(each["spent_ms"]),
            seconds(each["total_ms"]),
            f"{counts['completed']}/{counts['total']}",
            str(counts["uncertain"] or ""),
            _state(each),
        )
    out.print(table)
    out.print(Text("All in seconds. done: steps completed, of all.", "dim"))


def _state(budget: Document) -> Text:
    degraded = budget["counts"]["degraded"]
    less = [(f"degraded={degraded}", _LESS)] if degraded else []
    if budget["state"] == "open":
        words = [(f"open, {seconds(budget['remaining_ms'])} left", "cyan"), *less]
        return Text("; ").join(Text(*word) for word in words)
    words = [_word(budget["complete"], "complete", "incomplete")]
    if budget["on_time"] is None:
        words.insert(0, ("expired", "bold red"))
    else:
        words.append(_word(budget["on_time"], "on_time", "late"))
    return Text("; ").join(Text(*word) for word in (*words, *less))


def _word(good: bool, yes: str, no: str) -> tuple[str, str]:
    return (yes, "bold green") if good else (no, "bold red")


# -- one ---------------------------------------------------------------------------------------------------------------


def heading(record: Document) -> Text:
    """Return what is to be said of a job first."""
    line = Text(f"{record['id']}: ", "bold")
    words = record["verdict"].split("; ")
    line.append_text(Text("; ").join(Text(word, _colour(word)) for word in words))
    total, deadline = record["total_ms"], record["deadline_ms"]
    line.append(f"   {seconds(record['spent_ms'])} of {seconds(total)} s")
    if deadline != total:
        line.append(f", shortened to {seconds(deadline)} s")
    if record["state"] == "open":
        line.append(f", {seconds(record['remaining_ms'])} s left")
    if record["state"] == "expired":
        line.append(", expired")
    return line


def _colour(word: str) -> str:
    return _LESS if word.startswith("degraded=") else _GOOD.get(word, "bold red")


def print_verdict(record: Document, out: Console) -> None:
    """Print what is to be said of a job, and why."""
    out.print(heading(record), soft_wrap=True)
    for sentence in record["verdicts"].values():
        _paragraph(sentence, out, "  ")


def print_record(record: Document, out: Console) -> None:
    """Print all that a person wants to know of a job."""
    print_verdict(record, out)
    out.print()
    for name, text in _facts(record):
        _paragraph(text, out, f"{name + ':':<10}")
    if record["steps"]:
        out.print()
        out.print(_steps(record["steps"], ASCII_MARK if out.options.ascii_only else UNICODE_MARK))
    decisions = list(decisions_of(record))
    if decisions:
        out.print("\nWhat was decided", style="bold")
        for sentence in decisions:
            _paragraph(sentence, out, "  ")
    doubtful = [each for each in record["writes"] if each["state"] in _IN_DOUBT]
    if doubtful:
        out.print("\nIn doubt", style="bold")
        for write in doubtful:
            _print_doubt(write, out)


_AMONG_OTHERS: Final = frozenset({"total", "uncertain", "degraded"})


def _facts(record: Document) -> Iterator[tuple[str, str]]:
    reserve = record["reserve_ms"]
    kept = f", the last {seconds(reserve)} s of it for cleanup" if reserve else ""
    yield "budget", f"{seconds(record['total_ms'])} s{kept}; opened {record['opened_at']}"
    counts = record["counts"]
    ended = [f"{count} {name}" for name, count in counts.items() if count and name not in _AMONG_OTHERS]
    less = f"; {counts['degraded']} of them answered with less than asked" if counts["degraded"] else ""
    yield "steps", f"{counts['total']}" + (f": {', '.join(ended)}" if ended else "") + less
    if record["units"] and record["attempts"] != record["units"]:
        attempts = many(record["attempts"], "attempt", "attempts")
        units = many(record["units"], "unit of work", "units of work")
        yield "attempts", f"{attempts} at {units}: {record['amplification']:g} each"
    if record["stages"]:
        yield "stages", ", ".join(map(_stage, record["stages"]))
    if record["extensions_ignored"]:
        yield "ignored", many(record["extensions_ignored"], "attempt", "attempts") + " to lengthen it"
    if record["steps_dropped"]:
        yield "dropped", f"of {record['steps_dropped']} further steps only the counts are kept"


def _stage(stage: Document) -> str:
    carried = stage["carried_in_ms"]
    more = f" (+ {seconds(carried)} s carried in)" if carried else ""
    return f"{stage['stage']} {seconds(stage['used_ms'])} of {seconds(stage['share_ms'])} s{more}"


def _steps(steps: list[Document], mark: str) -> Table:
    table = _table()
    for name in ("step", "starts", "queued", "allowed", "took"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("call", no_wrap=True)
    table.add_column(overflow="fold")
    for step in sorted(steps, key=lambda each: (each["started_ms"], each["step"])):
        allowed = step["allowed_ms"]
        outcome = Text(step["outcome"], _COLOURS.get(step["outcome"], "magenta"))
        if step["reason"]:
            outcome.append(f"\n{step['reason']}", "dim")
        if step["degraded"] is not None:
            rung, why = rung_and_why(step["degraded"])
            outcome.append(f"\n{mark} {rung[:_LONGEST_RUNG]} {why}", "yellow")
        elif step["rung"] is not None:
            outcome.append(f"\nrung {one_line(step['rung'])[:_LONGEST_RUNG]}", "dim")
        if step["cache"] is not None:
            outcome.append(f"\ncache {step['cache']}", "dim")
        table.add_row(
            str(step["step"]),
            seconds(step["started_ms"]),
            seconds(step["queued_ms"]),
            "-" if allowed is None else seconds(max(0, allowed)),
            seconds(step["elapsed_ms"]),
            outcome,
            step["method"],
            Text(_without_scheme(step["target"])),
        )
    return table


def _without_scheme(target: str) -> str:
    bare = one_line(target)
    return bare.partition("://")[2] or bare


def _print_doubt(write: Document, out: Console) -> None:
    call = f"{write['method']} {one_line(write['target'])}"
    dead = write["state"] == "dead_lettered"
    command = "dead-letters show" if dead else "uncertain resolve"
    options = "" if dead else " --applied | --not-applied"
    _paragraph(f"{write['id']}  {call}  ({write['state']}, {ago(write['age_ms'])} ago)", out, "  ")
    _paragraph(write["next"], out, "    ")
    out.print(Text(f"    waterclock {command} {write['id']}{options}"), soft_wrap=True)


def _paragraph(text: str, out: Console, begin: str) -> None:
    """Print a text that begins so; its further lines stand below its first word."""
    width = max(20, out.width)
    out.print(
        Text(textwrap.fill(text, width, initial_indent=begin, subsequent_indent=" " * len(begin))),
        soft_wrap=True,
    )


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


# -- which decision caused which delay ---------------------------------------------------------------------------------

_CUT_BY: Final[dict[str, Callable[[Document], str]]] = {
    "budget_remaining": lambda _: "that was all that was left of the budget",
    "route_cap": lambda step: f"that is the cap of the route {step['route']}",
    "stage_share": lambda step: f"that was all that was left for the stage {step['stage']}",
    "client_timer": lambda _: "its caller's own timer was about to fire",
    "foreign_limit": lambda _: "its caller had sent that limit",
}
_REFUSED_FOR: Final[dict[str, Callable[[Document], str]]] = {
    "budget_exhausted": lambda step: f"nothing was left {_of_what(step)}",
    "below_min_start": lambda step: f"{_left(step)} s were left, less than its route's min_start",
    "depth_exceeded": lambda step: (
        f"its job is {step['depth']} delegations deep, more than budget.depth allows"
    ),
    "unresolved_write": lambda _: "an earlier attempt of the same write is unresolved",
    "dead_lettered": lambda _: "its unit of work has been given up",
    "tunnel_denied": lambda _: "the policy's tunnel rules do not allow it",
    "egress_denied": lambda _: "the policy's egress.deny lets no call lead there",
    "queue_full": lambda _: "all slots were taken and its queue was full",
    "queue_deadline": lambda _: "its turn did not come while there was still time to start it",
    "width": lambda _: "as many calls of this budget as budget.width allows were in flight",
    "busy": lambda _: "as many calls of the pod as its limit allows were in flight",
}


def decisions_of(record: Document) -> Iterator[str]:
    """Say in a sentence each what admission and the budget did to the steps of a job, in the order of their arrival."""
    for step in sorted(record["steps"], key=lambda each: (each["started_ms"], each["step"])):
        name = f"step {step['step']}"
        reason = step["reason"] or "no reason given"
        if step["queued_ms"]:
            yield f"{name} waited {seconds(step['queued_ms'])} s for its turn."
        if step["tries"] > 1:
            yield f"{name} was attempted {step['tries']} times."
        if step["carried_ms"]:
            yield f"{name} could use {seconds(step['carried_ms'])} s that earlier stages had left."
        for said in (on_less(step), on_cache(step)):
            if said is not None:
                yield f"{name} {said}."
        if step["would"]:
            yield f"{name} was let pass by mode: observe; enforced, it would have been {_would(step)}."
        elif step["outcome"] == "deadline_exceeded":
            why = _CUT_BY.get(reason, lambda _, said=reason: str(said))(step)
            yield f"{name} was cut after {seconds(step['elapsed_ms'])} s: {why}."
        elif step["outcome"] in ("refused", "shed"):
            why = _REFUSED_FOR.get(reason, lambda _, said=reason: str(said))(step)
            yield f"{name} was not started: {why}."


def _of_what(step: Document) -> str:
    """Say what was used up: a stage can be while its budget is not."""
    if step["stage"] is not None and (step["remaining_ms"] or 0) > 0:
        return f"for the stage {step['stage']}"
    return "of the budget"


def _left(step: Document) -> str:
    return seconds(max(0, step["allowed_ms"] or 0))


def _would(step: Document) -> str:
    return {"cut": "cut", "refuse": "refused", "shed": "shed", "degrade": "answered with less"}[step["would"]]
