"""Bytes both ways, between a client and an upstream that speak what nobody here can read.

Tunnels, redirected connections that are not HTTP/1.1, and upgraded ones end here. What is timed is each burst (see
`core.opaque`); a stated budget ends the connection at its own end; silence ends it after a while.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from proxy.core.budget import Limit
from proxy.core.calls import Kind, Outcome, Phase, Would
from proxy.core.opaque import Bursts
from proxy.core.policy import OnMissing
from proxy.core.reasons import Reason
from proxy.dataplane.step import Step
from proxy.net.alarm import Alarm
from proxy.net.connection import UpstreamConnection
from proxy.net.reset import end_with_reset
from proxy.wire.events import END, Event, WireFault

_FAR: Final = 1 << 62


TLS_RECORD: Final = b"\x16"  # the content type of a handshake, with which a client begins (RFC 8446 §5.1)
TLS_PREAMBLE: Final = 640
"""Bytes that a TLS server sends after a client's first request without answering it: mostly two session tickets of some
255 bytes each, and HTTP/2's settings."""


class RelayLimits(NamedTuple):
    """What ends a relay. Nanoseconds; None: nothing of the kind.

    `end`: the time at which a stated budget ends it. `burst`: how long one burst may take. `idle`: how long silence
    may last. `quiet`: the silence after an answer that ends a burst. The bounds are the limits behind `end` and `burst`.
    """

    end: int | None
    burst: int | None
    idle: int
    quiet: int
    end_bound: Limit = Limit.BUDGET
    burst_bound: Limit = Limit.BUDGET


def limits_of(step: Step) -> RelayLimits:
    """Return what holds for the connection that a step has become."""
    policy, case = step.policy, step.case
    idle, quiet, cap = policy.tunnel.idle, policy.tunnel.quiet, case.route.cap
    if case.subscription:
        return RelayLimits(None, None, policy.subscription_idle, quiet)
    budget = case.budget
    if case.limits.stated and budget is not None:
        end, bound = budget.end(case.limits.phase), Limit.BUDGET
        if step.head.method != "CONNECT" and step.due is not None and step.due <= end:
            # An upgrade is one step, held to its allowance; a tunnel carries many.
            end, bound = step.due, case.decision.allowance.bound
        return RelayLimits(end, cap, idle, quiet, bound, Limit.ROUTE_CAP)
    whole = policy.budget.default - policy.budget.reserve
    if policy.budget.on_missing is OnMissing.DEFAULT and (cap is None or whole <= cap):
        return RelayLimits(None, whole, idle, quiet)
    return RelayLimits(None, cap, idle, quiet, burst_bound=Limit.ROUTE_CAP)


class Relay(asyncio.Protocol):
    """The client's protocol and the upstream's sink at once. The step's record is left when the relay ends."""

    def __init__(self, step: Step, client: asyncio.Transport, upstream: UpstreamConnection) -> None:
        """Take both sides; `start` begins."""
        self._step = step
        self._client = client
        self._upstream = upstream
        self._limits = limits_of(step)
        self._bursts = Bursts(self._limits.quiet)
        self._alarm = Alarm(step.plane.alarms, self._on_alarm)
        self._last = step.plane.clock()
        self._client_ended = False
        self._upstream_ended = False
        self._client_gone = False
        self._upstream_gone = False

    def start(self, from_client: bytes, to_client: bytes) -> None:
        """Begin, with what has already been read of the client, and what it is told first."""
        plane = self._step.plane
        plane.relays.add(self)
        self._upstream.hand_over(self)
        self._client.set_protocol(self)
        if to_client:
            self._client.write(to_client)
        if from_client:
            self.data_received(from_client)
        self._upstream.upgrade()
        self._set_alarm()
        if not self._client.is_reading() and not self._client.is_closing():
            self._client.resume_reading()
        if self._client.is_closing():
            self._close(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT)

    # -- the client ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Pass the client's bytes on."""
        self._client_spoke(data)
        self._pass_on(data)

    def _client_spoke(self, data: bytes) -> None:
        self._last = self._step.plane.clock()
        if not self._bursts.count and data[:1] == TLS_RECORD:
            self._bursts.preamble = TLS_PREAMBLE
        if self._bursts.client_spoke(self._last):
            self._set_alarm()

    def _pass_on(self, data: bytes) -> None:
        self._upstream.write(data)
        if self._upstream.congested and self._client.is_reading():
            self._client.pause_reading()

    def eof_received(self) -> bool:
        """Pass the client's end on; its answers may still be coming, but not over TLS, where one end is the whole end."""
        if self._client_ended:
            return True
        self._client_ended = True
        self._upstream.write_eof()
        if self._upstream_ended:
            self._close(Outcome.COMPLETED, None)
        elif self._step.case.target.origin.scheme == "https":
            self._client_left(clean=True)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._client_gone = True
        self._client_left(clean=False)
        self._let_go()

    def _client_left(self, *, clean: bool) -> None:
        """End as the client did: that is a clean end of its own, unless a burst was under way."""
        in_use = self._bursts.active(self._step.plane.clock())
        if in_use and not self._upstream_ended:
            self._close(Outcome.CLIENT_GONE, Reason.CLIENT_LEFT, clean=clean)
        else:
            self._close(Outcome.COMPLETED, None)

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._upstream.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._upstream.resume_reading()

    # -- the upstream ----------------------------------------------------------------------------------------------

    def on_response(self, events: list[Event]) -> None:
        """Pass the upstream's bytes back; `END` is the end of its side, anything else that it is gone."""
        if self._step.ended:
            self._upstream_gone = type(events[-1]) is WireFault
            self._let_go()
            return
        for event in events:
            if type(event) is bytes:
                self._last = self._step.plane.clock()
                self._bursts.server_spoke(self._last, len(event))
                self._step.relayed += len(event)
                self._client.write(event)
            elif event is END:
                self._upstream_ended = True
                if self._client_ended:
                    self._close(Outcome.COMPLETED, None)
                elif self._client.can_write_eof():
                    self._client.write_eof()
                else:
                    self._client.close()
            else:
                self._upstream_gone = True
                in_use = not self._upstream_ended and self._bursts.active(self._step.plane.clock())
                if in_use:
                    self._close(Outcome.UPSTREAM_FAILED, Reason.CONNECTION_TERMINATED)
                else:
                    self._close(Outcome.COMPLETED, None)

    def on_congestion(self, congested: bool) -> None:
        """The upstream reads slowly, or has caught up."""
        if congested and self._client.is_reading():
            self._client.pause_reading()
        elif not congested and not self._client.is_reading() and not self._client.is_closing():
            self._client.resume_reading()

    # -- time ------------------------------------------------------------------------------------------------------

    def _wakes(self) -> tuple[int, int, int]:
        """Return when the budget ends, the burst is over its time, and the silence has lasted too long.

        A client that says more to one who has ended its side waits for no answer, so that is no burst.
        """
        limits, started = self._limits, self._bursts.started
        burst = _FAR
        if started is not None and limits.burst is not None and not self._upstream_ended:
            burst = started + limits.burst
        return limits.end if limits.end is not None else _FAR, burst, self._last + limits.idle

    def _set_alarm(self) -> None:
        self._alarm.set(min(self._wakes()))

    def _on_alarm(self, now: int) -> None:
        if self._step.ended:
            self._drop_both()
            return
        in_use = self._bursts.active(now)
        end, burst, idle = self._wakes()
        if now >= end:
            self._cut(end, self._limits.end_bound, in_use=in_use)
        elif now >= burst:
            self._cut(burst, self._limits.burst_bound, in_use=in_use)
        elif now >= idle:
            self._fall_silent(idle, in_use=in_use and not self._upstream_ended)
        if not self._step.ended:
            self._set_alarm()

    def _cut(self, due: int, bound: Limit, *, in_use: bool) -> None:
        """End at the budget's or the burst's time; under `mode: observe` only say that it would have been."""
        step = self._step
        if not step.enforced:
            step.would = step.would or Would.CUT
            self._limits = self._limits._replace(end=None, burst=None)
            return
        step.due = due
        if not in_use:
            step.phase = Phase.COMPLETE
        self._close(Outcome.DEADLINE_EXCEEDED, bound, clean=not in_use)

    def _fall_silent(self, due: int, *, in_use: bool) -> None:
        """End a silence that has lasted too long. It is no clean end if somebody still waits for what was sent, or answered."""
        if not self._step.enforced:
            self._step.would = Would.CUT
            self._limits = self._limits._replace(idle=_FAR)
            return
        if self._client.get_write_buffer_size():
            self._close(Outcome.CLIENT_GONE, Reason.IDLE)
        elif self._upstream.congested:
            self._close(Outcome.UPSTREAM_FAILED, Reason.IDLE)
        elif in_use and not self._step.case.subscription:
            self._step.due = due
            self._close(Outcome.DEADLINE_EXCEEDED, Reason.IDLE)
        else:
            self._close(Outcome.COMPLETED, Reason.IDLE)

    @property
    def unsent(self) -> int:
        """How many bytes are still on their way to the client."""
        return self._client.get_write_buffer_size()

    def wind_down(self) -> None:
        """End a tunnel that is not in use, and a standing ear: they would last as long as the sidecar."""
        if self._step.case.subscription or not self._bursts.active(self._step.plane.clock()):
            self.stop()

    def stop(self) -> None:
        """End now: the sidecar is stopping."""
        if self._bursts.active(self._step.plane.clock()):
            self._close(Outcome.UPSTREAM_FAILED, Reason.SHUTTING_DOWN)
        else:
            self._close(Outcome.COMPLETED, Reason.SHUTTING_DOWN)

    def _close(self, outcome: Outcome, reason: str | None, *, clean: bool | None = None) -> None:
        """The one way out: the record is left, and both sides are closed.

        `clean`: each side first gets what is on its way to it, and a FIN. Else the client sees a reset: nobody here can
        read the protocol, and in some of them a FIN means that all has been said (promise 6).
        """
        step = self._step
        if step.ended:
            return
        step.kind = Kind.OPAQUE
        if outcome is Outcome.COMPLETED:
            step.phase = Phase.COMPLETE
        step.plane.relays.discard(self)
        now = step.plane.clock()
        step.finish(outcome, reason, now)
        if clean if clean is not None else outcome is Outcome.COMPLETED:
            # One that reads nothing more would hold its connection open without end.
            self._alarm.set(now + self._limits.idle)
            self._upstream.close()
            self._client.close()
            self._let_go()
        else:
            self._drop_both()

    def _drop_both(self) -> None:
        self._alarm.close()
        self._upstream.reset()
        end_with_reset(self._client)
        self._client.abort()

    def _let_go(self) -> None:
        """Stop the clock once both sides are gone."""
        if self._client_gone and self._upstream_gone:
            self._alarm.close()
