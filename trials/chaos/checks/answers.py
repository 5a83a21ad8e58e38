"""What clients were given: whose it is, whether it is whole, whether it explains itself, and when it came."""

from __future__ import annotations

from typing import Final

from trials.chaos.caller import SLACK_MS
from trials.chaos.evidence import Evidence, Look
from trials.chaos.facts import Told
from trials.chaos.words import DEFAULT_BUDGET_MS

_EXPLAINS: Final = (
    "type",
    "title",
    "status",
    "detail",
    "outcome",
    "effect",
    "phase",
    "reason",
    "next",
    "message",
    "error",
)
_CUT: Final = frozenset({"closed", "failed", "prefix"})


def nobody_elses(evidence: Evidence) -> Look:
    """Each answer is its caller's own, byte for byte, and none that was cut looks whole without saying so."""
    look = Look("3 no answer reaches another caller, none looks whole that is not")
    for told in evidence.calls:
        heard, ask = told.heard, told.ask
        if not heard.fields:
            continue
        words = f"{heard.status} {heard.end}, body {heard.body} ({heard.size} bytes), {heard.fields} {heard.trailers}"
        look.hold(heard.end != "garbage", ask.id, f"what came is no HTTP: {words}")
        if heard.problem is not None:
            continue
        token = heard.fields.get("x-token")
        if token is None:
            look.hold(not heard.whole, ask.id, f"an answer of nobody's: {words}")
            continue
        look.hold(token in _may_answer(evidence, told), ask.id, f"the answer to {token}: {words}")
        look.hold(heard.body != "different", ask.id, f"its body is not what the server said: {words}")
        if heard.whole:
            labelled = heard.body == "closed" and "budget-degraded" in heard.trailers
            look.hold(heard.body == "equal" or labelled, ask.id, f"it looks whole and is not: {words}")
    return look


def _may_answer(evidence: Evidence, told: Told) -> set[str]:
    """Return whose answer a call may be given: its own, or that of an equal one under the same key which it has joined."""
    outcome = told.heard.outcome
    if outcome is not None and outcome.get("reason") == "joined":
        unit = evidence.unit(told)
        return {
            other.ask.id for other in unit if other is not told and other.ask.key == told.ask.key is not None
        }
    return {told.ask.id}


def explained(evidence: Evidence) -> Look:
    """Every answer of the sidecar's own says what happened, what is known of the effect, and what may be done next."""
    look = Look("8 every refusal explains itself")
    for told in evidence.calls:
        problem, heard, call = told.heard.problem, told.heard, told.ask.id
        if problem is None:
            continue
        look.hold("proxy-status" in heard.fields and heard.outcome is not None, call, f"bare: {heard.fields}")
        if told.ask.method == "HEAD":
            continue
        missing = [name for name in _EXPLAINS if not problem.get(name)]
        look.hold(not missing, call, f"its explanation lacks {', '.join(missing)}: {problem}")
        outcome = heard.outcome
        if outcome is None:
            continue
        said = {"outcome": outcome.token, **outcome.parameters}
        differ = [
            name for name in ("outcome", "effect", "phase", "reason") if problem.get(name) != said.get(name)
        ]
        look.hold(not differ and problem.get("status") == heard.status, call, f"{said}, but {problem}")
        if said.get("reason") in ("unresolved_write", "dead_lettered"):
            look.hold(bool(problem.get("record")), call, f"it names no first record: {problem}")
    return look


def in_time(evidence: Evidence) -> Look:
    """No call took longer than its budget and a generous slack."""
    look = Look("9 no call outlasts its budget")
    for told in evidence.calls:
        if told.heard.end == "unreached":
            continue
        budget = told.ask.stated_ms if told.ask.stated_ms is not None else DEFAULT_BUDGET_MS
        took = (told.heard.ended - told.heard.began) / 1e6
        hung = told.heard.end == "hung" or took > budget + SLACK_MS
        look.hold(not hung, told.ask.id, f"{told.heard.end} after {took:.0f} ms of {budget} ms")
    return look
