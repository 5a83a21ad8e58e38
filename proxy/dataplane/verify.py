"""Asking whether an uncertain write happened, where its route names a read that tells.

The first question is put as soon as the write is uncertain, in what is left of the reserve so to speak, the next ones in
the background with a growing distance, until an answer settles the matter, the write is settled otherwise, or its hold
is over. The question is made with the credentials of the write's own request, which are kept in memory and nowhere
else; after a restart it is made without any.

A yes is believed at once. A no is believed the second time in a row, and only once nobody listens for the write's own
answer any more: until then it may be about to happen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from proxy.core.policy import Route
from proxy.core.target import DEFAULT_PORTS, Origin, Target, split_authority
from proxy.core.units import SECOND
from proxy.core.verification import ASK_TIME, MOST_BODY, Found, question, says, wait_before
from proxy.core.writes import WriteEvent, WriteRecord, WriteState
from proxy.dataplane.dead_letters import held_since
from proxy.dataplane.onward import plain_head
from proxy.net.ask import Answer, Ask, Failure, Question
from proxy.net.connection import UpstreamConnection
from proxy.wire.events import RequestHead
from proxy.wire.fields import HOP_BY_HOP, dropped
from proxy.wire.render import line, lines

if TYPE_CHECKING:
    from proxy.dataplane.plane import Plane

MOST_AT_ONCE: Final = 8
"""How many questions are under way at the same time: a tool in trouble is not to be drowned in them."""
MOST_WATCHED: Final = 10_000
BELIEVED_AFTER: Final = 2
"""How many answers in a row must say that there is nothing."""

_OF_THE_WRITE: Final = frozenset(
    {
        b"accept-encoding",  # its answer is read here, and nothing is unpacked
        b"expect",
        b"host",
        b"range",
        b"trailer",
        b"x-http-method",  # a read that is taken for another method is none
        b"x-http-method-override",
        b"x-method-override",
    }
)
_FAMILIES_OF_THE_WRITE: Final = (b"content-", b"if-")


class Verifier:
    """The questions of one sidecar."""

    def __init__(self, plane: Plane) -> None:
        """Ask nothing yet."""
        self._plane = plane
        self.most = MOST_WATCHED
        self._watched: dict[str, Inquiry] = {}
        self._asking = 0
        self._waiting: deque[Inquiry] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, record: WriteRecord, route: Route, target: Target, head: RequestHead | None) -> None:
        """Find out about a write that is uncertain. `head`: that of its request, as long as that is known."""
        verify = route.verify
        if verify is None or record.id in self._watched or len(self._watched) >= self.most or self._closed:
            return
        path = question(verify, record)
        if path is None:
            return
        if route.upstream is not None:
            path = route.upstream.path + path
        carried = _who_asks(head, route) if head is not None else []
        carried += [b"Accept-Encoding: identity\r\n", line(b"Via", b"1.1 " + self._plane.via)]
        inquiry = Inquiry(self, self._plane, record.id, route, target._replace(path=path), carried)
        self._watched[record.id] = inquiry
        inquiry.ask_in(0)

    def resume(self) -> None:
        """Find out about the writes that were uncertain when the sidecar started, or when this policy came into force."""
        policy = self._plane.policy
        routes = {
            route.name: route for route in (policy.fallback, *policy.routes) if route.verify is not None
        }
        if not routes:
            return
        for record in self._plane.book.listed():
            route = routes.get(record.route)
            if route is not None and record.state is WriteState.UNCERTAIN:
                target = _target_of(record, route)
                if target is not None:
                    self.watch(record, route, target, None)

    def close(self) -> None:
        """Ask no more."""
        self._closed = True
        self._waiting.clear()
        for inquiry in list(self._watched.values()):
            inquiry.end()

    # -- for the inquiries -----------------------------------------------------------------------------------------

    def may_ask(self, inquiry: Inquiry) -> bool:
        """Say whether there is room for a question; if not, its turn comes."""
        if self._asking >= MOST_AT_ONCE:
            self._waiting.append(inquiry)
            return False
        self._asking += 1
        return True

    def asked(self) -> None:
        """A question is over."""
        self._asking -= 1
        self._wake()

    def forget(self, id: str) -> None:
        """An inquiry is over."""
        self._watched.pop(id, None)
        self._wake()

    def _wake(self) -> None:
        """Let the next one ask, if there is room. If it has no question any more, it says so, and the one after it is next."""
        if self._waiting and self._asking < MOST_AT_ONCE:
            self._waiting.popleft().ask_in(0)


class Inquiry:
    """What is asked about one write, a question at a time."""

    __slots__ = (
        "_absent",
        "_asked",
        "_carried",
        "_id",
        "_plane",
        "_question",
        "_route",
        "_target",
        "_timer",
        "_verifier",
    )

    def __init__(
        self, verifier: Verifier, plane: Plane, id: str, route: Route, target: Target, carried: list[bytes]
    ) -> None:
        """Take what to ask, with the field lines that each question carries; nothing is asked yet."""
        self._verifier = verifier
        self._plane = plane
        self._id = id
        self._route = route
        self._target = target
        self._carried = carried
        self._asked = 0
        self._absent = 0
        self._question: Ask | None = None
        self._timer: asyncio.TimerHandle | None = None

    def ask_in(self, wait: int) -> None:
        """Ask after a while (nanoseconds)."""
        self._timer = self._plane.loop.call_later(wait / SECOND, self._ask)

    def end(self) -> None:
        """Ask no more."""
        self._stop()
        self._verifier.forget(self._id)

    # -- one question ----------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._timer = None
        if self._unsettled() is None:
            self.end()
            return
        if not self._verifier.may_ask(self):
            return
        self._asked += 1
        verify = self._route.verify
        assert verify is not None
        plane = self._plane
        question = Question(
            self._target.origin, verify.method, self._rendered, MOST_BODY, ASK_TIME, fresher_than=SECOND
        )
        self._question = Ask(plane.loop, plane.clock, plane.pool, question, self._heard)

    def _rendered(self, connection: UpstreamConnection) -> bytes:
        """Return the question in the form that its connection takes."""
        verify = self._route.verify
        assert verify is not None
        return plain_head(self._plane.policy, connection, verify.method, self._target, self._carried)

    def _heard(self, answer: Answer | Failure) -> None:
        """Take the answer, or that there is none."""
        verify = self._route.verify
        if isinstance(answer, Failure) or verify is None:
            self._answer(Found.UNKNOWN)
        else:
            self._answer(says(verify, answer.status, answer.body))

    def _answer(self, found: Found) -> None:
        """Take what was found out: the matter is settled, or is asked about again."""
        self._stop()
        self._plane.observer.verified(self._route.name, found)
        record = self._unsettled()
        if record is None:
            self.end()
            return
        over = not any(id == self._id for id in self._plane.lingering_for())
        self._absent = self._absent + 1 if found is Found.ABSENT and over else 0
        if found is Found.APPLIED:
            self._settle(record, WriteEvent.FOUND_APPLIED)
        elif self._absent >= BELIEVED_AFTER:
            self._settle(record, WriteEvent.FOUND_ABSENT)
        else:
            self.ask_in(wait_before(self._asked - 1))

    def _settle(self, record: WriteRecord, event: WriteEvent) -> None:
        self._plane.keep(record.settled(event, "verified", self._plane.wall_ms()))
        self.end()

    def _unsettled(self) -> WriteRecord | None:
        """Return the record while nobody knows, and nobody has decided.

        A write that has used up its attempts is a dead letter before its hold is over, and still in doubt.
        """
        plane = self._plane
        record = plane.book.get(self._id)
        if record is None or record.state is WriteState.UNCERTAIN:
            return record
        held = record.opened_at >= held_since(plane, plane.policy)
        return record if record.state is WriteState.DEAD_LETTERED and held else None

    def _stop(self) -> None:
        """End the question under way, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._question is not None:
            self._question.cancel()
            self._question = None
            self._verifier.asked()


def _who_asks(head: RequestHead, route: Route) -> list[bytes]:
    """Return the field lines of a write that belong to its question too: credentials and the like.

    Nothing of its body, and not its key: some servers answer for a key whatever they have once answered under it.
    """
    left_out = dropped(head, HOP_BY_HOP | _OF_THE_WRITE | {b"idempotency-key", route.idempotency.header})
    kept = [field for field in head.fields if not field[0].startswith(_FAMILIES_OF_THE_WRITE)]
    return lines(kept, left_out)


def _target_of(record: WriteRecord, route: Route) -> Target | None:
    """Return where a write went, as far as its record says; None when it does not say it well enough."""
    scheme, _, authority = record.origin.partition("://")
    try:
        host, port = split_authority(authority, DEFAULT_PORTS.get(scheme, 0))
    except ValueError:
        return None
    if scheme not in DEFAULT_PORTS:
        return None
    named = authority.removesuffix(f":{DEFAULT_PORTS[scheme]}")
    other = record.target.partition("://")[2].partition("/")[0].rpartition("@")[0] or None
    ca = route.ca if scheme == "https" else None
    tunnelled = other is not None and scheme == "http"
    return Target(Origin(scheme, host, port, None, ca, tunnelled), named, "", other)
