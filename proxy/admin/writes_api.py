"""The writes that somebody has to look after: those of unknown effect, and the units that were given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web

from proxy.admin.answers import json_answer
from proxy.admin.asked import Asked, verdict_of
from proxy.admin.control import Control
from proxy.admin.endpoints import DEAD_LETTERS, MOST_LISTED
from proxy.admin.problems import Problem
from proxy.admin.views import write_view
from proxy.core.writes import WriteRecord, WriteState, WrongTransition
from proxy.store.errors import JournalError

_RESOLVED: Final = {True: WriteState.APPLIED, False: WriteState.NOT_APPLIED}


class Writes:
    """The endpoints of writes. Of two people who decide at once, the second is told of the first."""

    def __init__(self, control: Control, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` is Unix time in milliseconds."""
        self._control = control
        self._wall_ms = wall_ms
        self._deciding = asyncio.Lock()

    # -- of unknown effect -----------------------------------------------------------------------------------------

    async def all(self, _: web.Request, asked: Asked) -> web.Response:
        """List records, without the bodies of late answers, which can be large together."""
        records = self._control.writes.listed()
        pending = sum(record.state is WriteState.UNCERTAIN for record in records)
        chosen = _in_state(records, asked["state"])
        return await json_answer({"uncertain": pending, "total": len(chosen), "writes": self._shown(chosen)})

    async def one(self, request: web.Request, _: Asked) -> web.Response:
        """Show one record."""
        return await json_answer(write_view(self._found(request), self._wall_ms()))

    async def resolve(self, request: web.Request, _: Asked) -> web.Response:
        """Take a verdict. The same verdict again changes nothing and is no error, so that it can be repeated."""
        applied = await verdict_of(request)
        return await self._decide(
            self._found, request, _RESOLVED[applied], lambda id: self._control.resolve(id, applied)
        )

    # -- given up --------------------------------------------------------------------------------------------------

    async def dead_letters(self, _: web.Request, asked: Asked) -> web.Response:
        """List dead letters and what became of them."""
        records = [record for record in self._control.writes.listed() if record.state in DEAD_LETTERS]
        waiting = sum(record.state is WriteState.DEAD_LETTERED for record in records)
        chosen = _in_state(records, asked["state"])
        return await json_answer(
            {"waiting": waiting, "total": len(chosen), "dead_letters": self._shown(chosen)}
        )

    async def dead_letter(self, request: web.Request, _: Asked) -> web.Response:
        """Show one dead letter."""
        return await json_answer(write_view(self._found_dead(request), self._wall_ms()))

    async def release(self, request: web.Request, _: Asked) -> web.Response:
        """Let a unit be attempted again."""
        return await self._decide(self._found_dead, request, WriteState.RELEASED, self._control.release)

    async def discard(self, request: web.Request, _: Asked) -> web.Response:
        """Have a unit never sent again."""
        return await self._decide(self._found_dead, request, WriteState.DISCARDED, self._control.discard)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _decide(
        self,
        find: Callable[[web.Request], WriteRecord],
        request: web.Request,
        wanted: WriteState,
        decide: Callable[[str], Awaitable[WriteRecord]],
    ) -> web.Response:
        async with self._deciding:
            record = find(request)
            if record.state is not wanted:
                record = await _told(record.id, decide)
        return await json_answer(write_view(record, self._wall_ms()))

    def _shown(self, records: list[WriteRecord]) -> list[dict[str, object]]:
        now = self._wall_ms()
        return [write_view(record, now, body=False) for record in records[:MOST_LISTED]]

    def _found(self, request: web.Request) -> WriteRecord:
        id = request.match_info["id"]
        record = self._control.writes.get(id)
        if record is None:
            raise _unknown(id)
        return record

    def _found_dead(self, request: web.Request) -> WriteRecord:
        record = self._found(request)
        if record.state not in DEAD_LETTERS:
            detail = f"The write {record.id} is no dead letter: it is {record.state}."
            raise Problem(HTTPStatus.NOT_FOUND, detail, f"GET /uncertain/{record.id} shows it.")
        return record


async def _told(id: str, decide: Callable[[str], Awaitable[WriteRecord]]) -> WriteRecord:
    """Return what a decision makes of a record, or raise the problem with it."""
    try:
        return await decide(id)
    except KeyError:
        raise _unknown(id) from None
    except WrongTransition as wrong:
        raise _settled(id, wrong.state) from None
    except JournalError as error:
        detail = f"The decision could not be kept: {error.problem}."
        remedy = f"{error.remedy}; then send it again."
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, remedy) from None


def _in_state(records: list[WriteRecord], state: str | None) -> list[WriteRecord]:
    return records if state is None else [record for record in records if record.state == state]


def _unknown(id: str) -> Problem:
    detail = f"There is no record {id!r}. A write that was answered leaves none, and others go after journal.retention."
    return Problem(
        HTTPStatus.NOT_FOUND,
        detail,
        "GET /uncertain (waterclock uncertain list --all) lists the records there are.",
    )


def _settled(id: str, state: WriteState) -> Problem:
    if state is WriteState.INTENT:
        detail = f"The write {id} is still under way."
        return Problem(HTTPStatus.CONFLICT, detail, "Wait for its answer or its cut, then look at it again.")
    detail = f"The write {id} is settled already, as {state}."
    return Problem(HTTPStatus.CONFLICT, detail, f"GET /uncertain/{id} shows what is known of it.")
