"""What tuning found, as JSON values for programs: spans in milliseconds, rates from 0 to 1; null is what nobody knows."""

from __future__ import annotations

from typing import Any

from proxy.core.policy import Policy
from proxy.core.units import MILLISECOND
from proxy.tuning.distribution import Between, Rate
from proxy.tuning.measured import Measured
from proxy.tuning.needs import Need
from proxy.tuning.outcome import Outcome, Terms
from proxy.tuning.proposal import Proposal, Proposed
from proxy.tuning.table import Row


def document(
    source: str,
    policy: Policy,
    measured: Measured,
    outcome: Outcome,
    terms: Terms,
    diff: str,
    *,
    written: bool,
) -> dict[str, Any]:
    """Return all of it."""
    budget = policy.budget
    return {
        "policy": source,
        "default_ms": _ms(budget.default),
        "reserve_ms": _ms(budget.reserve),
        "carry": budget.carry,
        "margin": terms.margin,
        "least_samples": terms.least,
        "stages": [_row(row) for row in outcome.rows],
        "proposal": None if outcome.proposal is None else _proposal(outcome.proposal, terms),
        "needs": [_need(need) for need in outcome.needs],
        "notes": list(measured.notes),
        "diff": diff,
        "written": written,
    }


def _row(row: Row) -> dict[str, Any]:
    use = row.use
    return {
        "stage": row.stage,
        "share_ms": _ms(row.share),
        "samples": row.samples,
        "cut": use.cut if use is not None else 0,
        "cut_rate": row.cut,
        "censored": use.needs.censored if use is not None else 0,
        "answered_with_less": use.short if use is not None else 0,
        "p50_ms": _between(row.p50),
        "p95_ms": _between(row.p95),
        "p99_ms": _between(row.p99),
        "headroom_ms": _ms(row.headroom),
        "verdict": row.verdict.value,
    }


def _proposal(proposal: Proposal, terms: Terms) -> dict[str, Any]:
    return {
        "total_ms": _ms(proposal.total),
        "slack_ms": _ms(proposal.slack),
        "missing_ms": _ms(proposal.missing),
        "rest_to": terms.give,
        "shares": [_proposed(each) for each in proposal.shares],
    }


def _proposed(share: Proposed) -> dict[str, Any]:
    return {
        "stage": share.stage,
        "before_ms": _ms(share.before),
        "after_ms": _ms(share.after),
        "basis": share.basis.value,
        "cut_before": _rate(share.cut_before),
        "cut_after": _rate(share.cut_after),
    }


def _need(need: Need) -> dict[str, Any]:
    return {
        "route": need.route,
        "rung": need.rung,
        "needs_ms": _ms(need.needs),
        "samples": need.samples,
        "p50_ms": _between(need.p50),
        "p95_ms": _between(need.p95),
        "proposed_ms": _ms(need.proposed),
        "finding": need.finding.value,
    }


def _between(value: Between | None) -> dict[str, Any] | None:
    return None if value is None else {"low": _ms(value.low), "high": _ms(value.high)}


def _rate(rate: Rate | None) -> dict[str, float] | None:
    return None if rate is None else {"least": rate.least, "most": rate.most}


def _ms(span: int | None) -> float | None:
    """Return a span in milliseconds, to the microsecond, as a whole number where it is one."""
    if span is None:
        return None
    return span // MILLISECOND if span % MILLISECOND == 0 else round(span / MILLISECOND, 3)
