"""What has to hold of the records that one process has left, of its counters and of its log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from proxy.core.budget import Limit
from proxy.core.calls import Kind, Phase
from proxy.core.step import StepRecord
from trials.simulation.model import Call
from trials.simulation.policies import RETRIED

if TYPE_CHECKING:
    from trials.simulation.process import Process

_LIMITS: Final = frozenset(Limit)
_ROUNDED_MS: Final = 0.002


def one_record_each(process: Process) -> str | None:
    """Each call that has begun has one record at the end; of a process that was killed, one at most."""
    said = Counter([record.record for record in process.records])
    said.update(record.record for record in process.entries)
    twice = [id for id, count in said.items() if count > 1]
    if twice:
        return f"{twice} have more than one"
    if process.ended == "exited" and (missing := [id for id in process.begun if id not in said]):
        return f"{missing} have none"
    return None


def counted(process: Process) -> str | None:
    """The metrics have counted each record once."""
    steps = sum(count.steps for count in process.metrics._steps.values())
    return (
        None if steps == len(process.records) else f"{steps} steps counted, {len(process.records)} recorded"
    )


def logged(process: Process) -> str | None:
    """The log has a line for each record, in their order."""
    lines = [line for line in process.lines if '"step":' in line and '"event":' not in line]
    if len(lines) != len(process.records):
        return f"{len(lines)} lines for {len(process.records)} steps"
    for line, record in zip(lines, process.records, strict=True):
        if f'"record":"{record.record}"' not in line.replace(": ", ":"):
            return f"the line of {record.record} is {line!r}"
    return None


def not_sent(record: StepRecord, call: Call) -> str | None:
    """Of a call that is said not to have been sent, or of a write without effect, nothing has arrived."""
    claims = record.phase == Phase.NOT_SENT or (record.kind == Kind.WRITE and record.effect == "none")
    if not claims or not call.attempts:
        return None
    return f"call {call.number} ({record.record}) is {record.phase}, {record.effect}, and has arrived at {call.host}"


def not_begun(record: StepRecord, call: Call) -> str | None:
    """Of a call that was allowed no time, nothing has arrived."""
    if record.allowed_ms is None or record.allowed_ms > 0 or record.would is not None or not call.attempts:
        return None
    return f"call {call.number} ({record.record}) was allowed {record.allowed_ms} ms, and has arrived at {call.host}"


def reported(record: StepRecord, call: Call) -> str | None:
    """A write that is said to be reported was answered, itself or the equal one that it has joined."""
    if record.kind != Kind.WRITE or record.effect != "reported":
        return None
    if any(attempt.answer is not None for attempt in call.attempts) or record.reason == "joined":
        return None
    return f"call {call.number} ({record.record}) is reported, and no server has answered it"


def in_time(process: Process, record: StepRecord) -> str | None:
    """A call ends by its allowance, but for what timers and the turns of the loop may be late."""
    bursts = record.kind == Kind.OPAQUE  # of which each has its time
    if record.allowed_ms is None or record.would is not None or record.phase == Phase.COMPLETE or bursts:
        return None
    behind = process.stood_behind.get(record.record, 0) / 1e6
    late = record.elapsed_ms - max(record.allowed_ms, behind)
    allowed = 3.0 + 3 * process.loop.longest / 1e6
    if late <= allowed or record.allowed_ms <= 0 or process.lax:
        return None
    return f"{record.record} was allowed {record.allowed_ms} ms and took {record.elapsed_ms} ms"


def not_early(record: StepRecord) -> str | None:
    """A call that is said to have run out of time has had it. A stream is closed a little before, so that its end arrives."""
    if record.outcome != "deadline_exceeded" or record.reason not in _LIMITS or record.allowed_ms is None:
        return None
    of_an_attempt = record.reason == Limit.ROUTE_CAP and record.route in RETRIED
    if record.kind == Kind.OPAQUE or record.bytes or of_an_attempt:
        return None
    margin = min(10.0, record.allowed_ms / 10) if record.phase == Phase.HEAD_RECEIVED else 0.0
    if record.elapsed_ms >= record.allowed_ms - margin - _ROUNDED_MS:
        return None
    return f"{record.record} was cut after {record.elapsed_ms} of {record.allowed_ms} ms"


def drained(process: Process, record: StepRecord) -> str | None:
    """A call is cut by a stop only when the grace is over."""
    if record.reason != "shutting_down" or process.terminated_at is None or record.outcome == "refused":
        return None
    if (
        record.kind == Kind.OPAQUE or record.allowed_ms is None
    ):  # no step: what has no end of its own ends with the drain's begin
        return None
    grace = process.policy.grace
    ended = process.ended_at[record.record]
    if (
        ended
        >= process.terminated_at + min(grace, *(policy.grace for policy in process.policies)) - 2_000_000
    ):
        return None
    return f"{record.record} was cut {(ended - process.terminated_at) / 1e6:.1f} ms after SIGTERM, with a grace of {grace / 1e6} ms"
