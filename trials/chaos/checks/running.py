"""The sidecar itself: whether anything is left when all is at rest, and whether it complained."""

from __future__ import annotations

from trials.chaos.evidence import CONNECTION, Evidence, Look, Rest


def nothing_left(evidence: Evidence) -> Look:
    """Nothing is in use when nothing goes on: no step, slot, lease, place in a queue, connection, socket."""
    look = Look("4 nothing is left at rest")
    for rest in evidence.rests:
        look.exercised += rest.counted - 1
        look.hold(not rest.left, _last_on(evidence, rest), f"still in use: {rest.left}")
    return look


def _last_on(evidence: Evidence, rest: Rest) -> str:
    """Return the call that the upstream has seen last on a connection that is still open, if any."""
    for name in rest.left:
        if name.startswith(CONNECTION):
            call = evidence.account.last_on(name.removeprefix(CONNECTION).partition(" ")[0])
            if call:
                return call
    return ""


def clean(evidence: Evidence) -> Look:
    """No incarnation has crashed, or said anything that it should not have to say."""
    look = Look("7 the sidecar neither crashed nor complained")
    for life in evidence.lives:
        for complaint in life.complaints:
            look.hold(False, "", f"incarnation {life.number}: {complaint}")
        expected = {"kill": -9, "stop": 0}.get(life.ended_by)
        look.hold(life.status == expected, "", f"incarnation {life.number} ended with {life.status}")
    return look


def speaks_http(evidence: Evidence) -> Look:
    """What the sidecar sends on is HTTP to a second reader, and the upstream of this trial is not at fault itself."""
    look = Look("7 what is sent on is HTTP")
    look.exercised = sum(bool(evidence.account.of(told.ask.id)) for told in evidence.calls)
    for trouble in (*evidence.account.malformed, *evidence.account.faults):
        look.hold(False, trouble.call, f"{trouble.event}: {trouble.detail}")
    return look


def policy_stays(evidence: Evidence) -> Look:
    """A faulty policy is refused, and the old one stays in force."""
    look = Look("7 a faulty policy changes nothing")
    for stayed in evidence.refused_policies:
        look.hold(stayed, "", "the policy in force is another one after a faulty one was offered")
    return look
