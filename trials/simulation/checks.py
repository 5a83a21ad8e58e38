"""What has to hold. Each check is a function that looks at one thing and returns what is wrong with it, None where nothing is.

`Checks` counts how often each of them was asked: one that never was proves nothing. When they are asked:

    when_sent        the sidecar hands a write's head to a connection
    when_declared    a record is on its way to the journal
    when_recovered   a process has read the journal of the one before it
    when_gone        a process was killed, or has exited
    at_rest          everybody has left, and time has passed
    at_the_end       the last process has exited
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from proxy.core.policy import Guard, Policy
from proxy.core.step import StepRecord
from proxy.core.units import SECOND
from proxy.core.writes import DEAD, WriteBook, WriteRecord, WriteState
from trials.simulation import records, rest, told
from trials.simulation.model import Call
from trials.simulation.raw import Outcome
from trials.simulation.repeats import repetitions

if TYPE_CHECKING:
    from trials.simulation.process import Process
    from trials.simulation.world import World

UNDER_WAY: Final = SECOND
_FINDERS: Final = ("operator", "verified")
MOST_FAILURES: Final = 20
_STANDS: Final = frozenset({WriteState.UNCERTAIN, WriteState.REPORTED, WriteState.APPLIED}) | DEAD


NAMES: Final = frozenset(
    {
        "SIGTERM ends it",
        "a drain gives each call its time",
        "a write is on disk before its first byte leaves",
        "a write that was under way at a kill is on record afterwards",
        "book and disk say the same",
        "each call leaves one record",
        "every answer says how it went",
        "no answer reaches another caller",
        "no call runs beyond its allowance",
        "no more is granted than there is",
        "no work is done twice without a reason",
        "no write arrives twice",
        "no write goes out over the head of one that is unresolved",
        "none is cut before its time",
        "not sent means not sent",
        "nothing is left",
        "nothing is raised",
        "nothing starts on an empty budget",
        "the counters equal the records",
        "the log equals the records",
        "the sidecar comes back",
        "what is cut never looks complete",
        "what is not sent has not arrived",
        "what is reported was answered",
        "what is sent is HTTP",
        "what is settled is true",
        "what is told is what is recorded",
        "what nobody reads passes as it is",
        "what was carried out and not reported is on record",
    }
)
"""All checks there are. A campaign in which one of them had nothing to look at has not shown that it holds."""


class Checks:
    """What did not hold in a run, and how often each check has looked at something."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.failures: list[str] = []
        self.exercised: Counter[str] = Counter()

    def look(self, name: str, wrong: str | None) -> None:
        """Take what a check has said. `name`: one of `NAMES`."""
        assert name in NAMES, f"{name!r} stands in no list of checks"
        self.exercised[name] += 1
        if wrong is not None and len(self.failures) < MOST_FAILURES:
            self.failures.append(f"{name}: {wrong}")


# -- while it runs -----------------------------------------------------------------------------------------------------


def when_sent(world: World, process: Process, call: Call) -> None:
    """Ask what has to hold when the head of a call leaves."""
    if call.method != "POST" or call.host in ("model", "app") or call.inbound:
        return
    world.checks.look("a write is on disk before its first byte leaves", intent_first(process, call))


def intent_first(process: Process, call: Call) -> str | None:
    """A write's record is durable before a byte of it is sent."""
    if process.lax or call.record in process.journal.database.held:
        return None
    return f"call {call.number} ({call.record}) is sent, and nothing of it is in the journal"


def when_declared(world: World, process: Process, record: WriteRecord) -> None:
    """Ask what has to hold when a write is about to be sent."""
    if record.state is not WriteState.INTENT or process.plane is None:
        return
    known = process.plane.book.get(record.id)
    if known is not None and known.attempts != record.attempts:
        return
    call = world.model.calls.get(world.calls_of.get(record.id, 0))
    world.checks.look("no more is granted than there is", rest.over_full(process))
    if call is not None and record.id not in process.declared:
        process.declared.add(record.id)
        wrong = guarded(process, call, record)
        world.checks.look("no write goes out over the head of one that is unresolved", wrong)


def guarded(process: Process, call: Call, record: WriteRecord) -> str | None:
    """A write is not sent while another one of the same work stands, as its route knows repeats.

    After a reload, a call may still have the policy that it has begun with: each that there was is asked.
    """
    plane = process.plane
    assert plane is not None
    if process.lax or call.confirmed:
        return None
    said = [repeats(policy, plane.book, plane.wall_ms(), record) for policy in process.policies]
    return None if None in said else f"call {call.number} ({record.id}) repeats {said[-1]}"


def repeats(policy: Policy, book: WriteBook, wall_ms: int, record: WriteRecord) -> str | None:
    """Return the write that a record would repeat by a policy, None if none."""
    routes = {route.name: route for route in policy.routes}
    route = routes.get(record.route, policy.fallback)
    if route.guard is Guard.NONE:
        return None
    honoured = record.key is not None and route.idempotency.honoured
    since = wall_ms - policy.writes.hold // 1_000_000
    for other in book.listed():
        same_key = other.key is not None and other.key == record.key
        same_work = bool(record.fingerprint) and other.fingerprint == record.fingerprint
        if other.id == record.id or other.origin != record.origin or other.state not in _STANDS:
            continue
        over = max(other.opened_at, other.settled_at) < since
        if other.state in (WriteState.REPORTED, WriteState.APPLIED) and over:
            continue
        if honoured and same_key and other.state not in DEAD:
            continue
        if (same_key and not honoured) or (same_work and route.guard is Guard.FINGERPRINT):
            return f"{other.id}, which is {other.state}"
    return None


def when_recovered(world: World, process: Process) -> None:
    """Ask what a new process has to know of the writes of those before it."""
    before = {each.number: each for each in world.processes if each.number < process.number}
    book = {record.id for record in process.journal.database.held.values()}
    for call in world.model.calls.values():
        earlier = before.get(call.process)
        if earlier is None or not _is_write(call):
            continue
        if earlier.number == process.number - 1 and earlier.ended == "killed":
            wrong = remembered(earlier, call, book)
            world.checks.look("a write that was under way at a kill is on record afterwards", wrong)


def remembered(process: Process, call: Call, book: set[str]) -> str | None:
    """Of a write that had arrived, and was not answered, the next process knows."""
    if process.lax or not call.attempts or call.record in book or call.record in process.finished:
        return None
    if process.delivered(call.record):
        return None
    return f"call {call.number} ({call.record}) had arrived at {call.host}, and is forgotten"


def when_gone(world: World, process: Process) -> None:
    """Ask what has to hold of a process that has ended."""
    look = world.checks.look
    for fault in process.faults:
        look("nothing is raised", fault)
    look(
        "nothing is raised", None if process.ended in ("killed", "exited", "cannot start") else process.ended
    )
    look("each call leaves one record", records.one_record_each(process))
    look("the counters equal the records", records.counted(process))
    look("the log equals the records", records.logged(process))
    for record in process.records:
        look("no call runs beyond its allowance", records.in_time(process, record))
        look("none is cut before its time", records.not_early(record))
        look("a drain gives each call its time", records.drained(process, record))
        call = world.model.calls.get(process.begun.get(record.record, 0))
        if call is not None:
            _of_a_record(world, record, call)


def _of_a_record(world: World, record: StepRecord, call: Call) -> None:
    look = world.checks.look
    look("what is not sent has not arrived", records.not_sent(record, call))
    look("nothing starts on an empty budget", records.not_begun(record, call))
    look("what is reported was answered", records.reported(record, call))


# -- at the end --------------------------------------------------------------------------------------------------------


def at_rest(world: World) -> None:
    """Ask what is left when everybody has gone."""
    process = world.process
    look = world.checks.look
    if not process.ready or process.plane is None:
        look("the sidecar comes back", f"it is not there: {process.ended or 'starting'}")
        return
    look("the sidecar comes back", None)
    for held in rest.left_over(process):
        look("nothing is left", held)
    look("nothing is left", None)
    look("book and disk say the same", rest.books_agree(process))


def at_the_end(world: World) -> None:
    """Ask what has to hold of the whole run."""
    process, look = world.process, world.checks.look
    look("SIGTERM ends it", None if process.ended == "exited" else f"it is {process.ended or 'alive'}")
    if process.loop.pending:
        look("nothing is left", f"tasks at exit: {process.loop.pending}")
    for stray in world.model.stray:
        look("what is sent is HTTP", stray)
    look("what is sent is HTTP", None)
    book = {record.id: record for record in process.journal.database.held.values()}
    for spoken in world.talked:
        look("what nobody reads passes as it is", passed_on(spoken))
    for call in world.model.calls.values():
        if _is_write(call):
            look("no write arrives twice", once(world, call))
            look("what is settled is true", settled_truly(world, call, book))
            look("what was carried out and not reported is on record", on_record(world, call, book))
        for name, wrong in repetitions(world, call):
            look(name, wrong)
        for answer in call.answers:
            for name, check in told.ALL.items():
                look(name, check(world, call, answer))


def passed_on(spoken: Outcome) -> str | None:
    """What the other side has said back is what was said, as far as it goes."""
    if spoken.said.startswith(spoken.heard):
        return None
    return f"{len(spoken.heard)} bytes came back by {spoken.way} that are not the first of the {len(spoken.said)} that were said"


def once(world: World, call: Call) -> str | None:
    """A call that writes arrives once, unless its route says that the other side honours its key."""
    if len(call.attempts) <= 1 or (call.host == "honoured" and call.key is not None):
        return None
    return f"call {call.number} ({call.record}) has arrived {len(call.attempts)} times at {call.host}"


def settled_truly(world: World, call: Call, book: dict[str, WriteRecord]) -> str | None:
    """What an operator or a question has found out about a write was so, when it was found out.

    A caller's own word is not looked at: while it was on its way, another call of the same work may have been carried out.
    """
    record = book.get(call.record)
    if record is None or record.resolved_by not in _FINDERS:
        return None
    if record.state is WriteState.APPLIED and not call.committed and not world.model.is_keyed_twin(call):
        return f"call {call.number} ({record.id}) is applied by {record.resolved_by}, and was not carried out"
    since = next(
        (at for at, state in world.states.get(record.id, ()) if state is WriteState.NOT_APPLIED), None
    )
    if record.state is not WriteState.NOT_APPLIED or since is None:
        return None
    known = since - UNDER_WAY  # what was said when it was not yet so may have been under way for a while
    if any(each.committed is not None and each.committed < known for each in call.attempts):
        return f"call {call.number} ({record.id}) is not applied by {record.resolved_by}, and had been carried out"
    return None


def on_record(world: World, call: Call, book: dict[str, WriteRecord]) -> str | None:
    """A write that was carried out, and whose caller has not been given its answer, is in the journal."""
    process = world.processes[call.process - 1] if call.process else None
    if process is None or process.lax or not call.committed or process.delivered(call.record):
        return None
    if call.record in book and book[call.record].state is not WriteState.INTENT:
        return None
    if process.ended == "killed" and call.record in process.finished:
        return None
    return f"call {call.number} ({call.record}) was carried out at {call.host}, and nothing is known of it"


def _is_write(call: Call) -> bool:
    return call.method == "POST" and call.host not in ("model", "app", "nowhere") and not call.inbound
