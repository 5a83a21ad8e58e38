"""What a pod says beside the policy: it tightens, and loosens only what the policy lets it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.pod import STANDARD_INBOUND, STANDARD_JOURNAL, PodTerms, hold_to
from proxy.core.policy import Address, BudgetDefaults, Inbound, Journal, Listen, Mode, Policy, Share
from proxy.core.units import MILLISECOND, SECOND

ELSEWHERE = Listen(
    Address("127.0.0.1", 1),
    Address("127.0.0.1", 2),
    Address("127.0.0.1", 3),
    Inbound(Address("127.0.0.1", 4), Address("127.0.0.1", 8080), measure_transit=True),
)

spans = st.integers(MILLISECOND, 3600 * SECOND)


def test_silence_changes_nothing() -> None:
    """A sidecar outside a pod runs by its policy alone."""
    policy = Policy(listen=ELSEWHERE, journal=Journal("here.db"))
    assert hold_to(policy, PodTerms()) is policy


def test_standard_addresses_hold() -> None:
    """What the injector wrote into the pod's variables and mounts is where the sidecar is."""
    held = hold_to(Policy(listen=ELSEWHERE, journal=Journal("here.db")), PodTerms(standard=True))
    inbound = Inbound(STANDARD_INBOUND, Address("127.0.0.1", 8080), measure_transit=True)
    assert held.listen == replace(Listen(), inbound=inbound)
    assert held.journal.path == STANDARD_JOURNAL


def test_inbound_port_puts_the_inbound_side_in_front() -> None:
    """With and without an inbound side in the policy; how transit is measured stays the policy's."""
    app = Address("127.0.0.1", 9000)
    plain = hold_to(Policy(), PodTerms(inbound_port=9000)).listen.inbound
    assert plain == Inbound(STANDARD_INBOUND, app)
    measured = hold_to(Policy(listen=ELSEWHERE), PodTerms(standard=True, inbound_port=9000)).listen.inbound
    assert measured == Inbound(STANDARD_INBOUND, app, measure_transit=True)


def test_observe_takes_both() -> None:
    """The pod asks and the policy allows: either alone is not enough."""
    for allowed in (False, True):
        for asked in (False, True):
            held = hold_to(Policy(pods_may_observe=allowed), PodTerms(observe=asked))
            assert (held.mode is Mode.OBSERVE) == (allowed and asked)


@given(default=spans, most=spans, asked=spans, shares=st.lists(st.integers(1, 100), max_size=4))
def test_budget_max_only_shortens(default: int, most: int, asked: int, shares: list[int]) -> None:
    """No budget gets longer than the policy allows, none longer than asked, and stages keep their shares."""
    stages = tuple(Share(str(at), default * share // 400) for at, share in enumerate(shares))
    budget = BudgetDefaults(default=default, max=most, stages=stages)
    held = hold_to(Policy(budget=budget), PodTerms(budget_max=asked)).budget
    assert held.max == min(most, asked)
    assert held.default <= min(default, max(most, asked))
    assert held.default <= asked
    assert sum(share.span for share in held.stages) <= held.default
    for before, after in zip(stages, held.stages, strict=True):
        assert after.span * default <= before.span * held.default
        assert (after.span + 1) * default > before.span * held.default
