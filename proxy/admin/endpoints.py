"""The endpoints of the control API, as one table: what each is for, what it takes, and what it answers.

`api` serves the table, `GET /` lists it, and `openapi` makes the contract from it, so none of them can say another
thing than the others. Names of schemas are those of `schemas`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, NamedTuple

from proxy.core.writes import WriteState

MOST_LISTED: Final = 500
"""How many entries a list shows at most."""
LISTED: Final = 100
"""How many budgets are listed unless `limit` says otherwise."""
LATELY_S: Final = 300
"""How long after its end a budget is listed without being asked for."""

BUDGET_STATES: Final = ("open", "closed", "expired", "all")
DEAD_LETTERS: Final = (WriteState.DEAD_LETTERED, WriteState.RELEASED, WriteState.DISCARDED)
UNCERTAIN_STATES: Final = tuple(WriteState)


class Query(NamedTuple):
    """A parameter of the query. Without it, what `says` says holds."""

    name: str
    schema: dict[str, Any]
    says: str


class Endpoint(NamedTuple):
    """A row of the table. `name` tells it from the others; `errors` are its own, besides those that any of them has."""

    name: str
    method: str
    path: str
    says: str
    answers: str
    query: tuple[Query, ...] = ()
    takes: str | None = None
    errors: tuple[HTTPStatus, ...] = ()


def _one_of(words: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": [str(word) for word in words]}


_UNKNOWN: Final = (HTTPStatus.NOT_FOUND,)
_DECISION: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE)
_VERDICT: Final = (
    *_DECISION,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
)

TABLE: Final = (
    Endpoint("index", "GET", "/", "this list", "Index"),
    Endpoint(
        "listBudgets",
        "GET",
        "/budgets",
        "the budgets of jobs, open ones first, the newest first; ?state= for others, ?limit= for more",
        "Budgets",
        (
            Query(
                "state",
                _one_of(BUDGET_STATES),
                f"Only budgets in this state, or `all`. Without it: those that are open or ended within {LATELY_S} s, and "
                "none of a single call that nobody named.",
            ),
            Query(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": LISTED},
                "How many to list at most.",
            ),
        ),
    ),
    Endpoint(
        "getBudget",
        "GET",
        "/budgets/{id}",
        "the record of one job: its steps, its writes, and the two verdicts",
        "BudgetRecord",
        errors=_UNKNOWN,
    ),
    Endpoint(
        "getTimeline",
        "GET",
        "/budgets/{id}/timeline",
        "what admission did for its steps, in order, in milliseconds since its opening",
        "Timeline",
        errors=_UNKNOWN,
    ),
    Endpoint(
        "closeBudget",
        "POST",
        "/budgets/{id}/close",
        "say that its job is done; a second time changes nothing",
        "BudgetRecord",
        errors=_UNKNOWN,
    ),
    Endpoint(
        "listUncertain",
        "GET",
        "/uncertain",
        "writes of unknown effect, the oldest first; ?state= for one state",
        "Writes",
        (Query("state", _one_of(UNCERTAIN_STATES), "Only writes in this state. Without it: every one."),),
    ),
    Endpoint(
        "getUncertain",
        "GET",
        "/uncertain/{id}",
        "one of them, with its late answer",
        "Write",
        errors=_UNKNOWN,
    ),
    Endpoint(
        "resolveUncertain",
        "POST",
        "/uncertain/{id}/resolve",
        'take what was found: {"applied": true | false}',
        "Write",
        takes="Verdict",
        errors=_VERDICT,
    ),
    Endpoint(
        "listDeadLetters",
        "GET",
        "/dead-letters",
        "units that are attempted no more until someone decides, the oldest first; ?state= for one state",
        "DeadLetters",
        (Query("state", _one_of(DEAD_LETTERS), "Only those in this state. Without it: every one."),),
    ),
    Endpoint(
        "getDeadLetter",
        "GET",
        "/dead-letters/{id}",
        "one of them, with its late answer",
        "Write",
        errors=_UNKNOWN,
    ),
    Endpoint(
        "releaseDeadLetter",
        "POST",
        "/dead-letters/{id}/release",
        "let it be attempted again",
        "Write",
        errors=_DECISION,
    ),
    Endpoint(
        "discardDeadLetter",
        "POST",
        "/dead-letters/{id}/discard",
        "have it never sent again",
        "Write",
        errors=_DECISION,
    ),
    Endpoint("getConfig", "GET", "/config", "the policy in force, secrets hidden", "Config"),
    Endpoint("getOpenapi", "GET", "/openapi.json", "this API as an OpenAPI document", "Openapi"),
)
