"""All of it together: from a policy and what was measured to the tables, the proposal, and what is to be changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.policy import SLACK, Policy
from proxy.tuning.edit import Changes, changed
from proxy.tuning.measured import Measured
from proxy.tuning.needs import Need, needs
from proxy.tuning.proposal import Proposal, propose
from proxy.tuning.table import LEAST_SAMPLES, Row, rows


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for. `margin`: a part of what is needed; `slack`: nanoseconds, None as the policy says; `give`: the stage
    that gets what is over; `least`: how many samples are enough.
    """

    margin: float = 0.1
    slack: int | None = None
    give: str | None = None
    least: int = LEAST_SAMPLES


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found. `changes` has only what becomes another; `proposal` is None where no stage has samples enough."""

    rows: Sequence[Row]
    proposal: Proposal | None
    needs: Sequence[Need]
    changes: Changes

    @property
    def says_anything(self) -> bool:
        """Whether there are samples enough to propose anything from."""
        return self.proposal is not None or any(need.p95 is not None for need in self.needs)


def tuned(policy: Policy, measured: Measured, terms: Terms) -> Outcome:
    """Return what there is to say. Raises Untunable."""
    budget = policy.budget
    table = rows(measured, budget, margin=terms.margin, least=terms.least)
    kept = next((share.span for share in budget.stages if share.stage == SLACK), 0)
    slack = kept if terms.slack is None else terms.slack
    total = budget.default - budget.reserve
    proposal = propose(table, total=total, slack=slack, give=terms.give, margin=terms.margin)
    shares = {
        share.stage: share.after
        for share in (proposal.shares if proposal is not None else ())
        if share.after != share.before
    }
    changes = Changes(
        shares, proposal.slack if proposal is not None and terms.slack is not None else None, {}
    )
    found = needs(measured, changed(policy, changes), margin=terms.margin, least=terms.least)
    lower = {
        (need.route, need.rung): need.proposed
        for need in found
        if need.proposed is not None and need.proposed != need.needs
    }
    return Outcome(table, proposal, found, Changes(shares, changes.slack, lower))
