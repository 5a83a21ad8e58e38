"""A call beside an equal one in flight: it may be the first, whose answer others wait for, or one of those who wait."""

from __future__ import annotations

from proxy.core.calls import Phase
from proxy.core.reasons import Reason
from proxy.core.writes import WriteRecord
from proxy.dataplane.attempt import Attempts
from proxy.dataplane.claims import Answer


class Shared(Attempts):
    """The face of a call towards `claims`."""

    __slots__ = ()

    def share(self) -> bool:
        """Keep the answer for calls that wait for it too; False when some of it has been passed on."""
        response = self._response
        if self.ended or response.size > self.policy.writes.hold_back_bytes:
            return False
        if not response.copied and (response.head_sent or response.by_event):
            return False
        response.keep_copy()
        return True

    def response_is_mine(self) -> None:
        """Keep the answer for nobody else any more."""
        self._response.drop_copy()

    def declared(self) -> WriteRecord | None:
        """Return the record of the write that others wait for, once there is one."""
        return self._write.declared() if self._write is not None else None

    def on_shared_answer(self, answer: Answer) -> None:
        """Take the answer of the call that this one has joined, unless its own time was over just before."""
        if self.ended:
            return
        self.phase = Phase.COMPLETE
        self.status = answer.head.status
        self._response.begin(answer.head, held=True, delegated=answer.delegated)
        self._response.degraded = answer.degraded
        self._response.body(answer.body)
        self._response.end_with(answer.trailers)
        self.partial = self._response.says_incomplete
        self._deliver(reason=Reason.JOINED)

    def on_claim_ended(self) -> None:
        """The call that this one has joined has no answer to share: look again."""
        if self._write is not None and not self.ended:
            self._write.look_again()
