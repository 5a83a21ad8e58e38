"""What tuning found, as tables for people. All spans are shown in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from proxy.cli.output import console, harmless
from proxy.core.policy import Policy
from proxy.core.units import SECOND
from proxy.tuning.distribution import Between, Rate
from proxy.tuning.measured import Measured
from proxy.tuning.needs import Finding, Need
from proxy.tuning.outcome import Outcome, Terms
from proxy.tuning.proposal import Basis, Proposal
from proxy.tuning.table import LEAST_SAMPLES, Row, Verdict

_COLOURS: Final = {
    Verdict.TIGHT: "bold red",
    Verdict.FITS: "green",
    Verdict.GENEROUS: "cyan",
    Verdict.TOO_FEW: "yellow",
}
_NOTHING: Final = "-"
_TOO_FEW: Final = "too few"
_WIDEST: Final = 1000  # columns of a terminal; more than a table has with names of 64 characters
_SAME: Final = 1.03  # bounds that lie no further apart are one figure


def print_outcome(policy: Policy, measured: Measured, outcome: Outcome, terms: Terms) -> None:
    """Print the tables, and what they leave out."""
    out = console()
    if outcome.rows:
        budget = policy.budget
        reserve = f", {span(budget.reserve)} s of it the reserve" if budget.reserve else ""
        out.print(f"Stages of a budget of {span(budget.default)} s{reserve}", style="bold")
        _print_table(_stages(outcome.rows), out)
        _paragraphs(_on_stages(outcome, terms), out)
        if outcome.proposal is not None:
            out.print(f"\n{_heading(outcome.proposal)}", style="bold")
            _print_table(_proposal(outcome.proposal), out)
            _paragraphs(_on_proposal(outcome.proposal, policy, terms), out)
    if outcome.needs:
        out.print("\nNeeds of rungs" if outcome.rows else "Needs of rungs", style="bold")
        _print_table(_needs(outcome.needs), out)
    if measured.notes:
        out.print()
        _paragraphs(measured.notes, out)


def print_diff(diff: str, outcome: Outcome, path: str, *, refused: bool, written: bool) -> None:
    """Print the change, and what may be done with it."""
    out = console()
    out.print()
    for line in diff.splitlines():
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(Text(harmless(line), colour), soft_wrap=True)
    if diff:
        out.print()
    if written:
        out.print(f"{path} has been changed.", soft_wrap=True)
    elif diff and path and not refused:
        out.print(
            f"The same with --write changes {path}; sidecars that run on it take it up.", soft_wrap=True
        )
    elif not diff and not refused:
        enough = outcome.says_anything
        out.print("Nothing to change." if enough else "Nothing is proposed: there are too few samples.")


# -- stages ------------------------------------------------------------------------------------------------------------


def _stages(rows: Sequence[Row]) -> Table:
    table = _table("stage", "share", "jobs", "p50", "p95", "p99", "headroom", "cut", "verdict")
    for row in rows:
        table.add_row(
            row.stage,
            span(row.share),
            str(row.samples),
            *(between(each) for each in (row.p50, row.p95, row.p99)),
            _headroom(row),
            _NOTHING if row.cut is None else percent(row.cut),
            Text(_TOO_FEW if row.verdict is Verdict.TOO_FEW else row.verdict, _COLOURS[row.verdict]),
        )
    return table


def _headroom(row: Row) -> str:
    if row.p99 is None:
        return _NOTHING
    if row.headroom is None:
        return f"< {span(row.share - row.p99.low)}"
    return span(row.headroom) if _is_one(row.p99) else f"≥ {span(row.headroom)}"


def _on_stages(outcome: Outcome, terms: Terms) -> Iterator[str]:
    quantiles = [each for row in outcome.rows for each in (row.p50, row.p95, row.p99) if each is not None]
    said = ["All in seconds, cut: the jobs whose share was used up."]
    if any(each.high is None for each in quantiles):
        said.append("> x: it falls among jobs that were cut, and these would have needed more than x.")
    if any(each.high is not None and not _is_one(each) for each in quantiles):
        said.append("≤ x: nothing finer is known.")
    yield " ".join(said)
    for row in outcome.rows:
        if row.use is not None and row.use.short:
            yield (
                f"{row.stage}: in {row.use.short} of {row.samples} jobs it was answered with less for want of time; what the "
                "whole would have needed is more than is shown."
            )
    of_few = [row.stage for row in outcome.rows if row.p99 is not None and row.samples < LEAST_SAMPLES]
    if of_few:
        yield f"Of fewer than {LEAST_SAMPLES} jobs the 99th percentile is only the largest: {', '.join(of_few)}."
    few = [row.stage for row in outcome.rows if row.verdict is Verdict.TOO_FEW]
    if few:
        yield f"{_too_few(terms.least)}: {', '.join(few)}."


def _too_few(least: int) -> str:
    if least >= LEAST_SAMPLES:
        return f"Fewer than {least} jobs say nothing about one in a hundred"
    return f"Fewer than the {least} jobs of --samples" if least > 1 else "No jobs, so nothing is known"


# -- the proposal ------------------------------------------------------------------------------------------------------


def _heading(proposal: Proposal) -> str:
    slack = f" with {span(proposal.slack)} s of slack" if proposal.slack else ""
    return f"Proposed shares, {span(proposal.total)} s in all{slack}"


def _proposal(proposal: Proposal) -> Table:
    table = _table("stage", "now", "proposed", "cut now", "cut then", "by")
    for each in proposal.shares:
        table.add_row(
            each.stage,
            span(each.before),
            Text(span(each.after), "bold" if each.after != each.before else ""),
            _rate(each.cut_before),
            _rate(each.cut_after),
            _BASES[each.basis],
        )
    return table


_BASES: Final = {
    Basis.MEASURED: "what was needed",
    Basis.AT_LEAST: "needed at least",
    Basis.KEPT: f"{_TOO_FEW}: kept",
    Basis.RAISED: f"{_TOO_FEW}: the rest",
    Basis.SQUEEZED: _TOO_FEW,
}


def _on_proposal(proposal: Proposal, policy: Policy, terms: Terms) -> Iterator[str]:
    if proposal.missing:
        yield (
            f"There is not enough: for what all stages want, {span(proposal.missing)} s are missing, and each gets its part. "
            f"Raise budget.default by that, or give the jobs less to do."
        )
    elif terms.give is not None:
        yield f"What is over goes to {terms.give}."
    if any(each.basis is Basis.AT_LEAST for each in proposal.shares):
        yield "Where only the least is known, look again when there are samples under the new shares."
    if policy.budget.carry:
        yield "With carry a stage has what those before it leave, too: fewer jobs are cut than is said here."


# -- needs -------------------------------------------------------------------------------------------------------------


def _needs(needs: Iterable[Need]) -> Table:
    table = _table("route", "rung", "needs", "tries", "p50", "p95", "proposed", "")
    for need in needs:
        proposed = need.needs if need.proposed is None else need.proposed
        other = need.proposed is not None and need.proposed != need.needs
        table.add_row(
            need.route,
            need.rung,
            "auto" if need.needs is None else span(need.needs),
            str(need.samples),
            between(need.p50),
            between(need.p95),
            Text(_NOTHING if proposed is None else span(proposed), "bold" if other else ""),
            _FINDINGS[need.finding],
        )
    return table


_FINDINGS: Final = {
    Finding.MEASURED: "",
    Finding.AT_LEAST: "at least",
    Finding.AUTO: "left alone",
    Finding.LAST: "left alone",
    Finding.NO_LESS: "no quicker",
    Finding.NEVER: "never fits",
    Finding.TOO_FEW: _TOO_FEW,
}


# -- figures -----------------------------------------------------------------------------------------------------------


def span(nanoseconds: float) -> str:
    """Return a span in seconds: three figures of it, or whole seconds, and no more than milliseconds."""
    seconds = nanoseconds / SECOND
    if abs(seconds) >= 100:
        return f"{seconds:.0f}"
    text = f"{round(seconds, 3):.3g}" if abs(nanoseconds) % SECOND else str(round(seconds))
    return "0" if text in ("-0", "0") else text


def between(value: Between | None) -> str:
    """Return where a span lies: one figure where its bounds are the same, or as good as."""
    if value is None:
        return _NOTHING
    if value.high is None:
        return f"> {span(value.low)}"
    return span((value.low + value.high) / 2) if _is_one(value) else f"≤ {span(value.high)}"


def percent(part: float) -> str:
    """Return a part as a percentage; what is not nothing is not shown as nothing."""
    return "<0.1%" if 0 < part < 0.0005 else f"{100 * part:.1f}%"


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return _NOTHING
    least, most = percent(rate.least), percent(rate.most)
    return least if least == most else f"{least.removesuffix('%')}-{most}"


def _is_one(value: Between) -> bool:
    return value.high is not None and value.high <= value.low * _SAME + 1


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        left = name in ("stage", "route", "rung", "verdict", "by", "")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    return table


def _print_table(table: Table, out: Console) -> None:
    """Print a table whole: names and verdicts are not broken, nor cut off, where it is wider than the terminal."""
    needed = Measurement.get(out, out.options.update(max_width=_WIDEST), table).maximum
    if needed > out.width:
        table.width = needed
    out.print(table, crop=False)


def _paragraphs(sentences: Iterable[str], out: Console) -> None:
    for sentence in sentences:
        out.print(Text(harmless(sentence), "dim"))
