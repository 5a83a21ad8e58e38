"""What a pod says beside the policy: where its app listens, and how much tighter it wants to be held.

A pod may tighten the policy and never loosen it; the one thing that loosens, `observe`, holds only where the policy
allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from proxy.core.policy import Address, BudgetDefaults, Inbound, Journal, Listen, Mode, Policy

PortRange = tuple[int, int]
"""The first and the last of some ports; both are in it."""


@dataclass(frozen=True, slots=True)
class PodTerms:
    """What the pod's own spec says. `PodTerms()` says nothing, and is how a sidecar outside a pod runs.

    `standard`: the addresses and the journal of a pod hold (DESIGN: ports, files), whatever the policy says of them,
    since the injector has written them into the pod. `inbound_port`: the app's port, 1 to 65535, that the inbound side
    stands in front of. `budget_max`: no budget is longer, in nanoseconds. `observe`: decide and record only.
    `exclude_ports` and `exclude_cidrs`: what is left alone on purpose, so that it counts as no leak.
    """

    standard: bool = False
    inbound_port: int | None = None
    budget_max: int | None = None
    observe: bool = False
    exclude_ports: tuple[PortRange, ...] = ()
    exclude_cidrs: tuple[str, ...] = ()


STANDARD_JOURNAL: Final = "/var/lib/waterclock/journal.db"
STANDARD_INBOUND: Final = Address("0.0.0.0", 10801)  # noqa: S104 - entry requests come from outside the pod


def hold_to(policy: Policy, pod: PodTerms) -> Policy:
    """Return the policy as it holds in this pod."""
    held = policy
    if pod.standard:
        held = replace(held, listen=_standard(policy.listen), journal=_kept(policy.journal))
    if pod.inbound_port is not None:
        measure = held.listen.inbound.measure_transit if held.listen.inbound is not None else False
        inbound = Inbound(STANDARD_INBOUND, Address("127.0.0.1", pod.inbound_port), measure)
        held = replace(held, listen=replace(held.listen, inbound=inbound))
    if pod.budget_max is not None:
        budget = held.budget
        most = min(budget.max, pod.budget_max)
        held = replace(held, budget=replace(_shortened(budget, most), max=most))
    if pod.observe and policy.pods_may_observe:
        held = replace(held, mode=Mode.OBSERVE)
    return held


def _shortened(budget: BudgetDefaults, most: int) -> BudgetDefaults:
    """Return the defaults with none longer than `most`; the stages keep their shares."""
    default = min(budget.default, most)
    stages = tuple(replace(share, span=share.span * default // budget.default) for share in budget.stages)
    return replace(budget, default=default, stages=stages)


def _standard(listen: Listen) -> Listen:
    """Return the listeners of a pod; of the policy's inbound side only the app's address is its own."""
    inbound = listen.inbound
    return Listen(inbound=replace(inbound, address=STANDARD_INBOUND) if inbound is not None else None)


def _kept(journal: Journal) -> Journal:
    return replace(journal, path=STANDARD_JOURNAL)
