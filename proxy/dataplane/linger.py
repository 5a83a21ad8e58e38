"""Listening on after a write was cut: a late answer turns `uncertain` into `reported`.

The caller has been told that the effect is unknown. If the other side still answers while the sidecar lingers, that
answer is kept with the record, where `waterclock uncertain show` finds it, and the guard no longer holds the unit.
"""

from __future__ import annotations

import asyncio
from typing import Final

from proxy.core.policy import MEBIBYTE
from proxy.core.units import SECOND, exact_ms
from proxy.dataplane.claims import Answer, Claim
from proxy.dataplane.intent import Intent
from proxy.dataplane.plane import Plane
from proxy.dataplane.response import ResponseSide
from proxy.net.connection import UpstreamConnection
from proxy.wire.events import END, Event, ResponseHead, Trailers, WireFault

MOST_BYTES: Final = MEBIBYTE
"""How much of a late answer is read. A longer one leaves its write uncertain: nobody waits for all that."""


def has_room(plane: Plane) -> bool:
    """Say whether one more can be listened for; if not, its write stays uncertain until somebody finds out."""
    return len(plane.lingering) < plane.most_lingering


class Linger:
    """The sink of a cut write's connection, until the late answer, its failure, or the end of patience."""

    __slots__ = ("_arrival", "_claim", "_connection", "_intent", "_plane", "_response", "_timer")

    def __init__(
        self,
        plane: Plane,
        intent: Intent,
        connection: UpstreamConnection,
        response: ResponseSide,
        arrival: int,
        claim: Claim | None = None,
    ) -> None:
        """Take the connection over.

        `response`: what has arrived of the answer so far. `claim`: other calls wait for it, and get it as well.
        """
        self._claim = claim
        self._plane = plane
        self._intent = intent
        self._connection = connection
        self._response = response
        self._arrival = arrival
        plane.lingering.add(self)
        self._timer: asyncio.TimerHandle = plane.loop.call_later(
            plane.policy.writes.linger / SECOND, self._stop
        )
        connection.hand_over(self)
        connection.resume_reading()

    @property
    def record_id(self) -> str:
        """The id of the write's record."""
        return self._intent.record.id

    def on_response(self, events: list[Event]) -> None:
        """Take more of the answer. The connection is not used again: its exchange has not ended cleanly."""
        for event in events:
            if type(event) is bytes:
                self._response.body(event)
                self._response.trim()
                if self._response.size > MOST_BYTES:
                    self._stop()
                    return
            elif type(event) is ResponseHead:
                if not event.interim:
                    self._response.begin(event, held=True, delegated=self._connection.inside)
            elif type(event) is Trailers:
                self._response.end_with(event.fields)
            elif event is END:
                answer = self._response.as_answer(exact_ms(self._plane.clock() - self._arrival))
                if answer is not None:
                    self._intent.answered_late(answer, partial=self._response.says_incomplete)
                self._stop(self._response.shared())
                return
            elif type(event) is WireFault:
                self._stop()
                return

    def on_congestion(self, congested: bool) -> None:
        """Nothing more is sent."""

    def _stop(self, answer: Answer | None = None) -> None:
        self._timer.cancel()
        self._connection.abort()
        self._plane.lingering.discard(self)
        claim, self._claim = self._claim, None
        if claim is not None:
            self._plane.claims.end(claim, answer)
        self._plane.ended()
