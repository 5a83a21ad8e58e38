"""What one budget's job has done so far: its steps, what happened when, and the counts that a verdict is made of.

Bounded: past `MOST_STEPS` the steps are counted and no longer kept, and so for the events. What is kept can be given up
early, when the histories of all budgets take too much together: first the details, then even the units.

The units of the job's work are followed too, since a step that failed says little by itself: a read that was cut and
then succeeded is done, a read that was cut is not.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import StrEnum
from typing import Final, NamedTuple

from proxy.core.attempts import asks_again
from proxy.core.calls import Effect, Kind, Outcome
from proxy.core.step import StepRecord

MOST_STEPS: Final = 1_000
MOST_EVENTS: Final = 5_000
STEP_BYTES: Final = 900
DEGRADED_BYTES: Final = 150
EVENT_BYTES: Final = 150
UNIT_BYTES: Final = 150
"""About how much memory each of them takes, beside its own texts."""


class Happening(StrEnum):
    """The events of admission."""

    ENQUEUED = "enqueued"
    GRANTED = "granted"
    RENEWED = "renewed"
    EXPIRED = "expired"
    RELEASED = "released"
    COMPLETED = "completed"
    DEAD_LETTERED = "dead_lettered"


class Event(NamedTuple):
    """One event of the admission timeline. `at` is nanoseconds on the budget's clock; `slot` the worker slot of a lease."""

    at: int
    what: Happening
    step: int
    record: str
    slot: int | None = None
    detail: str = ""


class Counts(NamedTuple):
    """How many steps a job has made, and what became of them. A verdict is made of these.

    `in_flight` have not ended. `uncertain` and `degraded` count among the others: whose effect is not known, and who were
    answered with less than they had asked for.
    """

    total: int = 0
    completed: int = 0
    deadline_exceeded: int = 0
    refused: int = 0
    shed: int = 0
    connect_failed: int = 0
    upstream_failed: int = 0
    client_gone: int = 0
    uncertain: int = 0
    in_flight: int = 0
    degraded: int = 0


class History:
    """The history of one budget.

    `undone`: the units that have been attempted and are not done. `uncertain`: the records whose effect is not known, with
    their units; `unfollowed` counts those that could not be kept. `overflowed`: more was undone or uncertain than could
    be followed, so the job can no longer be found complete. `degraded` counts the steps that were answered with less than
    they had asked for. `weighed` is what the archive has counted of it.
    """

    __slots__ = (
        "_detail_bytes",
        "_unit_bytes",
        "attempts",
        "degraded",
        "events",
        "events_dropped",
        "outcomes",
        "overflowed",
        "steps",
        "steps_dropped",
        "uncertain",
        "undone",
        "unfollowed",
        "units",
        "weighed",
    )

    def __init__(self) -> None:
        """Begin with nothing."""
        self.steps: list[StepRecord] = []
        self.steps_dropped = 0
        self.events: list[Event] = []
        self.events_dropped = 0
        self.outcomes: dict[str, int] = {}
        self.overflowed = False
        self.undone: set[str] = set()
        self.uncertain: dict[str, str] = {}
        self.unfollowed = 0
        self.attempts = 0
        self.units = 0
        self.degraded = 0
        self.weighed = 0
        self._detail_bytes = 0
        self._unit_bytes = 0

    def note(self, event: Event) -> None:
        """Keep an event."""
        if len(self.events) < MOST_EVENTS:
            self.events.append(event)
            self._detail_bytes += EVENT_BYTES + len(event.detail)
        else:
            self.events_dropped += 1

    def add(self, record: StepRecord, *, late: bool = False) -> None:
        """Keep the record of a step that has ended, and follow the unit of its work.

        `late`: it began after the job was said to be done, so whether it is done is none of its business; a doubt is, and an
        answer that was less.
        """
        if len(self.steps) < MOST_STEPS:
            self.steps.append(record)
            self._detail_bytes += step_bytes(record)
        else:
            self.steps_dropped += 1
        outcome = record.outcome
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.attempts += record.tries
        self.units += record.fresh
        if record.degraded is not None:
            self.degraded += 1
        # What was turned away before its body was read has no unit: then the same call stands for its work.
        same_call = f"{record.method} {record.target}"
        turned_away = outcome in (Outcome.REFUSED, Outcome.SHED)
        unit = record.unit or (same_call if turned_away else record.record)
        if late:
            pass
        elif outcome == Outcome.COMPLETED and not (record.partial or asks_again(record.status)):
            self._done(unit, again=record.kind == Kind.IDEMPOTENT)
            self._done(same_call, again=False)
        else:
            self._undone(unit)
        if record.effect == Effect.UNCERTAIN:
            self._uncertain(record.record, unit)

    def settled(self, record_id: str, *, happened: bool) -> None:
        """Take note that the effect of a write is known by now. One that has happened is done, whoever found that out."""
        unit = self.uncertain.pop(record_id, None)
        if unit is None:
            return
        self._unit_bytes -= unit_bytes(unit)
        if happened:
            self._done(unit, again=False)

    def follow(self, unit: str, *, done: bool) -> None:
        """Take note of work that was no step: it is done, or was begun and is not."""
        if done:
            self._done(unit, again=False)
        else:
            self._undone(unit)

    def slim(self, *, units: bool = False) -> None:
        """Give up the details; what a verdict is made of stays. With `units`, what is undone is no longer followed."""
        self.steps_dropped += len(self.steps)
        self.events_dropped += len(self.events)
        self.steps.clear()
        self.events.clear()
        self._detail_bytes = 0
        if units and self._unit_bytes:
            self.overflowed = True
            self.unfollowed += len(self.uncertain)
            self.undone.clear()
            self.uncertain.clear()
            self._unit_bytes = 0

    def counts(self, in_flight: int) -> Counts:
        """Return the counts as of now."""
        return Counts(
            total=sum(self.outcomes.values()) + in_flight,
            uncertain=len(self.uncertain) + self.unfollowed,
            in_flight=in_flight,
            degraded=self.degraded,
            **{name: count for name, count in self.outcomes.items() if name in Counts._fields},
        )

    @property
    def bytes(self) -> int:
        """Return about how much memory it takes."""
        return self._detail_bytes + self._unit_bytes

    # -- the units -------------------------------------------------------------------------------------------------

    def _done(self, unit: str, *, again: bool) -> None:
        """Take note that a unit is done. `again`: doing it once more leaves no doubt about the times before."""
        if unit in self.undone:
            self.undone.discard(unit)
            self._unit_bytes -= unit_bytes(unit)
        if again and self.uncertain:
            for record_id in [record for record, of in self.uncertain.items() if of == unit]:
                del self.uncertain[record_id]
                self._unit_bytes -= unit_bytes(unit)

    def _undone(self, unit: str) -> None:
        if unit in self.undone:
            return
        if len(self.undone) < MOST_STEPS:
            self.undone.add(unit)
            self._unit_bytes += unit_bytes(unit)
        else:
            self.overflowed = True

    def _uncertain(self, record_id: str, unit: str) -> None:
        if record_id in self.uncertain:
            return
        if len(self.uncertain) < MOST_STEPS:
            self.uncertain[record_id] = unit
            self._unit_bytes += unit_bytes(unit)
        else:
            self.unfollowed += 1
            self.overflowed = True


def step_bytes(record: StepRecord) -> int:
    """Return about how much memory a step's record takes."""
    less = DEGRADED_BYTES if record.degraded is not None else 0
    return STEP_BYTES + less + len(record.target) + len(record.unit or "")


def unit_bytes(unit: str) -> int:
    """Return about how much memory it takes to follow a unit."""
    return UNIT_BYTES + len(unit)


class Archive:
    """What all histories that are kept take together, and which give up what they hold when that is too much."""

    __slots__ = ("_finished", "_open", "bytes")

    def __init__(self) -> None:
        """Start empty."""
        self.bytes = 0
        # Those that hold something, the oldest first.
        self._open: OrderedDict[str, History] = OrderedDict()
        self._finished: OrderedDict[str, History] = OrderedDict()

    def weigh(self, id: str, history: History, most: int, *, finished: bool) -> None:
        """Take note of what a history takes by now; when all take more than `most`, make some give up what they hold."""
        self._count(history)
        self.shelve(id, history, finished=finished)
        if self.bytes > most:
            self._slim(most - most // 16)

    def shelve(self, id: str, history: History | None, *, finished: bool) -> None:
        """Put a history where it belongs now: the finished ones are the first to give something up."""
        here, there = (self._finished, self._open) if finished else (self._open, self._finished)
        there.pop(id, None)
        if history is not None and history.bytes:
            here[id] = history

    def drop(self, id: str, history: History) -> None:
        """Take out the history of a budget that is forgotten."""
        self.bytes -= history.weighed
        history.weighed = 0
        self._finished.pop(id, None)
        self._open.pop(id, None)

    def _slim(self, enough: int) -> None:
        """Make histories give up their details, the finished ones first; if that is not enough, their units."""
        for units in (False, True):
            for histories in (self._finished, self._open):
                for id, history in list(histories.items()):
                    if self.bytes <= enough:
                        return
                    history.slim(units=units)
                    self._count(history)
                    if not history.bytes:
                        del histories[id]

    def _count(self, history: History) -> None:
        self.bytes += history.bytes - history.weighed
        history.weighed = history.bytes
