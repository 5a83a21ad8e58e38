"""One target, one seed: known inputs first, then mutations of whatever has shown something new."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Final

from trials.fuzz.minimise import minimise
from trials.fuzz.mutate import Material, mutated
from trials.fuzz.target import Target, Violated

CPU_SECONDS: Final = 2.0
"""The processor time that one input may take. It is not of the wall, so that a busy machine makes no failure."""

_MOST_ENTRIES: Final = 4000
_FRESH: Final = 48


class TooSlow(Exception):
    """One input took more than `CPU_SECONDS`."""


@dataclass(slots=True)
class Failure:
    """An input that broke something. `signature` is the same for all that broke the same thing in the same place."""

    signature: str
    data: bytes
    text: str
    """The traceback."""


@dataclass(slots=True)
class Report:
    """What one run of one target came to."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    behaviours: int = 0
    corpus: int = 0
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)
    discovered: list[bytes] = field(default_factory=list)
    """Inputs that have shown a word which no kept one shows."""


def run(
    target: Target,
    known: Sequence[bytes],
    *,
    seed: int,
    runs: int | None = None,
    seconds: float | None = None,
    most_failures: int = 10,
    note: Callable[[bytes], None] = lambda data: None,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Replay the known inputs, then try `runs` new ones, or as many as `seconds` allow, until so many failures are known.

    `note` is told each input before it is tried, for whoever finds this process dead.
    """
    begun = clock()
    search = _Search(target, Report(target.name, kept=len(known)), note)
    for data in known or [b""]:
        search.trial(data, new=False)
    if not search.corpus:
        search.corpus.append(b"")
    rng = Random(f"{seed}:{target.name}")
    material = Material(target.tokens, search.corpus)
    made = 0
    while (
        (runs is None or made < runs)
        and (seconds is None or clock() - begun < seconds)
        and len(search.report.failures) < most_failures
        and not (runs is None and seconds is None)
    ):
        parent = rng.choice(search.corpus[-_FRESH:] if rng.random() < 0.4 else search.corpus)
        search.trial(mutated(parent, rng, material, target.largest), new=True)
        made += 1
    report = search.report
    report.behaviours, report.corpus = len(search.behaviours), len(search.corpus)
    report.seconds = clock() - begun
    for failure in report.failures:
        failure.data = _small(target, failure)
    return report


def _small(target: Target, failure: Failure) -> bytes:
    def fails(data: bytes) -> bool:
        return signature_of(target, data) == failure.signature

    return minimise(failure.data, fails)


class _Search:
    """What a run has come to so far."""

    def __init__(self, target: Target, report: Report, note: Callable[[bytes], None]) -> None:
        self.report = report
        self.corpus: list[bytes] = []
        self.behaviours: set[frozenset[str]] = set()
        self._target = target
        self._note = note
        self._words: set[str] = set()
        self._signatures: set[str] = set()

    def trial(self, data: bytes, *, new: bool) -> None:
        """Try one input. It stays if it has shown something that none has shown before."""
        self._note(data)
        self.report.inputs += 1
        try:
            with bounded():
                seen = frozenset(self._target.check(data))
        except Exception as error:  # noqa: BLE001 - whatever escapes is what is looked for
            signature = _signature(error)
            if signature not in self._signatures:
                self._signatures.add(signature)
                self.report.failures.append(
                    Failure(signature, data, "".join(traceback.format_exception(error)))
                )
            return
        if seen not in self.behaviours:
            self.behaviours.add(seen)
            if len(self.corpus) < _MOST_ENTRIES:
                self.corpus.append(data)
        elif not new:
            self.corpus.append(data)
        if new and not seen <= self._words:
            self.report.discovered.append(data)
        self._words |= seen


def signature_of(target: Target, data: bytes) -> str | None:
    """Try an input, and return the signature of how it fails; None if it does not."""
    try:
        with bounded():
            target.check(data)
    except Exception as error:  # noqa: BLE001 - as above
        return _signature(error)
    return None


def _signature(error: Exception) -> str:
    """Name a failure: by the promise, or by the type and the place of what escaped."""
    if isinstance(error, Violated):
        return error.promise
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/proxy/" in frame.filename] or frames
    place = own[-1] if own else None
    where = f"{place.filename.rpartition('/proxy/')[2]}:{place.name}" if place is not None else "?"
    return type(error).__name__ if isinstance(error, TooSlow) else f"{type(error).__name__} in {where}"


@contextmanager
def bounded(cpu_seconds: float = CPU_SECONDS) -> Iterator[None]:
    """Raise TooSlow in what takes more processor time than this. In the main thread only."""
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _too_slow(signum: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {CPU_SECONDS:g} s of processor time for one input")
