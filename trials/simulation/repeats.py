"""No write is carried out twice: seen from the servers alone, whatever the sidecar has on record.

The same work, carried out again for another call, needs a reason: the first caller was given its answer, somebody has found
out or decided that it may be sent again, the second caller has said that it knows better, the hold is over, the two were
under way side by side, or the route does not guard against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from proxy.core.writes import WriteState
from trials.simulation.model import Call

if TYPE_CHECKING:
    from trials.simulation.world import World

NAME: Final = "no work is done twice without a reason"
_UNGUARDED: Final = frozenset({"open", "model", "app", "small", "nowhere"})
_FREES: Final = frozenset({WriteState.NOT_APPLIED, WriteState.RELEASED, WriteState.WITHDRAWN})
_HAPPENED: Final = frozenset({WriteState.REPORTED, WriteState.APPLIED})


def repetitions(world: World, call: Call) -> Iterator[tuple[str, str | None]]:
    """Look at each earlier call of the same work as one that was carried out."""
    if call.method != "POST" or call.inbound or not call.committed or call.host in _UNGUARDED:
        return
    for other in world.model.by_unit[call.unit]:
        if (
            other.committed
            and other.sent_at is not None
            and other.number != call.number
            and _before(other, call)
        ):
            wrong = None
            if not _reason(world, other, call):
                wrong = f"call {call.number} ({call.record}) has done again at {call.host} what call {other.number} ({other.record}) had done"
            yield NAME, wrong


def _before(other: Call, call: Call) -> bool:
    return other.sent_at is not None and call.sent_at is not None and other.sent_at < call.sent_at


def _reason(world: World, first: Call, second: Call) -> bool:
    """Say whether there is a reason for the second one."""
    one, two = (world.processes[call.process - 1] for call in (first, second))
    if one.lax or two.lax or second.confirmed or one.delivered(first.record):
        return True
    if any(answer.whole and answer.outcome in ("completed", "in_progress") for answer in first.answers):
        return True
    policies = [*one.policies, *two.policies]
    by_key = first.host == "keyed" or len(first.body) > min(
        each.writes.fingerprint_bytes for each in policies
    )
    if by_key and (first.key is None or first.key != second.key):
        return True
    if first.host == "honoured" and first.key is not None and first.key == second.key:
        return True
    if first.ended_at is None or second.declared_at is None or first.ended_at >= second.declared_at:
        return True  # side by side
    hold = min(each.writes.hold for each in policies)
    for at, state in world.states.get(first.record, ()):
        waited = second.declared_at - at
        if waited >= 0 and (state in _FREES or (state in _HAPPENED and waited >= hold)):
            return True
    return False
