"""One record for each call, and counters that equal them."""

from __future__ import annotations

from collections import Counter

from trials.chaos.evidence import LOG_DELAY, STARVED, Evidence, Look
from trials.chaos.facts import Told


def one_record(evidence: Evidence) -> Look:
    """Each call that the sidecar has begun has left one record, and no other is there. What died with a kill may be missing."""
    look = Look("5 every call has one record")
    calls = {told.ask.id for told in evidence.calls}
    ids = Counter(str(record["record"]) for life in evidence.lives for record in life.records)
    for record, times in ids.items():
        look.hold(
            times == 1, evidence.by_record.get(record, ""), f"the record {record} is there {times} times"
        )
    for call in {call for call in evidence.by_record.values() if call not in calls}:
        look.hold(False, call, "a record of a call that nobody has made")
    for told in evidence.calls:
        number = len(evidence.records(told.ask.id))
        if number > 1:
            look.hold(False, told.ask.id, f"one call, and {number} records")
        elif _was_begun(evidence, told) and not evidence.killed_during(told):
            look.hold(number == 1, told.ask.id, "it was begun, and has left no record")
        elif told.heard.sent in ("nothing", "part"):
            look.hold(number == 0, told.ask.id, "it was never asked for whole, and has a record")
    return look


def _was_begun(evidence: Evidence, told: Told) -> bool:
    """Whether the sidecar has certainly read the head of a call."""
    heard = told.heard
    if "budget-record" in heard.fields or evidence.account.of(told.ask.id):
        return True
    if heard.end != "left" or told.ask.rudely or heard.sent not in ("head", "whole"):
        return False
    # A FIN takes nothing with it; a sidecar that ends takes what it has not accepted yet, or not looked at.
    life = evidence.life_at(heard.began)
    return (
        life is not None
        and heard.began > life.started + LOG_DELAY
        and (life.ended_at is None or heard.ended + STARVED < life.ended_at)
    )


def counters(evidence: Evidence) -> Look:
    """What an incarnation has counted at rest is what its log has."""
    look = Look("5 the counters equal the records")
    for life in evidence.lives:
        if life.total is not None:
            words = f"incarnation {life.number} has counted {life.total:.0f} steps, and logged {life.steps}"
            look.hold(life.total == life.steps, "", words)
    return look
