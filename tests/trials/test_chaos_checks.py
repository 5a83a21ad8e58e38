"""The checks of the chaos trial, on evidence made by hand: silent where all is well, and each sort of lie is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trials.chaos.checks import CHECKS, judge
from trials.chaos.checks.answers import explained, in_time, nobody_elses
from trials.chaos.checks.effects import agrees, not_unsent, survives
from trials.chaos.checks.records import counters, one_record
from trials.chaos.checks.repeats import not_repeated, not_resent
from trials.chaos.checks.running import clean, nothing_left, policy_stays, speaks_http
from trials.chaos.evidence import Evidence, Life, Look, Rest, Trouble, Unsettled
from trials.chaos.facts import Account, Ask, Heard, Seen, Told

SECOND = 1_000_000_000
BEGAN = 100 * SECOND
UNIT = "1-0-0-1.1"
FIRST, SECOND_CALL, THIRD = f"{UNIT}.1", f"{UNIT}.2", f"{UNIT}.3"

Check = Callable[[Evidence], Look]


def ask(number: int = 1, **given: Any) -> Ask:
    """A write of the first route."""
    facts: dict[str, Any] = {
        "route": "plain",
        "method": "POST",
        "place": "main",
        "ways": ("well",),
        "size": 10,
    }
    return Ask(
        **{"id": f"{UNIT}.{number}", "unit": UNIT, "number": number, "stated_ms": 1000, **facts, **given}
    )


def said(outcome: str = "completed", **parameters: str) -> str:
    """A `Budget-Outcome`."""
    return outcome + "".join(f"; {name}={value}" for name, value in parameters.items())


DONE = said(effect="reported", phase="complete")
IN_DOUBT = said("deadline_exceeded", effect="uncertain", retry="verify", reason="route_cap", phase="sent")
NOT_STARTED = said("deadline_exceeded", effect="none", retry="safe", reason="route_cap", phase="not_sent")
REFUSED = said("refused", effect="none", retry="never", reason="unresolved_write", phase="not_sent")


def answered(number: int = 1, outcome: str = DONE, **given: Any) -> Heard:
    """A whole answer of the upstream's."""
    call = f"{UNIT}.{number}"
    fields = {
        "budget-outcome": outcome,
        "budget-record": f"r{number}",
        "x-token": call,
        "x-arrival": "1",
        "x-size": "20",
    }
    began = BEGAN + (number - 1) * SECOND
    facts = {"began": began, "ended": began + SECOND // 4, "sent": "whole", "end": "message", "status": 200}
    return Heard(**{**facts, "fields": fields, "body": "equal", "size": 20, **given})


def own(number: int = 1, outcome: str = IN_DOUBT, status: int = 424, **changed: Any) -> Heard:
    """An answer of the sidecar's own."""
    token, *parameters = outcome.split("; ")
    known = dict(each.split("=") for each in parameters)
    problem = {
        **dict.fromkeys(("type", "title", "detail", "next", "message", "record"), "words"),
        "error": {"message": "words"},
        "status": status,
        "outcome": token,
        **{name: known[name] for name in ("effect", "phase", "reason")},
    } | changed
    fields = {
        "budget-outcome": outcome,
        "budget-record": f"r{number}",
        "proxy-status": "waterclock; error=http_response_timeout",
        "x-should-retry": "false",
    }
    return answered(number, fields=fields, body="own", status=status, problem=problem)


def record(number: int = 1, outcome: str = DONE, status: int = 200, **given: Any) -> dict[str, Any]:
    """The record of a call."""
    token, *parameters = outcome.split("; ")
    known: dict[str, str | None] = {"effect": None, "retry": None, "reason": None, "phase": None}
    known |= dict(each.split("=") for each in parameters)
    return {
        "record": f"r{number}",
        "stage": f"{UNIT}.{number}",
        "outcome": token,
        "status": status,
        **known,
        **given,
    }


def account(number: int = 1, *events: str, at: int | None = None) -> list[Seen]:
    """What the server has seen of a call."""
    when = BEGAN + (number - 1) * SECOND + 1000 if at is None else at
    return [Seen(event, f"{UNIT}.{number}", UNIT, 1, when + place) for place, event in enumerate(events)]


WHOLE = ("head", "whole", "committed", "answering", "answered")
UNANSWERED = ("head", "whole", "committed")


def life(*records: dict[str, Any], **given: Any) -> Life:
    """An incarnation that was stopped."""
    facts: dict[str, Any] = {
        "number": 1,
        "started": 0,
        "ended_at": 200 * SECOND,
        "ended_by": "stop",
        "status": 0,
        "records": records,
        "steps": len(records),
        "total": float(len(records)),
        "complaints": (),
    }
    return Life(**facts | given)


def good() -> Evidence:
    """A write that was answered, a second sending of a write that was cut, refused, and all that goes with it."""
    first, second = Told(ask(1), own(1)), Told(ask(2), own(2, REFUSED))
    other = Told(ask(3, unit="other", id="other.1"), answered(3, fields={}))
    other = replace(
        other,
        heard=answered(3, fields={**answered(3).fields, "x-token": "other.1", "budget-record": "r3"}),
    )
    seen = [*account(1, *UNANSWERED), *(each._replace(call="other.1") for each in account(3, *WHOLE))]
    records = [record(1, IN_DOUBT, 424), record(2, REFUSED, 424), record(3, stage="other.1")]
    evidence = Evidence([first, second, other], Account(seen), [life(*records)])
    evidence.rests.append(Rest({}, 20))
    evidence.refused_policies.append(True)
    evidence.shown.append(Unsettled("r1", "uncertain"))
    return evidence


def one(told: Told, seen: list[Seen], *records: dict[str, Any], **given: Any) -> Evidence:
    """Evidence of one call."""
    return Evidence([told], Account(seen), [life(*records, **given)])


def twice(first: Heard, second: Heard, seen: list[Seen], **asks: Any) -> Evidence:
    """Evidence of two sendings of one unit. `asks`: what both have in common."""
    later = asks.pop("later", {})
    calls = [Told(ask(1, **asks), first), Told(ask(2, **asks | later), second)]
    records = [record(1, first.fields.get("budget-outcome", IN_DOUBT)), record(2)]
    return Evidence(calls, Account(seen), [life(*records)])


BOTH = [*account(1, *UNANSWERED), *account(2, *WHOLE)]


def test_silent_where_all_is_well() -> None:
    """No check finds anything in what is good, and nearly all of them have looked at something."""
    looks = judge(good())
    assert [look.findings for look in looks] == [[]] * len(CHECKS)
    assert [look.check for look in looks if not look.exercised] == [survives(good()).check]


LIES: list[tuple[str, Check, Evidence]] = [
    (
        "1: the answer says that nothing was sent",
        not_unsent,
        one(
            Told(ask(), own(1, said("connect_failed", effect="none", reason="x", phase="not_sent"))),
            account(1, *UNANSWERED),
        ),
    ),
    (
        "1: the record does",
        not_unsent,
        one(
            Told(ask(), own()),
            account(1, *UNANSWERED),
            record(1, said("client_gone", effect="none", phase="not_sent")),
        ),
    ),
    (
        "2: one call came twice",
        not_resent,
        one(Told(ask(), own()), [*account(1, *UNANSWERED), *account(1, "head")], record(1, IN_DOUBT)),
    ),
    ("2: a repetition came through", not_repeated, twice(own(1), answered(2), BOTH)),
    (
        "2: under a new key, where the fingerprint tells",
        not_repeated,
        twice(own(1), answered(2), BOTH, key="a", later={"key": "b"}),
    ),
    (
        "2: under a new key, though the other side honours keys",
        not_repeated,
        twice(own(1), answered(2), BOTH, route="honoured", key="a", later={"key": "b"}),
    ),
    (
        "2: under the same key, where the key tells",
        not_repeated,
        twice(own(1), answered(2), BOTH, route="keyed", key="a", size=100_000),
    ),
    (
        "2: a confirmation that was refused settles nothing",
        not_repeated,
        Evidence(
            [Told(ask(1), own(1)), Told(ask(2, confirmed=True), own(2, REFUSED)), Told(ask(3), answered(3))],
            Account([*account(1, *UNANSWERED), *account(3, *WHOLE)]),
            [life(record(1, IN_DOUBT), record(2, REFUSED), record(3))],
        ),
    ),
    (
        "3: another's answer",
        nobody_elses,
        one(Told(ask(2), replace(answered(2), fields=answered(1).fields)), account(2, *WHOLE), record(2)),
    ),
    (
        "3: another's body",
        nobody_elses,
        one(Told(ask(), answered(body="different")), account(1, *WHOLE), record()),
    ),
    (
        "3: a part that looks whole",
        nobody_elses,
        one(Told(ask(), answered(body="prefix")), account(1, "head", "answering"), record()),
    ),
    (
        "3: a stream that was closed and does not say so",
        nobody_elses,
        one(Told(ask(route="stream", method="GET"), answered(body="closed")), account(1, *WHOLE), record()),
    ),
    (
        "3: what is no HTTP",
        nobody_elses,
        one(Told(ask(), answered(end="garbage")), account(1, *WHOLE), record()),
    ),
    ("5: no record", one_record, one(Told(ask(), answered()), account(1, *WHOLE))),
    (
        "5: two records",
        one_record,
        one(Told(ask(), answered()), account(1, *WHOLE), record(), record(record="r9")),
    ),
    ("5: a record twice", one_record, one(Told(ask(), answered()), account(1, *WHOLE), record(), record())),
    (
        "5: a record of nobody's",
        one_record,
        one(Told(ask(), answered()), account(1, *WHOLE), record(), record(7)),
    ),
    (
        "5: a record of a call that left in its head",
        one_record,
        one(Told(ask(leave="head"), Heard(BEGAN, BEGAN, "part", "left")), [], record()),
    ),
    ("5: counters", counters, one(Told(ask(), answered()), account(1, *WHOLE), record(), total=2.0)),
    (
        "6: reported, and never answered",
        agrees,
        one(Told(ask(), answered()), account(1, *UNANSWERED), record()),
    ),
    (
        "6: a head received that was never sent",
        agrees,
        one(
            Told(ask(), own(1, IN_DOUBT.replace("phase=sent", "phase=head_received"))),
            account(1, *UNANSWERED),
            record(1, IN_DOUBT, 424),
        ),
    ),
    (
        "6: without effect, though it was seen",
        agrees,
        one(
            Told(
                ask(),
                own(
                    1,
                    said("deadline_exceeded", effect="none", retry="safe", reason="x", phase="not_sent"),
                    504,
                ),
            ),
            account(1, "head"),
        ),
    ),
    (
        "6: answer and record differ",
        agrees,
        one(Told(ask(), own()), account(1, *UNANSWERED), record(1, IN_DOUBT.replace("sent", "sending"), 424)),
    ),
    (
        "6: the answer names another record",
        agrees,
        one(Told(ask(), own()), account(1, *UNANSWERED), record(1, IN_DOUBT, 424, record="r8")),
    ),
    (
        "6: in doubt, with a status that clients retry",
        agrees,
        one(Told(ask(), own(1, IN_DOUBT, 504)), account(1, *UNANSWERED), record(1, IN_DOUBT, 504)),
    ),
    (
        "6: in doubt, and may be repeated",
        agrees,
        one(
            Told(ask(), own(1, IN_DOUBT.replace("verify", "safe"))),
            account(1, *UNANSWERED),
            record(1, IN_DOUBT.replace("verify", "safe"), 424),
        ),
    ),
    (
        "6: sent to where nobody listens",
        agrees,
        one(Told(ask(place="refuses"), own()), [], record(1, IN_DOUBT, 424)),
    ),
    ("7: it complained", clean, one(Told(ask(), answered()), [], complaints=("Traceback",))),
    ("7: it crashed", clean, one(Told(ask(), answered()), [], status=-6)),
    (
        "7: what it sent on is no HTTP",
        speaks_http,
        one(Told(ask(), answered()), [Seen("malformed", "", "", 0, 0, "illegal header line")]),
    ),
    ("8: nothing explained", explained, one(Told(ask(), own(next="")), account(1, *UNANSWERED))),
    ("8: two stories", explained, one(Told(ask(), own(effect="none")), account(1, *UNANSWERED))),
    ("8: no first record", explained, one(Told(ask(), own(1, REFUSED, record="")), account(1, *UNANSWERED))),
    (
        "8: bare",
        explained,
        one(Told(ask(), replace(own(), fields={"budget-outcome": IN_DOUBT})), account(1, *UNANSWERED)),
    ),
    ("9: it took too long", in_time, one(Told(ask(), answered(ended=BEGAN + 30 * SECOND)), [], record())),
    ("9: it never ended", in_time, one(Told(ask(), answered(end="hung")), [], record())),
]


@pytest.mark.parametrize(("check", "lie"), [each[1:] for each in LIES], ids=[each[0] for each in LIES])
def test_each_lie_is_found(check: Check, lie: Evidence) -> None:
    """Each check finds what it is for."""
    assert check(lie).findings


def test_what_is_shown_of_a_committed_write() -> None:
    """The control API must not say that it never happened, unless its caller has said so."""
    evidence = one(Told(ask(), own()), account(1, *UNANSWERED), record(1, IN_DOUBT, 424))
    evidence.shown.append(Unsettled("r1", "not_applied"))
    assert not_unsent(evidence).findings
    confirmed = twice(own(1), answered(2), BOTH, later={"confirmed": True})
    confirmed.shown.append(Unsettled("r1", "not_applied"))
    assert not not_unsent(confirmed).findings


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (twice(own(1), answered(2), BOTH, later={"confirmed": True}), "the caller has confirmed"),
        (
            Evidence(
                [Told(ask(1), own(1)), Told(ask(2, confirmed=True), own(2)), Told(ask(3), answered(3))],
                Account([*account(1, *UNANSWERED), *account(3, *WHOLE)]),
                [life(record(1, IN_DOUBT), record(2, NOT_STARTED), record(3))],
            ),
            "the caller has confirmed with a call in between, whatever became of that",
        ),
        (twice(own(1), answered(2), BOTH, route="unguarded"), "no guard"),
        (twice(own(1), answered(2), BOTH, route="keyed", key="a", later={"key": "b"}), "another key"),
        (twice(own(1), answered(2), BOTH, route="honoured", key="a"), "the other side honours the key"),
        (twice(own(1), answered(2), BOTH, size=100_000), "too large to be known again"),
        (
            twice(answered(1), answered(2), [*account(1, *WHOLE), *account(2, *WHOLE)]),
            "the first was answered",
        ),
        (twice(own(1), answered(2), BOTH, method="PUT"), "idempotent by its method"),
        (twice(own(1), own(2, REFUSED), account(1, *UNANSWERED)), "it was refused"),
        (twice(own(1), answered(2), account(2, *WHOLE)), "the first never arrived"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_may_be_repeated(evidence: Evidence, why: str) -> None:
    """Nothing is found where a repetition is allowed."""
    assert not not_repeated(evidence).findings, why


def test_a_write_that_was_found_absent_twice_may_be_repeated() -> None:
    """Once is not enough, nor is it when that was said too late."""
    for times, at, allowed in ((1, 0, False), (2, 0, True), (2, BEGAN + 60 * SECOND, False)):
        asked = [Seen("asked", "r1", "key", 0, at, "404")] * times
        evidence = twice(own(1), answered(2), [*BOTH, *asked], route="asked", key="a")
        assert bool(not_repeated(evidence).findings) is not allowed


def test_what_the_policy_lets_go_without_a_record_is_forgotten_with_the_sidecar() -> None:
    """Only then, and only where the policy says so."""
    for on_failure, restarted, allowed in (
        ("continue", True, True),
        ("continue", False, False),
        ("refuse", True, False),
    ):
        evidence = twice(own(1), answered(2), BOTH)
        evidence.troubles.append(Trouble(BEGAN - 1, BEGAN + 1, on_failure))
        if restarted:
            evidence.lives.append(life(number=2, started=BEGAN + SECOND // 2))
        assert bool(not_repeated(evidence).findings) is not allowed


def test_what_a_kill_leaves_on_disk() -> None:
    """A write that was in flight has to be there; one whose caller was answered need not."""
    killed = {"ended_by": "kill", "ended_at": BEGAN + SECOND // 8, "status": -9}
    cut_off = Heard(BEGAN, BEGAN + SECOND // 4, "whole", "reset")
    for heard, found, holds in (
        (cut_off, {}, False),
        (cut_off, {UNIT: "not_applied"}, False),
        (cut_off, {UNIT: "uncertain"}, True),
        (answered(), {}, True),
    ):
        evidence = one(Told(ask(), heard), account(1, *UNANSWERED), **killed)
        evidence.recovered[1] = found
        assert bool(survives(evidence).findings) is not holds


def test_what_was_on_disk_is_known_to_the_next_sidecar() -> None:
    """Whatever has become of it by then; but not nothing."""
    for state, holds in (("uncertain", True), ("applied", True), ("unknown", False)):
        evidence = good()
        evidence.remembered.append(Unsettled("r1", state))
        assert bool(survives(evidence).findings) is not holds


def test_what_died_with_a_kill_need_not_have_a_record() -> None:
    """Of calls that ended well before it, the record must be there all the same."""
    for ended_at, holds in ((BEGAN + SECOND // 2, True), (BEGAN + 60 * SECOND, False)):
        evidence = one(
            Told(ask(), answered()), account(1, *WHOLE), ended_by="kill", ended_at=ended_at, status=-9
        )
        assert bool(one_record(evidence).findings) is not holds


def test_what_a_client_left_behind_has_a_record_too() -> None:
    """Where the whole head was sent, and ended in peace; unless the sidecar ended soon after, and may not have read it."""
    left = Heard(BEGAN, BEGAN + SECOND, "whole", "left")
    for rudely, ended_at, holds in (
        (False, BEGAN + 60 * SECOND, False),
        (True, BEGAN + 60 * SECOND, True),
        (False, BEGAN + 5 * SECOND, True),
    ):
        evidence = one(Told(ask(leave="sent", rudely=rudely), left), [], ended_at=ended_at)
        assert bool(one_record(evidence).findings) is not holds


def test_what_is_left_at_rest() -> None:
    """A socket is enough; and so is a policy that is another one after a faulty one was offered."""
    evidence = good()
    evidence.rests.append(Rest({"open connections": 1}, 20))
    evidence.refused_policies.append(False)
    assert nothing_left(evidence).findings
    assert policy_stays(evidence).findings


def test_an_answer_that_was_joined() -> None:
    """It is that of an equal call under the same key, and must say so."""
    joined = said("completed", effect="reported", reason="joined", phase="complete")
    fields = {**answered(1).fields, "budget-outcome": joined, "budget-record": "r2"}
    for given, holds in (
        (fields, True),
        ({**fields, "budget-outcome": DONE}, False),
        ({**fields, "x-token": "1-0-0-9.1.1"}, False),
    ):
        told = Told(ask(2, key="a"), answered(2, fields=given))
        evidence = Evidence([Told(ask(1, key="a"), answered(1)), told], Account(account(1, *WHOLE)))
        assert bool(nobody_elses(evidence).findings) is not holds


def test_what_was_given_up_between_two_attempts_has_the_status_of_what_was_sent() -> None:
    """424 is for a call that was refused; one of which something was sent has failed by itself, whatever keeps it from going on."""
    failed = said(
        "upstream_failed", effect="uncertain", retry="never", reason="dead_lettered", phase="sending"
    )
    for method, status in (("PUT", 502), ("POST", 424)):
        call = Told(ask(method=method), own(1, failed, status))
        assert not agrees(one(call, account(1, "touched"), record(1, failed, status))).findings
    refused = REFUSED.replace("unresolved_write", "dead_lettered")
    repeated = one(Told(ask(), own(1, refused, 502)), [], record(1, refused, 502))
    assert agrees(repeated).findings
