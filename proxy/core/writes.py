"""What is known of non-idempotent writes: the life of one record, and the book that answers "was this sent before?".

A record is an intent before the first byte may leave. It ends as one of:

    intent        -- answered ------> reported       the other side answered; forgotten once its caller has the answer
    intent        -- withdrawn -----> withdrawn      nothing was sent after all: nothing to remember
    intent        -- lost ----------> uncertain      cut, broken, or found on disk after the sidecar died
    uncertain     -- answered ------> reported       the late answer came while the sidecar still listened
    uncertain     -- found_applied -> applied        someone looked: it happened
    uncertain     -- found_absent --> not_applied    someone looked: it did not
    uncertain     -- given_up ------> dead_lettered  nobody found out within the hold, or its attempts are used up
    reported      -- found_absent --> not_applied    the answer was not heard, and someone looked: it did not
    dead_lettered -- answered ------> reported       as for one that is uncertain: the late answer came after all
    dead_lettered -- found_applied -> applied        someone looked: it happened
    dead_lettered -- found_absent --> not_applied    someone looked: it did not
    dead_lettered -- released ------> released       someone decided: it may be attempted again
    dead_lettered -- discarded -----> discarded      someone decided: never again

A record that is kept stands for its unit: uncertain, it may have happened; reported or applied, it has, and its caller
was never told. So the repetition of its unit is blocked until it is found absent; of one that has happened, until its
hold is over. A dead letter is a unit that is attempted no more until someone decides: an uncertain write that outlived
its hold, or a unit that used up its attempts, whether or not any of them was sent: where nothing is uncertain, its record
begins as a dead letter. An intent stands for its own key: a second call under it joins the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any, ClassVar, Final

from proxy.core.calls import SAFE_METHODS, Phase
from proxy.core.policy import Guard
from proxy.values import Value


class WriteState(StrEnum):
    """Where a write stands."""

    INTENT = "intent"
    UNCERTAIN = "uncertain"
    REPORTED = "reported"
    WITHDRAWN = "withdrawn"
    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    DEAD_LETTERED = "dead_lettered"
    RELEASED = "released"
    DISCARDED = "discarded"


class WriteEvent(StrEnum):
    """What can happen to a write's record."""

    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    LOST = "lost"
    FOUND_APPLIED = "found_applied"
    FOUND_ABSENT = "found_absent"
    GIVEN_UP = "given_up"
    RELEASED = "released"
    DISCARDED = "discarded"


TRANSITIONS: Final[dict[tuple[WriteState, WriteEvent], WriteState]] = {
    (WriteState.INTENT, WriteEvent.ANSWERED): WriteState.REPORTED,
    (WriteState.INTENT, WriteEvent.WITHDRAWN): WriteState.WITHDRAWN,
    (WriteState.INTENT, WriteEvent.LOST): WriteState.UNCERTAIN,
    (WriteState.UNCERTAIN, WriteEvent.ANSWERED): WriteState.REPORTED,
    (WriteState.UNCERTAIN, WriteEvent.FOUND_APPLIED): WriteState.APPLIED,
    (WriteState.UNCERTAIN, WriteEvent.FOUND_ABSENT): WriteState.NOT_APPLIED,
    (WriteState.REPORTED, WriteEvent.FOUND_ABSENT): WriteState.NOT_APPLIED,
    (WriteState.UNCERTAIN, WriteEvent.GIVEN_UP): WriteState.DEAD_LETTERED,
    (WriteState.DEAD_LETTERED, WriteEvent.ANSWERED): WriteState.REPORTED,
    (WriteState.DEAD_LETTERED, WriteEvent.FOUND_APPLIED): WriteState.APPLIED,
    (WriteState.DEAD_LETTERED, WriteEvent.FOUND_ABSENT): WriteState.NOT_APPLIED,
    (WriteState.DEAD_LETTERED, WriteEvent.RELEASED): WriteState.RELEASED,
    (WriteState.DEAD_LETTERED, WriteEvent.DISCARDED): WriteState.DISCARDED,
}

_HAPPENED: Final = frozenset({WriteState.REPORTED, WriteState.APPLIED})
_KNOWN: Final = _HAPPENED | {WriteState.NOT_APPLIED, WriteState.WITHDRAWN}
DEAD: Final = frozenset({WriteState.DEAD_LETTERED, WriteState.DISCARDED})
"""The states in which a unit is attempted no more, by whatever rule its route knows repeats."""


class WrongTransition(ValueError):
    """An event that cannot happen to a write in its state: for an operator, the record is already settled."""

    def __init__(self, state: WriteState, event: WriteEvent) -> None:
        """Name the state and the event."""
        super().__init__(f"a write that is {state} cannot become {event}")
        self.state = state
        self.event = event


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """What the other side said after the caller had been cut off. `body` is kept up to a bound, `bytes` is its size."""

    status: int
    fields: tuple[tuple[str, str], ...]
    body: bytes
    bytes: int
    elapsed_ms: float


class WriteRecord(Value):
    """One write. `opened_at` is Unix time in milliseconds, for people and for retention across restarts.

    `origin` is where the unit belongs (`https://api.example.com:443`): keys and fingerprints of different origins
    never meet. `target` has its query values hidden. `fingerprint` is empty while a streamed body is still passing.
    `attempts`: how often its unit has been attempted by now. `settled_at`: when it became known what has come of it, by
    `resolved_by`; 0 while it is not.
    """

    _fields: ClassVar[tuple[str, ...]] = (
        "id", "state", "opened_at", "origin", "method", "target", "route", "budget_id", "step",
        "key", "fingerprint", "phase", "reason", "resolved_by", "answer", "attempts", "settled_at",
    )  # fmt: skip
    __slots__ = _fields

    def __init__(
        self,
        id: str,
        state: WriteState,
        opened_at: int,
        origin: str,
        method: str,
        target: str,
        route: str,
        budget_id: str,
        step: int,
        key: str | None,
        fingerprint: str,
        phase: Phase = Phase.NOT_SENT,
        reason: str = "",
        resolved_by: str = "",
        answer: LateAnswer | None = None,
        attempts: int = 1,
        settled_at: int = 0,
    ) -> None:
        """Take what is known."""
        self.id: Final = id
        self.state: Final = state
        self.opened_at: Final = opened_at
        self.origin: Final = origin
        self.method: Final = method
        self.target: Final = target
        self.route: Final = route
        self.budget_id: Final = budget_id
        self.step: Final = step
        self.key: Final = key
        self.fingerprint: Final = fingerprint
        self.phase: Final = phase
        self.reason: Final = reason
        self.resolved_by: Final = resolved_by
        self.answer: Final = answer
        self.attempts: Final = attempts
        self.settled_at: Final = settled_at

    @property
    def known(self) -> bool:
        """Whether it is known what has come of the write. That somebody has decided about it is no knowledge."""
        return self.state in _KNOWN

    @property
    def happened(self) -> bool:
        """Whether it is known that the write has happened."""
        return self.state in _HAPPENED

    @property
    def unit(self) -> str:
        """The piece of work that a retry would repeat: its key where it has one, else its fingerprint."""
        return self.key if self.key is not None else self.fingerprint

    def after(self, event: WriteEvent, **known: Any) -> WriteRecord:
        """Return this record after an event, and with whatever else is known then. Raises WrongTransition."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise WrongTransition(self.state, event)
        return self._replace(state=state, **known)

    def settled(self, event: WriteEvent, by: str, at: int) -> WriteRecord:
        """Return this record after an event that says what has come of it. Raises WrongTransition."""
        return self.after(event, resolved_by=by, settled_at=at)


NEXT_AFTER: Final[dict[WriteState, str]] = {
    WriteState.REPORTED: "The other side has answered the first attempt, and its answer is kept with the record. Only if "
    "that says that nothing happened, send the call again with the header Budget-Retry: confirmed.",
    WriteState.APPLIED: "It has happened. Do not send it again.",
    WriteState.DISCARDED: "Someone has decided that it is never sent again. Finish without it.",
}
"""What the caller of a repeated write may do, where more is known of the first attempt than that it was sent."""


def repetition(first: WriteRecord, now_ms: int) -> str:
    """Return the sentence that says what is known of the write that a call would repeat."""
    if first.state in DEAD:
        times = "once" if first.attempts == 1 else f"{first.attempts} times"
        known = "may have happened" if _in_doubt(first) else "did not succeed"
        decided = "given up" if first.state is WriteState.DEAD_LETTERED else "discarded"
        return f"The same call was attempted {times}, {known}, and was {decided} (record {first.id})."
    sent = f"The same write was sent {max(0, now_ms - first.opened_at) / 1000:.1f} s ago (record {first.id})"
    if first.state is WriteState.INTENT:
        return f"{sent} and is still under way."
    if first.state is WriteState.APPLIED:
        return f"{sent}, and was found to have happened."
    if first.state is WriteState.REPORTED:
        status = f"with status {first.answer.status} " if first.answer is not None else ""
        return f"{sent}, and was answered {status}when its caller could no longer be told."
    return f"{sent} and its effect is uncertain: it may have happened."


def _in_doubt(record: WriteRecord) -> bool:
    """Say whether a unit that was given up may have happened all the same: something was sent, and not answered whole."""
    unanswered = record.phase is not Phase.NOT_SENT and record.phase is not Phase.COMPLETE
    return unanswered and record.method not in SAFE_METHODS


# Origin and unit, to the ids of the records that are of it.
_Index = dict[tuple[str, str], set[str]]


def _age(record: WriteRecord) -> tuple[int, int, str]:
    """Return what records are ordered by. Of one millisecond, the shorter id is that of the earlier call: ids are counted."""
    return record.opened_at, len(record.id), record.id


def _stands(record: WriteRecord, since: int) -> bool:
    """Say whether a record, that is not in flight, still stands for its unit."""
    state = record.state
    if state in _HAPPENED:
        return max(record.opened_at, record.settled_at) >= since
    return state is WriteState.UNCERTAIN


MOST_BYTES: Final = 64 * 1024 * 1024
"""How much the records of one sidecar may take in memory (and about as much on disk): some 50,000, or fewer long ones."""
_RECORD_BYTES: Final = 1_200
_FIELD_BYTES: Final = 150


def _weight(record: WriteRecord) -> int:
    """Return about how many bytes a record takes in memory, its places in the indexes included."""
    weight = _RECORD_BYTES + len(record.target) + len(record.key or "")
    answer = record.answer
    if answer is not None:
        fields = sum(len(name) + len(value) + _FIELD_BYTES for name, value in answer.fields)
        weight += len(answer.body) + fields
    return weight


class WriteBook:
    """The records that still matter, by id, by key and by fingerprint. Not safe for use from several threads."""

    def __init__(self, records: Iterable[WriteRecord] = ()) -> None:
        """Start with the records found on disk."""
        self._records: dict[str, WriteRecord] = {}
        self._by_key: _Index = {}
        self._by_fingerprint: _Index = {}
        self._in: dict[WriteState, int] = dict.fromkeys(WriteState, 0)
        self._uncertain: list[tuple[int, int, str]] = []  # a heap by age, and some that are uncertain no more
        self.bytes = 0
        """About how much memory the records take."""
        self.most = MOST_BYTES
        for record in records:
            self.put(record)

    @property
    def full(self) -> bool:
        """Whether as much is on record as can be kept. Nothing is forgotten for that: no further write is begun."""
        return self.bytes >= self.most

    def __len__(self) -> int:
        return len(self._records)

    def get(self, id: str) -> WriteRecord | None:
        """Return the record with this id, if it is still kept."""
        return self._records.get(id)

    def listed(self) -> list[WriteRecord]:
        """Return every record that is or was uncertain, the oldest first."""
        shown = (record for record in self._records.values() if record.state is not WriteState.INTENT)
        return sorted(shown, key=_age)

    def overdue(self, since: int) -> list[WriteRecord]:
        """Return the writes that are uncertain though they were sent before `since` (Unix time in ms), the oldest first."""
        found: dict[str, WriteRecord] = {}
        while self._uncertain and self._uncertain[0][0] < since:
            opened_at, _, id = heappop(self._uncertain)
            record = self._records.get(id)
            if record is not None and record.state is WriteState.UNCERTAIN and record.opened_at == opened_at:
                found[id] = record
        for record in found.values():
            heappush(self._uncertain, _age(record))
        return list(found.values())

    def pending(self) -> int:
        """Return how many writes are uncertain now."""
        return self._in[WriteState.UNCERTAIN]

    def dead(self) -> int:
        """Return how many dead letters wait for a decision."""
        return self._in[WriteState.DEAD_LETTERED]

    def put(self, record: WriteRecord) -> None:
        """Add a record, or take a new state of one."""
        self.drop(record.id)
        self._records[record.id] = record
        self.bytes += _weight(record)
        self._in[record.state] += 1
        if record.state is WriteState.UNCERTAIN:
            heappush(self._uncertain, _age(record))
        for index, unit in self._units(record):
            index.setdefault(unit, set()).add(record.id)

    def drop(self, id: str) -> None:
        """Forget a record; unknown ids are no error, since ends can be reported twice."""
        record = self._records.pop(id, None)
        if record is None:
            return
        self.bytes -= _weight(record)
        self._in[record.state] -= 1
        for index, unit in self._units(record):
            ids = index.get(unit)
            if ids is not None:
                ids.discard(id)
                if not ids:
                    del index[unit]

    def blocking(
        self, guard: Guard, origin: str, key: str | None, fingerprint: str, *, key_honoured: bool, since: int
    ) -> WriteRecord | None:
        """Return the record whose write this would repeat, or None when it may be sent: a dead letter, else the oldest.

        `since` is the Unix time in milliseconds before which a write that has happened no longer stands for its unit.
        With a key that the other side honours, a repeat under the same key is no repetition: it is left to the other
        side. A dead letter is one in any case.
        """
        dead = self.dead_letter(guard, origin, key, fingerprint)
        if dead is not None:
            return dead
        if guard is Guard.NONE:
            return None
        honoured = key_honoured and key is not None
        found: list[WriteRecord] = []
        if key is not None and not honoured:
            same_key = self._of(self._by_key, origin, key)
            found += (
                record for record in same_key if record.state is WriteState.INTENT or _stands(record, since)
            )
        if guard is Guard.FINGERPRINT:
            same_work = self._of(self._by_fingerprint, origin, fingerprint)
            found += (
                record
                for record in same_work
                if _stands(record, since) and not (honoured and record.key == key)
            )
        return min(found, key=_age, default=None)

    def dead_letter(self, guard: Guard, origin: str, key: str | None, fingerprint: str) -> WriteRecord | None:
        """Return the dead letter of a unit, the oldest, or None.

        A unit that has a key is known by its key; by its fingerprint too where that is how the route knows repeats.
        """
        found: list[WriteRecord] = []
        if key is not None:
            found += (record for record in self._of(self._by_key, origin, key) if record.state in DEAD)
        found += (
            record
            for record in self._of(self._by_fingerprint, origin, fingerprint)
            if record.state in DEAD and (guard is Guard.FINGERPRINT or (key is None and record.key is None))
        )
        return min(found, key=_age, default=None)

    def _of(self, index: _Index, origin: str, unit: str) -> Iterator[WriteRecord]:
        return (self._records[id] for id in index.get((origin, unit), ()))

    def _units(self, record: WriteRecord) -> list[tuple[_Index, tuple[str, str]]]:
        units = []
        if record.key is not None:
            units.append((self._by_key, (record.origin, record.key)))
        if record.fingerprint:
            units.append((self._by_fingerprint, (record.origin, record.fingerprint)))
        return units
