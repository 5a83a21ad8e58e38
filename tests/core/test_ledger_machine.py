"""The ledger and the decision as a whole, against a naive book of what was said: each promise holds after every step.

Time is counted in small whole numbers, so that spans can be laid out moment by moment, and ties are common.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.core.budget import BY_REQUEST, Budget, CallPhase
from proxy.core.calls import Effect, Kind, Outcome
from proxy.core.decision import attempt_ns, decide
from proxy.core.found import Found
from proxy.core.history import Event, Happening, History
from proxy.core.ledger import Ledger
from proxy.core.limits import Limits
from proxy.core.policy import BudgetDefaults, Correlation, OnMissing, Policy, Retries, Route, Share
from proxy.core.reasons import Reason
from proxy.core.step import StepRecord
from proxy.core.verdict import counts_of
from tests.observe.records import plain


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """The usual value, and now and then another."""
    return st.sampled_from([usual] * 3 * len(others) + [*others])


MARGIN, MOST_DEEP = 2, 3
DEFAULTS = BudgetDefaults(default=40, max=50, client_timer_margin=MARGIN, depth=MOST_DEEP)
BUDGETS = st.builds(
    replace,
    st.just(DEFAULTS),
    on_missing=mostly(OnMissing.DEFAULT, OnMissing.PASS),
    reserve=st.sampled_from([0, 5]),
    transit_allowance=st.sampled_from([0, 3]),
    correlate=st.permutations([*Correlation]).map(tuple) | st.just(tuple(Correlation)),
    stages=mostly((Share("llm", 20), Share("search", 12), Share("slack", 8)), ()),
    carry=st.booleans(),
)
BOUNDS = st.builds(
    replace,
    st.just(Policy().ledger),
    retention=st.sampled_from([0, 1, 30]),
    budgets=st.sampled_from([1, 2, 3, 9]),
    bytes=st.sampled_from([0, 5_000, 10**9]),
)
RETRIED = Route("retried", cap=10, retries=Retries())
ROUTES = st.sampled_from([Route("a"), Route("b", cap=10, min_start=4), RETRIED, Route("llm", stage="llm")])
LIMITS = st.builds(
    Limits,
    remaining=st.none() | st.integers(0, 60),
    budget_id=st.sampled_from([None, None, "a", "b", "c"]),
    reserve=mostly(None, 0, 20),
    stage=mostly("search", None, "llm", "slack", "other"),
    phase=mostly(CallPhase.WORK, CallPhase.CLEANUP),
    depth=mostly(0, 1, MOST_DEEP + 1),
    foreign=mostly(None, 0, 20),
    client_timer=mostly(None, MARGIN, 20),
    trace_id=mostly(None, "t1", "t2"),
    proxy_user=mostly(None, "a", "b"),
    proxy_remaining=st.none() | st.integers(0, 60),
)
ENDINGS = st.builds(
    dict[str, Any],
    outcome=st.sampled_from(Outcome),  # client_gone: it was cancelled
    effect=mostly(Effect.UNCERTAIN, Effect.NONE),
    unit=st.sampled_from([None, "u", "v"]),
    kind=st.sampled_from(Kind),
    tries=st.integers(1, 3),
    fresh=st.integers(0, 1),
)


@dataclass(eq=False)
class Job:
    """What was said of one budget, and what it has done. `told`: how often it was said to begin, less to be finished."""

    budget: Budget
    deadline: int
    extensions: int = 0
    told: int = 1
    closed: tuple[int, str, bool] | None = None
    idle_since: int = 0
    records: list[StepRecord] = field(default_factory=list)
    doubtful: dict[str, StepRecord] = field(default_factory=dict)
    spans: list[tuple[str | None, int, int]] = field(default_factory=list)

    def close(self, now: int, by: str) -> None:
        self.closed = self.closed or (now, by, now <= self.deadline)

    def last_end(self) -> int:
        return max(
            self.budget.opened + self.budget.total, self.closed[0] if self.closed is not None else -999
        )


@dataclass(eq=False)
class Call:
    """A call under way. `due`: when it is cut."""

    job: Job
    stage: str | None
    phase: CallPhase
    begun: int
    due: int | None


class LedgerMachine(RuleBasedStateMachine):
    """Calls and entry requests come, state what they like, and end in any order; jobs are closed, and time passes."""

    @initialize(policy=st.builds(Policy, budget=BUDGETS, ledger=BOUNDS))
    def begin(self, policy: Policy) -> None:
        self.policy, self.ledger = policy, Ledger(policy.ledger)
        self.now = self.heard = self.number = 0  # `heard`: the last time that the ledger was told
        self.jobs: dict[Budget, Job] = {}
        self.latest: dict[str, Job] = {}  # by id
        self.traces: dict[str, Job] = {}
        self.calls: list[Call] = []
        self.entries: list[Job] = []

    def kept(self) -> list[Job]:
        """The shared jobs that the ledger knows."""
        known = (budget for budget in self.ledger.listed() if not budget.lone)
        return [self.jobs[budget] for budget in known if budget in self.jobs]

    def busy(self, job: Job) -> bool:
        return job in self.entries or any(call.job is job for call in self.calls)

    def is_open(self, job: Job) -> bool:
        return job.closed is None and job.deadline >= self.heard

    def used(self, job: Job, stage: str) -> int:
        """How much of a stage is used by now, by a look at each moment."""
        running = [call for call in self.calls if call.job is job and call.phase is CallPhase.WORK]
        spans = job.spans + [(call.stage, call.begun, self.now) for call in running]
        return len({moment for name, *span in spans if name == stage for moment in range(*span)})

    # -- finding and forgetting --------------------------------------------------------------------------------------

    def attend(self) -> None:
        """Have the ledger look at the time, and see what it forgets."""
        before, self.heard = self.kept(), self.now
        self.ledger.sweep(self.now)
        self.check_forgotten(before, room_for=0)

    def check_forgotten(self, before: list[Job], *, room_for: int) -> None:
        """What the ledger knows no more is finished, idle, and old, but for one that had to make room."""
        after, retention = self.kept(), self.ledger.bounds.retention
        lost = [job for job in before if job not in after]
        assert not any(self.is_open(job) or self.busy(job) for job in lost)
        young = [job for job in lost if self.heard <= job.last_end() + retention]
        assert len(young) <= room_for
        assert not young or len(before) == self.ledger.bounds.budgets
        over = [job for job in after if not (self.busy(job) or self.is_open(job))]
        assert all(self.heard <= max(job.last_end(), job.idle_since) + retention for job in over)

    def belongs(self, limits: Limits, *, entry: bool) -> tuple[Job | None, str | None, int | None]:
        """Whose a call is, as the contract tells it: a job that is found, its name, and what a new one would have."""
        name = None
        for by in self.policy.budget.correlate:
            if by is Correlation.BUDGET_ID and limits.budget_id is not None:
                return self.latest.get(limits.budget_id), limits.budget_id, limits.remaining
            if by is Correlation.PROXY_USER and limits.proxy_user is not None:
                stated = limits.proxy_remaining if limits.remaining is None else limits.remaining
                return self.latest.get(limits.proxy_user), limits.proxy_user, stated
            if by is Correlation.TRACEPARENT and limits.trace_id is not None:
                name = limits.trace_id
                for job in (self.traces.get(name), self.latest.get(name)):
                    if job is not None and job in self.kept():
                        return job, job.budget.id, limits.remaining
            if by is Correlation.SOLE and len(set(self.entries)) == 1 and not entry:
                return self.entries[0], self.entries[0].budget.id, limits.remaining
        return self.latest.get(name or ""), name, limits.remaining

    def find(self, limits: Limits, *, entry: bool = False, transit: int = 0) -> Job | None:
        """Find the budget of a call, and compare with what it must be."""
        self.number += 1
        self.attend()
        defaults, before = self.policy.budget, self.kept()
        job, name, stated = self.belongs(limits, entry=entry)
        known = job is not None and self.ledger.get(job.budget.id) is job.budget
        assert known or job is None or not (self.is_open(job) or self.busy(job))
        found = self.ledger.find(limits, defaults, self.now, f"f{self.number}", entry=entry, transit=transit)
        self.check_forgotten(before, room_for=1)
        if found.budget is None:
            assert found.crowded or (not known and stated is None and defaults.on_missing is OnMissing.PASS)
            if found.crowded:
                assert len(self.kept()) == self.ledger.bounds.budgets
                assert all(self.is_open(one) or self.busy(one) for one in self.kept())
                assert job is None or job not in self.kept()
            return None
        off = defaults.transit_allowance + transit
        end = self.now + (defaults.default if stated is None else min(stated, defaults.max) - off)
        if found.budget not in self.jobs:
            assert not known, "a budget was opened anew (promise 1)"
            assert found == Found(found.budget, opened=True)
            assert found.budget.id == (name or f"f{self.number}")
            assert found.budget.lone is (name is None and not entry)
            job = Job(found.budget, end, idle_since=self.now)
            self.jobs[found.budget] = self.latest[found.budget.id] = job
            return job
        assert job is not None
        assert found.budget is job.budget
        assert found.extended is (limits.remaining is not None and end > job.deadline)
        job.extensions += found.extended
        job.deadline = job.deadline if limits.remaining is None else min(job.deadline, end)
        if found.opened:
            assert job.closed is not None
            job.closed, job.told = None, job.told + 1
        return job

    def stages_are_kept(self, job: Job) -> None:
        """No stage uses more than its share or, with carry, no number of first ones more than theirs together."""
        stages, shared, used = job.budget.stages, 0, 0
        if stages is None:
            return
        for stage in stages:
            assert stage.used(self.now) == self.used(job, stage.name)
            assert stages.carry or stage.used(self.now) <= stage.share
            shared, used = shared + stage.share, used + stage.used(self.now)
            assert used <= shared <= max(0, job.budget.total)

    # -- what happens ------------------------------------------------------------------------------------------------

    @rule(calls=st.lists(st.tuples(LIMITS, ROUTES), min_size=1, max_size=3), names_lone=st.booleans())
    def calls_arrive(self, calls: list[tuple[Limits, Route]], names_lone: bool) -> None:
        for limits, route in calls:
            lone = [job.budget.id for job in self.jobs.values() if job.budget.lone]
            self.arrive(limits._replace(budget_id=lone[-1]) if names_lone and lone else limits, route)

    def arrive(self, limits: Limits, route: Route) -> None:
        """Decide on a call: promise 2, and that the allowance is the smallest of what it is held to."""
        job, stage = self.find(limits), limits.stage or route.stage
        decision = decide(self.policy, route, limits, job.budget if job is not None else None, self.now)
        held_to = [limits.foreign, route.cap if route.retries is None else None]
        held_to.append(limits.client_timer - MARGIN if limits.client_timer is not None else None)
        if job is not None:
            work = limits.phase is CallPhase.WORK
            held_to.append(job.deadline - (job.budget.reserve if work else 0) - self.now)
            stages = job.budget.stages
            share = stages.get(stage or "") if stages is not None else None
            if work and stages is not None and share is not None:
                own = share.share - self.used(job, stage or "")
                held_to.append(stages.left(share, self.now) if stages.carry else own)
        allowed = decision.allowance.ns
        assert allowed == min((limit for limit in held_to if limit is not None), default=None)
        malformed = limits.stage == "slack" and bool(self.policy.budget.stages)
        done = job is not None and job.closed is not None and job.closed[1] == BY_REQUEST
        short = allowed is not None and (allowed <= 0 or allowed < route.min_start)
        assert (decision.refusal is not None) is (malformed or done or short or limits.depth > MOST_DEEP)
        assert (decision.refusal is Reason.MALFORMED) is malformed
        if decision.refusal is None and allowed is not None:
            assert attempt_ns(route, allowed) == min(allowed, route.cap or allowed) > 0
        if job is not None:
            due = None if allowed is None else self.now + allowed
            call = Call(job, stage, limits.phase, self.now, due)
            self.ledger.begin(job.budget, stage, limits.phase, self.now, allowed)
            self.calls.append(call)
            if decision.refusal is not None:
                self.end(call, outcome=Outcome.REFUSED, tries=0, fresh=0)

    def end(self, call: Call, **changes: Any) -> None:
        """Have a call end, and hand in its record."""
        self.number += 1
        job, record = call.job, plain(record=f"r{self.number}", **changes)
        self.calls.remove(call)
        if call.phase is CallPhase.WORK:
            job.spans.append((call.stage, call.begun, self.now))
        job.records.append(record)
        job.idle_since = self.now
        if record.outcome is Outcome.COMPLETED and record.kind is Kind.IDEMPOTENT and record.unit is not None:
            job.doubtful = {id: one for id, one in job.doubtful.items() if one.unit != record.unit}
        if record.effect is Effect.UNCERTAIN:
            job.doubtful[record.record] = record
        if job.budget.lone and not any(other.job is job for other in self.calls):
            self.attend()
            job.close(self.now, "call")
        job.told -= self.ledger.finish(job.budget, call.stage, call.phase, record, self.now)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), ending=ENDINGS)
    def any_call_ends(self, data: st.DataObject, ending: dict[str, Any]) -> None:
        call = data.draw(st.sampled_from(self.calls))
        self.ledger.note(call.job.budget, Event(self.now, Happening.RELEASED, 1, "r", detail=100 * "d"))
        self.end(call, **ending)

    @rule(limits=LIMITS, transit=st.integers(0, 3))
    def an_entry_request_comes(self, limits: Limits, transit: int) -> None:
        job = self.find(limits, entry=True, transit=transit)
        if job is None:
            return
        opens = job.closed is not None and job.deadline > self.now and not job.budget.lone
        assert self.ledger.enter(job.budget, limits) is (opens and not job.told)
        if opens:
            job.closed, job.told = None, 1
        self.entries.append(job)
        if limits.trace_id is not None and not job.budget.lone:
            self.traces[limits.trace_id] = job

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def an_entry_request_leaves(self, data: st.DataObject) -> None:
        self.attend()
        job = data.draw(st.sampled_from(self.entries))
        self.entries.remove(job)
        job.idle_since = self.now
        closes = job not in self.entries and job.closed is None
        assert self.ledger.leave(job.budget, self.now) is (closes and job.told == 1)
        if closes:
            job.close(self.now, "entry")
            job.told = 0

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def somebody_says_that_a_job_is_done(self, data: st.DataObject) -> None:
        self.attend()
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        assert self.ledger.close(job.budget, self.now, BY_REQUEST) is (job.closed is None)
        if job.closed is None:
            job.close(self.now, BY_REQUEST)
            job.told -= self.now <= job.deadline

    @precondition(lambda self: any(job.doubtful for job in self.kept()))
    @rule(data=st.data(), happened=st.booleans())
    def a_write_is_settled(self, data: st.DataObject, happened: bool) -> None:
        job = data.draw(st.sampled_from([job for job in self.kept() if job.doubtful]))
        record, _ = job.doubtful.popitem()
        self.ledger.settled(job.budget.id, record, happened=happened)

    @rule(passed=st.integers(1, 60))
    def time_passes(self, passed: int) -> None:
        """Calls are cut when they are due, in that order."""
        until = self.now + passed
        for call in sorted(self.calls, key=lambda call: until if call.due is None else call.due):
            if call.due is not None and call.due <= until:
                self.now = call.due
                self.end(call, outcome=Outcome.DEADLINE_EXCEEDED)
        self.now = until

    @rule(retention=st.sampled_from([None, 0, 1, 30]))
    def somebody_attends(self, retention: int | None) -> None:
        """Perhaps after a change of the policy."""
        if retention is not None:
            self.ledger.bounds = replace(self.ledger.bounds, retention=retention)
        self.attend()
        for budget in self.ledger.run_out():
            job = self.jobs[budget]
            assert not self.busy(job)
            assert job.deadline < self.now
            job.told -= 1

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def nothing_grows_and_nothing_open_is_forgotten(self) -> None:
        self.ledger.sweep(self.heard)
        kept = self.kept()
        for job in self.jobs.values():
            budget = job.budget
            assert (budget.deadline, budget.extensions_ignored) == (job.deadline, job.extensions)
            assert (budget.closed_at, budget.closed_by, budget.on_time) == (job.closed or (None, None, None))
            assert budget.in_flight == sum(call.job is job for call in self.calls)
            assert budget.entries == self.entries.count(job)
            self.stages_are_kept(job)
            if budget.in_flight or self.is_open(job):
                assert self.ledger.get(budget.id) is budget
            assert job in kept or budget.lone or not self.busy(job)
            assert job.told in (0, 1)
            assert job.told or not self.is_open(job)
        assert self.ledger.open == sum(map(self.is_open, kept))
        assert len(self.ledger) == len(kept) <= self.ledger.bounds.budgets
        histories = [job.budget.history for job in kept]
        assert self.ledger.bytes == sum(history.bytes for history in histories if history is not None)
        assert self.ledger.bytes <= self.ledger.bounds.bytes

    @invariant()
    def the_counts_are_those_of_the_records(self) -> None:
        """Promise 11, as far as the ledger goes."""
        for job in self.jobs.values():
            counts, history = counts_of(job.budget), job.budget.history or History()
            outcomes = Counter(record.outcome for record in job.records)
            assert counts.total == len(job.records) + job.budget.in_flight
            assert all(getattr(counts, outcome) == outcomes[outcome] for outcome in Outcome)
            assert len(history.steps) + history.steps_dropped == len(job.records)
            assert history.attempts == sum(record.tries for record in job.records)
            assert history.units == sum(record.fresh for record in job.records)
            assert counts.uncertain >= len(job.doubtful)
            assert counts.uncertain == len(job.doubtful) or history.overflowed

    def teardown(self) -> None:
        """At last everybody leaves, each end has been told of, and nothing is left."""
        if not hasattr(self, "ledger"):
            return
        for call in list(self.calls):
            self.end(call, outcome=Outcome.CLIENT_GONE)
        while self.entries:
            job = self.entries.pop()
            job.told -= self.ledger.leave(job.budget, self.now)
        self.now += 1_000
        self.somebody_attends(retention=None)
        assert (len(self.ledger), self.ledger.bytes, self.ledger.open) == (0, 0, 0)
        assert all((job.told, job.budget.busy) == (0, False) for job in self.jobs.values())


TestLedger = LedgerMachine.TestCase
