"""A stream that runs out of time and is closed in its own dialect (`on_cut: truncate`), rather than broken off.

Shortly before the allowance ends, its client is given the mark in the text, the dialect's own reason for a stream that
became too long, and a clean end, with trailers that say what has happened. A stream that cannot be closed truthfully (a tool
call in the middle, a dialect that nobody here knows) ends in an error as any other.
"""

from __future__ import annotations

from typing import Final

from proxy.core.budget import Limit
from proxy.core.calls import Outcome
from proxy.core.degrading import Degraded, Why
from proxy.core.policy import Truncate
from proxy.dataplane.answers import degraded_line, outcome_item
from proxy.dataplane.shared import Shared
from proxy.degrade.endings.ending import Ending
from proxy.degrade.endings.recognise import ending_for
from proxy.wire.events import ResponseHead
from proxy.wire.render import line

_ANNOUNCED: Final = b"Trailer: Budget-Degraded, Budget-Outcome\r\n"
UNPACKED: Final = b"Accept-Encoding: identity\r\n"
"""A stream that is packed cannot be read here, and so not be closed."""
PACKING: Final = frozenset({b"accept-encoding"})


class Closing(Shared):
    """A call whose stream may be closed before its end."""

    __slots__ = ()

    def ending(self, head: ResponseHead) -> Ending | None:
        """Return what follows the stream that begins with this head, if it is one that can be read here."""
        content_type = head.get(b"content-type")
        if content_type is None or not 200 <= head.status < 300:
            return None
        if (head.get(b"content-encoding") or b"identity").lower() != b"identity":
            return None
        return ending_for(content_type, self.case.target.path.partition("?")[0])

    def stream_margin(self, due: int) -> int:
        """Return how long before it is due a stream is ended: longer, where it is to be closed in its dialect."""
        truncate = self.case.route.truncate
        if truncate is None or not self._response.closable or self._response.outlasts:
            return super().stream_margin(due)
        return min(truncate.margin, (due - self.arrival) // 2)

    def announcement(self) -> list[bytes]:
        """Return the field line that says which trailers may follow."""
        closable = self.case.route.truncate is not None and self._response.closable
        return [_ANNOUNCED] if closable and self._response.has_trailers else []

    def _cut(self, now: int) -> None:
        """End the call; but a stream that cannot be closed yet goes on for as long as others do: a call in it may become whole."""
        if not self._goes_on(self.due, now):
            super()._cut(now)

    def _attempt_over(self, now: int) -> None:
        """End an attempt that has taken its time, in the same way."""
        if not self._goes_on(self.attempt_due, now):
            super()._attempt_over(now)

    def _goes_on(self, due: int | None, now: int) -> bool:
        """Say whether it is only the time to close a stream, which cannot be closed yet."""
        truncate, response = self.case.route.truncate, self._response
        if truncate is None or due is None or not self.enforced or not response.closable or response.outlasts:
            return False
        if now >= due - super().stream_margin(due) or response.closed(truncate.mark) is not None:
            return False
        response.outlasts = True
        return True

    def _give_up(self, outcome: Outcome, reason: str, detail: str, now: int) -> None:
        """Close a stream whose time is over, if that can be done truthfully."""
        truncate = self.case.route.truncate
        cut = outcome is Outcome.DEADLINE_EXCEEDED and isinstance(reason, Limit)
        if (
            truncate is None
            or not cut
            or not self._response.head_sent
            or not self._close(truncate, reason, now)
        ):
            super()._give_up(outcome, reason, detail, now)

    def _close(self, truncate: Truncate, reason: str, now: int) -> bool:
        response = self._response
        before = response.pending(ended=False)
        end = response.closed(truncate.mark)
        if end is None:
            if before:
                self.client.send(before)
            return False
        outcome = Outcome.DEADLINE_EXCEEDED if end else Outcome.COMPLETED
        if end:
            level = self.descent.level if self.descent is not None else 0
            response.degraded = Degraded(max(1, level), self.rung or Why.TRUNCATED, Why.TRUNCATED, self.stage)
            item = outcome_item(
                outcome, effect=self.effect, retry=self.retry(outcome, now), reason=reason, phase=self.phase
            )
            response.last_lines += [degraded_line(response.degraded), line(b"Budget-Outcome", item)]
        self.client.send(before + response.framed_end(end))
        self._end(outcome, reason if end else None, now, keep=self._keeps())
        return True
