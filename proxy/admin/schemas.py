"""The schemas of what the views show (JSON Schema 2020-12, as OpenAPI 3.1 has it). Each member has a sentence.

Everything that is named here is always there; what may be unknown is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from proxy.admin.endpoints import DEAD_LETTERS
from proxy.core.calls import Effect, Kind, Outcome, Phase, Retry, Would
from proxy.core.degrading import Why
from proxy.core.history import Happening
from proxy.core.policy import Mode
from proxy.core.writes import WriteState
from proxy.degrade.cache.found import How

Schema = dict[str, Any]


def text(says: str) -> Schema:
    """Return the schema of a text."""
    return {"type": "string", "description": says}


def moment(says: str) -> Schema:
    """Return the schema of a time of day."""
    return {"type": "string", "format": "date-time", "description": says}


def span(says: str) -> Schema:
    """Return the schema of a span that was measured or reckoned, in milliseconds."""
    return {"type": "number", "description": says}


def count(says: str) -> Schema:
    """Return the schema of a count, or of a span that is rounded down."""
    return {"type": "integer", "minimum": 0, "description": says}


def at_least_one(says: str) -> Schema:
    """Return the schema of a count that is never nothing."""
    return count(says) | {"minimum": 1}


def truth(says: str) -> Schema:
    """Return the schema of a truth value."""
    return {"type": "boolean", "description": says}


def word(words: Iterable[str], says: str) -> Schema:
    """Return the schema of one of some words."""
    return {"type": "string", "enum": [str(each) for each in words], "description": says}


def perhaps(schema: Schema) -> Schema:
    """Return the schema of the same, or null."""
    nullable = schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable


def items(of: Schema, says: str) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of, "description": says}


def members(says: str, /, **properties: Schema) -> Schema:
    """Return the schema of an object that has all of these."""
    return {
        "type": "object",
        "description": says,
        "properties": properties,
        "required": list(properties),
    }


def ref(name: str) -> Schema:
    """Return a reference to a schema of this API."""
    return {"$ref": f"#/components/schemas/{name}"}


_SUMMARY: Final[dict[str, Schema]] = {
    "id": text("The budget's id."),
    "state": word(
        ("open", "closed", "expired"),
        "Closed: somebody has said that its job is done. Expired: nobody did in time.",
    ),
    "opened_at": moment("When it was opened."),
    "total_ms": span("The whole time that it was opened with."),
    "reserve_ms": span("The end of it that is kept for cleanup."),
    "spent_ms": span("The time from its opening until now or, when it has ended, until then."),
    "remaining_ms": count("What is left for ordinary calls, without the reserve."),
    "entries": count("Its entry requests that are open."),
    "in_flight": count("Its calls that are under way."),
    "counts": ref("Counts"),
    "complete": perhaps(truth("Whether all its work is done; null while it is open.")),
    "on_time": perhaps(truth("Whether it was closed by its end; null when nobody has said that it is done.")),
    "extensions_ignored": count("How often a call tried to lengthen it."),
    "attempts": count("The attempts that its ended steps have made."),
    "units": count("The units of work that they were made at."),
    "amplification": perhaps(span("Attempts per unit; null without any.")),
    "one_call": truth("It is that of a single call, which nobody named."),
}

_STEP: Final = members(
    "One call made under a budget.",
    record=text("The id of this record."),
    budget_id=perhaps(text("The budget that it was made under.")),
    step=count("Its number among the steps of its budget, from 1."),
    stage=perhaps(text("The stage that it belongs to.")),
    route=text("The route of the policy that it matched."),
    method=text("Its method."),
    target=text("Where it went, with the values of its query hidden."),
    kind=word(Kind, "What repeating it would do to the other side."),
    unit=perhaps(text("The piece of work that a retry of it would repeat.")),
    attempt=count("The number of the last attempt at its unit, whoever made the earlier ones."),
    depth=count("How many delegations deep it was."),
    started_ms=span("When it arrived, since the opening of its budget."),
    remaining_ms=perhaps(span("What was left of its budget then.")),
    allowed_ms=perhaps(span("The time that it was allowed; null without limit.")),
    waited_ms=span("From its arrival until its first byte could be sent on."),
    elapsed_ms=span("From its arrival to its end."),
    late_ms=perhaps(span("How late it was cut.")),
    outcome=word(Outcome, "How it ended."),
    effect=word(Effect, "What is known of its effect on the other side."),
    phase=word(Phase, "How far it got."),
    reason=perhaps(text("Why it ended so: the limit that cut it, or what went wrong.")),
    retry=perhaps(word(Retry, "What its caller was told that it may do.")),
    would=perhaps(word(Would, "What `mode: observe` did not do to it.")),
    status=perhaps(count("The status that its caller was answered with.")),
    bytes=count("The response body that its caller got."),
    degraded=perhaps(
        members(
            "By how much its answer was less than it asked for, and why; null when it was not.",
            level=at_least_one("How many rungs of its route's ladder lie above the one that answered."),
            rung=text("The rung that answered."),
            reason=word(Why, "What spoke against the better ones, or what else made it less."),
            stage=perhaps(text("The stage that it belongs to.")),
        )
    ),
    queued_ms=span("The part of waited_ms that was spent waiting for a slot."),
    overhead_ms=perhaps(span("What the sidecar itself took before the first byte left.")),
    tries=count("How many attempts it made; none if it was never started."),
    fresh=count("1 when it was the first to attempt its unit."),
    partial=truth("It was a delegated job, whose own result is incomplete."),
    rung=perhaps(
        text("The rung of its route's ladder that answered, the first one too; null without a ladder.")
    ),
    cache=perhaps(
        word(
            (*How, "miss"),
            "Where in the cache its answer came from, or that there was none; null when the cache was not asked.",
        )
    ),
    carried_ms=perhaps(
        span("The part of allowed_ms that earlier stages had left unused; null where that was nothing.")
    ),
)

_ANSWER: Final[Schema] = {
    "type": ["object", "null"],
    "description": "What the other side said after the caller had been cut off.",
    "properties": {
        "status": count("Its status."),
        "headers": items(
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}, "Names and values."
        ),
        "bytes": count("The size of its body."),
        "truncated": truth("Less of the body was kept than came."),
        "elapsed_ms": span("When it came, after the write was sent."),
        "body": text("Its body. Lists leave it out."),
        "body_encoding": word(("utf-8", "base64"), "How the body is written here."),
    },
    "required": ["status", "headers", "bytes", "truncated", "elapsed_ms"],
}

SCHEMAS: Final[dict[str, Schema]] = {
    "Index": members(
        "What there is.",
        endpoints=items(
            members(
                "An endpoint.",
                method=text("Its method."),
                path=text("Its path."),
                says=text("What it is for."),
            ),
            "All endpoints.",
        ),
    ),
    "Budgets": members(
        "A list of budgets.",
        open=count("How many of all budgets are open."),
        known=count("How many budgets are known in all."),
        total=count("How many were asked for; not all of them are listed when they are more than the limit."),
        budgets=items(ref("Budget"), "The open ones, then the others; of both the newest first."),
    ),
    "Budget": members("A budget: the promise made for one whole job.", **_SUMMARY),
    "Counts": members(
        "How many steps a job has made, and what became of them.",
        total=count("All of them."),
        completed=count("The whole response was relayed."),
        deadline_exceeded=count("Cut at their allowance."),
        refused=count("The budget said no; nothing was sent."),
        shed=count("Admission said not now; nothing was sent."),
        connect_failed=count("Lookup, connect or TLS failed; nothing was sent."),
        upstream_failed=count("The other side broke off after sending."),
        client_gone=count("The caller left first."),
        uncertain=count("Of these, the writes whose effect is still unknown."),
        in_flight=count("Not ended yet."),
        degraded=count("Of these, the ones that were answered with less than they asked for."),
    ),
    "BudgetRecord": members(
        "All that is known of a job.",
        **_SUMMARY,
        deadline=moment("When its time is over, the reserve included."),
        deadline_ms=span("The same since its opening: less than total_ms when it was shortened."),
        cleanup_remaining_ms=count("What is left for cleanup calls, which may use the reserve."),
        closed_at=perhaps(moment("When somebody said that the job is done.")),
        closed_by=perhaps(
            text(
                "Who did: `entry` (its last entry request ended), `request` (this API) or `call` (its only call ended)."
            )
        ),
        depth=count("How many delegations deep the job is."),
        verdict=text("Both verdicts, as `Budget-Verdict` says them."),
        verdicts=members(
            "Both verdicts, in a sentence each.",
            complete=text("Whether all the work has been done."),
            on_time=text("Whether it was closed in time."),
        ),
        stages=items(
            members(
                "A stage, and its share.",
                stage=text("Its name."),
                share_ms=span("What its steps may use together."),
                used_ms=span("What they have used."),
                carried_in_ms=span(
                    "What has come to it beside its share, used by now or left: earlier stages had no use for it."
                ),
                left_ms=count("What one of its steps might use that began now, as long as the budget lasts."),
            ),
            "The stages that the policy gives shares to, in its order.",
        ),
        steps=items(ref("Step"), "The steps that have ended, in the order of their ends."),
        steps_dropped=count("Further steps, of which only the counts are kept."),
        writes=items(ref("Write"), "Its writes that are or were of unknown effect, the oldest first."),
        writes_dropped=count("Further ones, which are not listed."),
    ),
    "Step": _STEP,
    "Timeline": members(
        "What admission did for the steps of a job.",
        id=text("The budget's id."),
        state=_SUMMARY["state"],
        opened_at=_SUMMARY["opened_at"],
        total_ms=_SUMMARY["total_ms"],
        reserve_ms=_SUMMARY["reserve_ms"],
        deadline_ms=span("When its time is over, since its opening."),
        now_ms=span("The moment of this answer, since its opening."),
        events=items(
            members(
                "An event.",
                at_ms=span("When, since the opening."),
                event=word(Happening, "What happened to the step."),
                step=count("Its number."),
                record=text("Its record."),
                slot=perhaps(count("The worker slot that it was granted.")),
                detail=text("What else there is to say."),
            ),
            "In order.",
        ),
        events_dropped=count("Further events, which are not kept."),
    ),
    "Write": members(
        "A write whose effect is or was unknown, or a unit that was given up.",
        id=text("The id of this record."),
        state=word(WriteState, "Where it stands."),
        opened_at=moment("When it was sent."),
        age_ms=count("How long ago that is."),
        method=text("Its method."),
        target=text("Where it went, with the values of its query hidden."),
        origin=text("The other side."),
        route=text("The route of the policy that it matched."),
        budget_id=text("The budget that it was made under; empty without one."),
        step=count("The number of its step."),
        unit=text("The piece of work that a retry would repeat."),
        idempotency_key=perhaps(text("The key that it carried.")),
        fingerprint=text("The fingerprint of method, target and body."),
        attempts=count("How often its unit has been attempted."),
        phase=word(Phase, "How far it got."),
        reason=text("Why it ended so."),
        resolved_by=text("Who has settled it; empty while nobody has."),
        settled_at=perhaps(moment("When that was.")),
        answer=_ANSWER,
        next=text("What is to be done."),
    ),
    "Writes": members(
        "A list of writes.",
        uncertain=count("How many are of unknown effect now."),
        total=count("How many were asked for; the first 500 of them are listed."),
        writes=items(ref("Write"), "The oldest first, without the bodies of late answers."),
    ),
    "DeadLetters": members(
        "A list of dead letters.",
        waiting=count("How many wait for a decision now."),
        total=count("How many were asked for; the first 500 of them are listed."),
        dead_letters=items(
            ref("Write"),
            f"The oldest first, each {', '.join(DEAD_LETTERS)}; without the bodies of late answers.",
        ),
    ),
    "Verdict": members("What was found on the other side.", applied=truth("Whether the write has happened."))
    | {"additionalProperties": False},
    "Config": members(
        "The policy in force, by the names of its values inside the sidecar; spans and sizes as the file writes them. "
        "docs/policy.md tells what they mean.",
        mode=word(Mode, "Whether decisions are applied, or only made and recorded."),
        **{
            name: {"type": "object", "description": f"As `{name}` in the file."}
            for name in (
                "listen",
                "budget",
                "ledger",
                "fallback",
                "tunnel",
                "egress",
                "writes",
                "journal",
                "connections",
                "cache",
            )
        },
        limit=perhaps(count("Calls in flight at once in the whole pod.")),
        routes=items({"type": "object"}, "The routes, in order."),
        subscription_idle=text("`subscription.idle` in the file."),
        statuses={
            "type": "object",
            "description": "The status of each case of an answer of the sidecar's own.",
        },
        grace=text("`shutdown.grace` in the file."),
        pods_may_observe=truth("`pods.observe` in the file."),
    ),
    "Openapi": {"type": "object", "description": "This document."},
    "Problem": members(
        "An error (RFC 9457).",
        type=text("A name for this kind of problem."),
        title=text("The same for people."),
        status={
            "type": "integer",
            "minimum": 400,
            "maximum": 599,
            "description": "The status of the answer.",
        },
        detail=text("What is wrong with this request."),
        remedy=text("What helps."),
    ),
}
