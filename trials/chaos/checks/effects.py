"""What is said of a call's effect, beside what the server knows that it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trials.chaos.evidence import Evidence, Look
from trials.chaos.facts import Record, Told
from trials.chaos.words import ROUTE, Place

UNSETTLED: Final = frozenset({"uncertain", "reported", "applied", "dead_lettered", "discarded"})
_WAS_SAID: Final = ("outcome", "effect", "phase", "reason", "retry")


def not_unsent(evidence: Evidence) -> Look:
    """No committed write is ever said not to have been sent: not in an answer, not in a record, not in the list of writes."""
    look = Look("1 no committed write is called unsent")
    shown = {each.record: each.state for each in evidence.shown}
    for told in evidence.calls:
        call = told.ask.id
        if evidence.account.first(call, "committed") is None:
            continue
        for where, said in _statements(told, evidence):
            unsent = said.get("effect") == "none" or said.get("phase") == "not_sent"
            look.hold(not unsent, call, f"committed, but {where} says {dict(said)}")
        record = evidence.record(call)
        state = shown.get(str(record["record"])) if record is not None else None
        if state is not None and not _was_confirmed(told, evidence):
            look.hold(state in UNSETTLED, call, f"committed, but the control API shows it as {state}")
    return look


def _statements(told: Told, evidence: Evidence) -> Iterator[tuple[str, Mapping[str, Any]]]:
    outcome = told.heard.outcome
    if outcome is not None:
        yield "its answer", outcome.parameters
    if told.heard.problem is not None:
        yield "its answer's body", told.heard.problem
    for record in evidence.records(told.ask.id):
        yield "its record", {name: record[name] for name in ("record", *_WAS_SAID)}


def _was_confirmed(told: Told, evidence: Evidence) -> bool:
    """Whether a later call of the unit came with the word that the first did not happen: then that is what is on record."""
    return any(other.ask.number > told.ask.number and other.ask.confirmed for other in evidence.unit(told))


def survives(evidence: Evidence) -> Look:
    """After `kill -9`, whatever the server has seen of a write, and its caller not heard whole, is on record on the disk.

    The next incarnation knows of it; by the time that it is asked, somebody may have settled it.
    """
    look = Look("1 what was in flight survives kill -9")
    for each in evidence.remembered:
        known = each.state in UNSETTLED or each.state == "not_applied"
        look.hold(
            known,
            "",
            f"{each.record} was uncertain on disk, and the sidecar started on it shows it as {each.state}",
        )
    lives = {life.number: life for life in evidence.lives}
    for number, found in evidence.recovered.items():
        life = lives.get(number)
        if life is None or life.ended_at is None:
            continue
        for told in evidence.calls:
            seen = evidence.account.first(told.ask.id, "head", "touched")
            if told.ask.kind != "write" or seen is None or told.heard.whole or told.heard.end == "left":
                continue
            cut_off = life.started <= seen.at <= life.ended_at and told.heard.ended >= life.ended_at
            if not cut_off or evidence.unjournaled(seen.at) or evidence.record(told.ask.id) is not None:
                continue
            state = found.get(told.ask.unit)
            look.hold(
                state in UNSETTLED,
                told.ask.id,
                f"in flight when incarnation {number} was killed, and on disk it is {state}",
            )
    return look


def agrees(evidence: Evidence) -> Look:
    """Each statement about a call fits what the server saw of it: phase, effect, status, and what the caller may do."""
    look = Look("6 statements agree with the server's account")
    for told in evidence.calls:
        call = told.ask.id
        for record in evidence.records(call):
            _judge(look, evidence, told, "its record", record, record["status"])
            _same(look, told, record)
        outcome = told.heard.outcome
        if outcome is not None:
            said = {"outcome": outcome.token, **outcome.parameters}
            _judge(look, evidence, told, "its answer", said, told.heard.status)
            if told.heard.problem is not None:
                _judge_own(look, told, said)
    return look


def _judge(
    look: Look, evidence: Evidence, told: Told, where: str, said: Mapping[str, Any], status: int | None
) -> None:
    """Hold what is said of phase and effect against the account."""
    account, call, kind = evidence.account, told.ask.id, told.ask.kind
    calls = _of_unit(evidence, told) if said.get("reason") == "joined" else [call]
    reached = account.first(call, "head", "touched") is not None
    begun = any(account.first(each, "answering") is not None for each in calls)
    answered = any(account.first(each, "answered") is not None for each in calls)
    effect, phase = said.get("effect"), said.get("phase")
    words = (
        f"{where} says {phase}, effect={effect} ({said.get('outcome')}, status {status}), but the server has "
    )
    if effect == "reported" or phase == "complete":
        look.hold(answered, call, words + "never answered it whole")
    if phase == "head_received":
        look.hold(begun, call, words + "never begun to answer it")
    if phase == "not_sent" or (effect == "none" and kind != "read"):
        look.hold(not reached, call, words + "seen it")
    elif reached and not begun and kind != "read":
        look.hold(effect == "uncertain", call, words + "seen it, and not answered")
    if told.ask.place == Place.REFUSES:
        look.hold(phase == "not_sent" and effect == "none", call, words + "never listened")


def _of_unit(evidence: Evidence, told: Told) -> list[str]:
    return [other.ask.id for other in evidence.unit(told)]


def _same(look: Look, told: Told, record: Record) -> None:
    """An answer and its record say the same, but for one that left before its end was known."""
    outcome = told.heard.outcome
    if outcome is None or outcome.token == "in_progress":
        return
    if told.heard.fields.get("budget-record") != record["record"]:
        look.hold(False, told.ask.id, f"its answer names the record {told.heard.fields.get('budget-record')}")
        return
    if told.heard.end == "left":
        return  # it may have ended otherwise after that
    said = {"outcome": outcome.token, **outcome.parameters}
    differ = [name for name in _WAS_SAID if name != "outcome" and said.get(name) != record[name]]
    if said["outcome"] != record["outcome"]:
        differ.append("outcome")
    look.hold(
        not differ, told.ask.id, f"its answer says {said}, its record another {', '.join(differ)}: {record}"
    )


_STATUSES: Final = {
    ("deadline_exceeded", "uncertain", "write"): {424},
    ("upstream_failed", "uncertain", "write"): {424},
    ("deadline_exceeded", "uncertain", "idempotent"): {504},
    ("deadline_exceeded", "none", "read"): {504},
    ("upstream_failed", "uncertain", "idempotent"): {502},
    ("upstream_failed", "none", "read"): {502},
    ("connect_failed", "none", "read"): {502, 504},
    ("connect_failed", "none", "idempotent"): {502, 504},
    ("connect_failed", "none", "write"): {502, 504},
    ("shed", "none", "read"): {503, 403},
    ("shed", "none", "idempotent"): {503, 403},
    ("shed", "none", "write"): {503, 403},
}


def _judge_own(look: Look, told: Told, said: Mapping[str, Any]) -> None:
    """Hold an answer of the sidecar's own against the table of answers."""
    kind, effect, outcome = told.ask.kind, said["effect"], said["outcome"]
    status, retry, again = told.heard.status, said.get("retry"), told.heard.fields.get("x-should-retry")
    words = f"own answer: status {status}, {said}, x-should-retry {again}"
    expected = _STATUSES.get((outcome, effect, kind))
    if outcome == "refused" and said.get("reason") in ("unresolved_write", "dead_lettered"):
        expected = {
            424
        }  # a call that had been sent, and whose unit was given up before its next attempt, has failed by itself
    elif outcome == "refused":
        expected = {403, 503} if said.get("reason") in ("journal_unavailable", "shutting_down") else {403}
    elif outcome == "deadline_exceeded" and effect == "none" and kind != "read":
        expected = {504, 424}  # 424: it waited for the answer of an equal call, which may have happened
    if expected is not None:
        look.hold(status in expected, told.ask.id, words)
    if effect == "uncertain" and kind == "write":
        honoured = ROUTE[told.ask.route].honoured and told.ask.key is not None
        fit = {"same-key", "verify"} if honoured else {"verify"}
        if told.heard.problem is not None and said.get("reason") == "dead_lettered":
            fit = {"never"}
        look.hold(retry in fit and again == "false", told.ask.id, words)
        look.hold("retry-after" not in told.heard.fields, told.ask.id, words)
    elif outcome == "refused":
        look.hold(retry == "never" and again == "false", told.ask.id, words)
    else:
        look.hold(retry in ("safe", "never"), told.ask.id, words)
