"""The body of a request on its way from the client: held, or passed on as fast as both sides can take it."""

from __future__ import annotations

from proxy.core.calls import Phase
from proxy.dataplane.patience import Patience
from proxy.dataplane.request import WAITING_BYTES
from proxy.degrade.callers import tells_caller
from proxy.wire.events import Field


class Upload(Patience):
    """A call that is given the parts of its body one by one."""

    __slots__ = ()

    def on_request_data(self, data: bytes) -> None:
        """Take a part of the body, and make the client wait while there is nowhere to put it."""
        request = self.request
        request.data(data)
        if self._write is not None and self._write.collecting:
            self._write.grew()
        elif self._connection is None:
            if request.size > WAITING_BYTES:
                self.client.pause_reading()
        elif self._connection.congested:
            self.client.pause_reading()

    def on_request_trailers(self, fields: list[Field]) -> None:
        """Take what follows a chunked body."""
        self.request.trailers = fields
        if self.descent is not None and self.leads_elsewhere(self.descent):
            self.request.trailers = [each for each in fields if not tells_caller(each[0])]

    def on_request_end(self) -> None:
        """Take the end of the body."""
        self.request.end()
        if self.phase is Phase.SENDING and self.request.sent:
            self.phase = Phase.SENT
        if self._write is not None:
            self._write.ended()
        elif (digest := self.request.digest()) is not None:
            self.know_unit_late(digest)

    def on_client_congestion(self, congested: bool) -> None:
        """Read from the upstream only as fast as the client does."""
        if self._connection is not None:
            if congested:
                self._connection.pause_reading()
            else:
                self._connection.resume_reading()

    def on_congestion(self, congested: bool) -> None:
        """Read from the client only as fast as the upstream does."""
        if congested:
            self.client.pause_reading()
        else:
            self.client.resume_reading()
