"""The budgets of jobs: what they are doing, what they have done, and the end of one."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web

from proxy.admin.answers import json_answer
from proxy.admin.asked import Asked
from proxy.admin.budget_views import (
    Moment,
    State,
    budget_view,
    finished_at,
    record_view,
    state_of,
    timeline_view,
)
from proxy.admin.control import Control
from proxy.admin.endpoints import LATELY_S
from proxy.admin.problems import Problem
from proxy.core.budget import Budget
from proxy.core.units import MILLISECOND, SECOND

_LATELY: Final = LATELY_S * SECOND
_SAME_MS: Final = 100
"""By so much the clocks may seem to drift apart, for they are not read in one moment; beyond it, one was set."""


class Budgets:
    """The endpoints of budgets."""

    def __init__(self, control: Control, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` is Unix time in milliseconds."""
        self._control = control
        self._wall_ms = wall_ms
        self._offset_ms: int | None = None  # of the two clocks

    async def all(self, _: web.Request, asked: Asked) -> web.Response:
        """List budgets, without the details of their jobs."""
        moment = self._moment()
        newest_first = sorted(self._control.ledger.listed(), key=lambda budget: budget.opened, reverse=True)
        open_ones: list[Budget] = []
        others: list[Budget] = []
        number_open = 0
        for budget in newest_first:
            state = state_of(budget, moment.now)
            number_open += state is State.OPEN
            if _wanted(budget, state, asked["state"], moment.now):
                (open_ones if state is State.OPEN else others).append(budget)
        chosen = open_ones + others
        return await json_answer(
            {
                "open": number_open,
                "known": len(newest_first),
                "total": len(chosen),
                "budgets": [budget_view(budget, moment) for budget in chosen[: asked["limit"]]],
            }
        )

    async def one(self, request: web.Request, _: Asked) -> web.Response:
        """Show the record of one job."""
        return await self._record(self._found(request))

    async def timeline(self, request: web.Request, _: Asked) -> web.Response:
        """Show what admission did for one job."""
        return await json_answer(timeline_view(self._found(request), self._moment()))

    async def close(self, request: web.Request, _: Asked) -> web.Response:
        """Take note that a job is done."""
        id = request.match_info["id"]
        try:
            budget = self._control.close_budget(id)
        except KeyError:
            raise _unknown(id) from None
        return await self._record(budget)

    async def _record(self, budget: Budget) -> web.Response:
        writes = (each for each in self._control.writes.listed() if each.budget_id == budget.id)
        return await json_answer(record_view(budget, writes, self._moment()))

    def _found(self, request: web.Request) -> Budget:
        id = request.match_info["id"]
        budget = self._control.ledger.get(id)
        if budget is None:
            raise _unknown(id)
        return budget

    def _moment(self) -> Moment:
        """Return the present. One budget was opened at one time of day, however often it is looked at."""
        now = self._control.clock()
        offset = self._wall_ms() - now // MILLISECOND
        if self._offset_ms is None or abs(offset - self._offset_ms) > _SAME_MS:
            self._offset_ms = offset
        return Moment(now, self._offset_ms + now // MILLISECOND)


def _wanted(budget: Budget, state: State, asked: str | None, now: int) -> bool:
    """Say whether a budget is asked for: by its state or, when none is named, as one that somebody may be looking for."""
    if asked is not None:
        return asked in ("all", state)
    return not budget.lone and (state is State.OPEN or now - finished_at(budget) <= _LATELY)


def _unknown(id: str) -> Problem:
    detail = (
        f"There is no budget {id!r}. No call of it has come through this sidecar since it was started, or it has been "
        "forgotten: that is after ledger.retention, or earlier to make room for others."
    )
    remedy = "GET /budgets?state=all (waterclock budgets --all) lists the budgets that are known. Of one that is forgotten, the sidecar's log has the steps."
    return Problem(HTTPStatus.NOT_FOUND, detail, remedy)
