"""What has to hold of an answer that a client has heard."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trials.simulation.model import Answer, Attempt, Call

if TYPE_CHECKING:
    from trials.simulation.world import World

REQUEST_TIMEOUT: Final = 408
_TOKEN: Final = re.compile(rb"call=([0-9]+);number=([0-9]+);")


def same_caller(world: World, call: Call, answer: Answer) -> str | None:
    """What a server has said to one call is told to nobody else, but to who asks for the same in the same name."""
    found = _said_to(answer)
    if found is None or found == call.number:
        return None
    other = world.model.calls[found]
    shared = other.unit == call.unit and other.who == call.who
    if shared and (call.key is not None and call.key == other.key):
        return None
    if shared and call.host == "model":  # from the cache
        return None
    return f"call {call.number} of {call.who} was given what was said to call {found} of {other.who}"


def really_whole(world: World, call: Call, answer: Answer) -> str | None:
    """An answer that looks complete is all that the server has said, or the sidecar's own."""
    if not answer.whole or call.method == "HEAD" or _is_own(answer) or "budget-degraded" in answer.fields:
        return None
    attempt = _attempt(world, answer)
    if attempt is None or attempt.answer is None or attempt.lied:
        return None
    if answer.body == attempt.answer:
        return None
    return (
        f"call {call.number} was given {len(answer.body)} of {len(attempt.answer)} bytes as if they were all"
    )


def not_sent_means_not_sent(world: World, call: Call, answer: Answer) -> str | None:
    """A caller who is told that nothing was sent can rely on it."""
    said = answer.fields.get("budget-outcome", "")
    if "phase=not_sent" not in said or not call.attempts:
        return None
    return f"call {call.number} was told {said!r}, and has arrived at {call.host}"


def recorded(world: World, call: Call, answer: Answer) -> str | None:
    """What a caller is told of its outcome is what the record says."""
    if not answer.outcome or answer.outcome == "in_progress" or not call.process:
        return None
    process = world.processes[call.process - 1]
    known = process.outcome_of.get(call.record)
    if known is None or known == answer.outcome:
        return None
    return f"call {call.number} was told {answer.outcome}, and is recorded as {known}"


def annotated(world: World, call: Call, answer: Answer) -> str | None:
    """Every answer says how its call went."""
    if not answer.status or "budget-outcome" in answer.fields or answer.status == REQUEST_TIMEOUT:
        return None
    return f"call {call.number} was answered {answer.status} without a word of its outcome: {answer.fields}"


ALL: Final[dict[str, Callable[[World, Call, Answer], str | None]]] = {
    "no answer reaches another caller": same_caller,
    "what is cut never looks complete": really_whole,
    "not sent means not sent": not_sent_means_not_sent,
    "what is told is what is recorded": recorded,
    "every answer says how it went": annotated,
}


def _is_own(answer: Answer) -> bool:
    return answer.fields.get("content-type", "").startswith("application/problem+json")


def _said_to(answer: Answer) -> int | None:
    """Return the call that an answer was said to by its server."""
    named = answer.fields.get("x-answer-for")
    if named is not None and named.isdigit():
        return int(named) or None
    found = _TOKEN.search(answer.body)
    return int(found[1]) if found is not None else None


def _attempt(world: World, answer: Answer) -> Attempt | None:
    found = _TOKEN.search(answer.body)
    if found is None:
        return None
    attempts = world.model.calls[int(found[1])].attempts
    number = int(found[2])
    return attempts[number - 1] if number <= len(attempts) else None
