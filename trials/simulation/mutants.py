"""The sidecar, broken on purpose: what the simulation has to find, or it proves nothing.

Each mutant is a context in which one thing is wrong, and the checks of which at least one has to say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from proxy.core import calls
from proxy.core.admission import Scheduler
from proxy.core.calls import Effect, Kind, Outcome
from proxy.core.writes import WriteBook, WriteEvent, WriteState
from proxy.dataplane import step as step_module
from proxy.dataplane.attempt import Attempts
from proxy.dataplane.client import Client
from proxy.dataplane.exchange import Exchange
from proxy.dataplane.intent import Intent
from proxy.dataplane.plane import Plane
from proxy.dataplane.response import ResponseSide
from proxy.dataplane.turns import Turns
from proxy.degrade import callers
from proxy.degrade.cache import asked as asked_module
from proxy.net.connection import UpstreamConnection
from proxy.observe.observer import Observer
from proxy.store.database import Database
from proxy.store.writer import Writer
from proxy.wire.parser import ResponseParser
from trials.simulation.seams import Watching

Mutant = contextlib.AbstractContextManager[None]


class Broken(NamedTuple):
    """One way to break the sidecar. `seen_by`: the checks that may find it. `near`: from which seed on it does not take long."""

    make: Callable[[], Mutant]
    seen_by: tuple[str, ...]
    near: int = 0


@contextlib.contextmanager
def _patched(place: Any, name: str, value: Any) -> Iterator[None]:
    before = place.__dict__[name]
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def _sent_before_it_is_on_disk() -> Mutant:
    declare = Intent.declare

    def at_once(self: Intent, done: Callable[[Exception | None], None]) -> None:
        declare(self, lambda error: None)
        done(None)

    return _patched(Intent, "declare", at_once)


def _slots_that_are_not_given_back() -> Mutant:
    give_back = Turns.give_back

    def mostly(self: Turns, lease: Any, now: int) -> None:
        if lease.task.deadline is None or lease.task.deadline % 7:
            give_back(self, lease, now)

    return _patched(Turns, "give_back", mostly)


@contextlib.contextmanager
def _connections_used_after_an_unclean_end() -> Iterator[None]:
    leave = Exchange._leave_upstream

    def keep(self: Exchange, reason: str, *, linger: bool) -> None:
        connection = self._connection
        if connection is not None and self.kind is Kind.READ and not connection.closed:
            self._connection = None
            connection._parser = ResponseParser()
            self.plane.pool.give_back(connection)
        leave(self, reason, linger=linger)

    usable = property(lambda self: not self.closed)
    with _patched(Exchange, "_leave_upstream", keep), _patched(UpstreamConnection, "reusable", usable):
        yield


def _writes_sent_again() -> Mutant:
    return _patched(Attempts, "_repeatable", lambda self: True)


def _uncertain_is_told_as_none() -> Mutant:

    def hopeful(kind: Any, phase: Any) -> Effect:
        effect = calls.effect_of(kind, phase)
        return Effect.NONE if effect is Effect.UNCERTAIN else effect

    return _patched(step_module, "effect_of", hopeful)


def _intents_forgotten_at_a_restart() -> Mutant:
    recover = Database.recover

    def forgetful(self: Database, before_ms: int | None) -> Any:
        self.connect().execute(f"DELETE FROM writes WHERE state = '{WriteState.INTENT.value}'")
        return recover(self, before_ms)

    return _patched(Database, "recover", forgetful)


def _no_guard() -> Mutant:
    return _patched(WriteBook, "blocking", lambda self, *_, **__: None)


def _steps_without_a_record() -> Mutant:
    step = Observer.step

    def silent(self: Observer, record: Any) -> None:
        if record.outcome is not Outcome.SHED and record.outcome is not Outcome.CLIENT_GONE:
            step(self, record)

    return _patched(Observer, "step", silent)


@contextlib.contextmanager
def _calls_without_a_record() -> Iterator[None]:
    step = Watching.step

    def silent(self: Watching, record: Any) -> None:
        if record.outcome is not Outcome.CLIENT_GONE:
            step(self, record)

    with _patched(Watching, "step", silent):
        yield


def _a_cut_that_looks_complete() -> Mutant:
    def whole(self: ResponseSide, error: Any) -> bytes:
        return b"0\r\n\r\n"

    return _patched(ResponseSide, "ending", whole)


def _doubts_that_are_forgotten() -> Mutant:
    lost = Intent.lost

    def forget(self: Intent, phase: Any, reason: str) -> None:
        lost(self, phase, reason)
        self._plane.book.drop(self.record.id)
        self._plane.journal.drop(self.record.id)

    return _patched(Intent, "lost", forget)


def _late_cuts() -> Mutant:
    overdue = Exchange._cut_at

    def later(self: Exchange, due: int) -> int:
        return overdue(self, due) + 20_000_000

    return _patched(Exchange, "_cut_at", later)


def _early_cuts() -> Mutant:
    cut_at = Exchange._cut_at
    return _patched(Exchange, "_cut_at", lambda self, due: cut_at(self, due) - 3_000_000)


def _slots_that_are_given_back_twice() -> Mutant:
    release = Scheduler.release

    def twice(self: Scheduler, lease: Any, now: int) -> Any:
        granted = release(self, lease, now)
        if lease.slot % 2:
            lease.held = True
            granted += release(self, lease, now)
        return granted

    return _patched(Scheduler, "release", twice)


def _answers_dropped_before_they_are_given() -> Mutant:
    def drop(self: Intent, answer: Any, done: Callable[[Exception | None], None]) -> None:
        self.record = self.record.after(WriteEvent.ANSWERED)
        self._plane.book.drop(self.record.id)
        self._plane.journal.drop(self.record.id, done)

    return _patched(Intent, "answered", drop)


def _a_drain_that_waits_for_nobody() -> Mutant:
    drain = Plane.drain

    def at_once(self: Plane) -> None:
        drain(self)
        self.close()

    return _patched(Plane, "drain", at_once)


def _a_cache_for_everybody() -> Mutant:
    tells_nothing = callers.tells_nothing
    return _patched(
        asked_module, "tells_nothing", lambda name: name == b"authorization" or tells_nothing(name)
    )


def _changes_that_are_not_made_up_for() -> Mutant:
    return _patched(Writer, "_owe", lambda self, group: None)


def _leaves_that_nobody_is_told_of() -> Mutant:
    def lost(self: Client, exc: Exception | None) -> None:
        self._closing = True
        self._waiting.clear()
        self._release()

    return _patched(Client, "connection_lost", lost)


MUTANTS: Final[dict[str, Broken]] = {
    "a write is sent before its intent is on disk": Broken(
        _sent_before_it_is_on_disk, ("a write is on disk before its first byte leaves",)
    ),
    "some slots are never given back": Broken(_slots_that_are_not_given_back, ("nothing is left",)),
    "a connection is used again after an unclean end": Broken(
        _connections_used_after_an_unclean_end,
        ("no answer reaches another caller", "what is cut never looks complete"),
        near=2,
    ),
    "a write is sent again after a byte has left": Broken(_writes_sent_again, ("no write arrives twice",)),
    "uncertain is told as none": Broken(
        _uncertain_is_told_as_none, ("what is not sent has not arrived", "not sent means not sent")
    ),
    "a restart forgets intents": Broken(
        _intents_forgotten_at_a_restart,
        (
            "a write that was under way at a kill is on record afterwards",
            "what was carried out and not reported is on record",
        ),
        near=10,
    ),
    "nothing guards against repeats": Broken(
        _no_guard, ("no write goes out over the head of one that is unresolved",)
    ),
    "some steps are not counted": Broken(
        _steps_without_a_record, ("the counters equal the records", "the log equals the records")
    ),
    "some calls leave no record": Broken(_calls_without_a_record, ("each call leaves one record",)),
    "an answer that was cut looks complete": Broken(
        _a_cut_that_looks_complete, ("what is cut never looks complete",), near=1
    ),
    "what is uncertain is forgotten": Broken(
        _doubts_that_are_forgotten, ("what was carried out and not reported is on record",)
    ),
    "cuts come 3 ms early": Broken(_early_cuts, ("none is cut before its time",)),
    "some slots are given back twice": Broken(
        _slots_that_are_given_back_twice, ("nothing is left", "no more is granted than there is")
    ),
    "a write is forgotten before its answer is given": Broken(
        _answers_dropped_before_they_are_given,
        (
            "what was carried out and not reported is on record",
            "a write that was under way at a kill is on record afterwards",
            "no work is done twice without a reason",
        ),
        near=32,
    ),
    "a drain waits for nobody": Broken(
        _a_drain_that_waits_for_nobody, ("a drain gives each call its time",), near=7
    ),
    "the cache does not look who asks": Broken(_a_cache_for_everybody, ("no answer reaches another caller",)),
    "what could not be written is not written later": Broken(
        _changes_that_are_not_made_up_for, ("book and disk say the same",), near=7
    ),
    "nobody is told that a client has left": Broken(
        _leaves_that_nobody_is_told_of, ("nothing is left",), near=3
    ),
    "cuts come 20 ms late": Broken(_late_cuts, ("no call runs beyond its allowance",), near=3),
}
