"""Whether a client's connection can serve another request after this one (RFC 9112, 9.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.dataplane.request import RequestSide
from proxy.dataplane.response import ResponseSide
from proxy.wire.events import Framing

if TYPE_CHECKING:
    from proxy.dataplane.client import Client

SMALL_BODY: Final = 65_536
"""The rest of a body that is read and thrown away to keep a connection, rather than closing it."""


def keeps(client: Client, request: RequestSide, response: ResponseSide) -> bool:
    """Return whether it can after an upstream's answer."""
    head = request.head
    ended = request.ended or head.framing is Framing.NO_BODY
    return head.keep_alive and ended and not response.ends_with_close and not client.ends


def keeps_after_own_answer(client: Client, request: RequestSide, response: ResponseSide) -> bool:
    """Return whether it is worth keeping after one of our own: the rest of the body is small, and certain to come."""
    head = request.head
    if response.ends_with_close:
        return False
    if client.ends or not head.keep_alive or (head.expect_continue and not request.ended):
        return False
    if request.ended or head.framing is Framing.NO_BODY:
        return True
    return head.length is not None and head.length - request.size <= SMALL_BODY
