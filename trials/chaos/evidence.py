"""All that is known of one act, from all sides, and how a check reports what it makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trials.chaos.facts import Account, Record, Told


class Trouble(NamedTuple):
    """A time in which the journal could not be written, and what the policy said of that."""

    since: int
    until: int
    on_failure: str


class Life(NamedTuple):
    """What one incarnation of the sidecar had to say of itself, as far as checks look at it. Times as everywhere here."""

    number: int
    started: int
    ended_at: int | None
    ended_by: str
    status: int | None
    records: Sequence[Record]
    """Of this act."""
    steps: int
    """How many records it has left altogether."""
    total: float | None
    """How many steps it has counted itself, when all was at rest."""
    complaints: Sequence[str]
    """What it logged as a fault, and lines that are none of the log's."""


CONNECTION: Final = "open connection "
"""How the name of what is left begins where it is a connection; the port of its near end follows, and an arrow."""


class Rest(NamedTuple):
    """What was still in use when all was at rest, by name. `counted`: by how many names it was looked for."""

    left: dict[str, float]
    counted: int


class Unsettled(NamedTuple):
    """A write as the control API shows it, or as it was found on disk after a kill."""

    record: str
    state: str


@dataclass
class Evidence:
    """What is known of one act."""

    calls: list[Told]
    account: Account
    lives: list[Life] = field(default_factory=list)
    rests: list[Rest] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    shown: list[Unsettled] = field(default_factory=list)
    """By the control API, at the end."""
    recovered: dict[int, dict[str, str]] = field(default_factory=dict)
    """By the incarnation that was killed: the states of writes that were found on disk afterwards, by unit."""
    remembered: list[Unsettled] = field(default_factory=list)
    """What a sidecar shows after a kill of writes that were uncertain on disk."""
    refused_policies: list[bool] = field(default_factory=list)
    """For each faulty policy: whether the old one was in force as before."""

    def __post_init__(self) -> None:
        """Find records by the call that they are of, and calls by their unit."""
        self._units: dict[str, list[Told]] = {}
        for told in self.calls:
            self._units.setdefault(told.ask.unit, []).append(told)
        self._records: dict[str, list[Record]] = {}
        for life in self.lives:
            for record in life.records:
                self._records.setdefault(str(record["stage"]), []).append(record)
        self.by_record = {str(each["record"]): call for call, of in self._records.items() for each in of}

    def records(self, call: str) -> Sequence[Record]:
        """Return the records of a call: one, if all is well."""
        return self._records.get(call, ())

    def record(self, call: str) -> Record | None:
        """Return the record of a call, if there is one."""
        return next(iter(self.records(call)), None)

    def unit(self, told: Told) -> Sequence[Told]:
        """Return all calls of the unit that a call is of."""
        return self._units[told.ask.unit]

    def life_at(self, when: int) -> Life | None:
        """Return the incarnation that ran at a time."""
        running = [life for life in self.lives if life.started <= when]
        return running[-1] if running else None

    def killed_during(self, told: Told) -> bool:
        """Whether the sidecar may have been killed while a call was under way, or just before its record was written.

        What a client has left behind may be under way for longer than the client knows.
        """
        before = STARVED if told.heard.end == "left" else LOG_DELAY
        return any(
            life.ended_by == "kill"
            and life.ended_at is not None
            and told.heard.began <= life.ended_at + LOG_DELAY
            and told.heard.ended >= life.ended_at - before
            for life in self.lives
        )

    def unjournaled(self, when: int) -> bool:
        """Whether a write that began then may have gone on without its intent on disk."""
        return any(
            trouble.on_failure == "continue"
            and trouble.since - LOG_DELAY <= when <= trouble.until + LOG_DELAY
            for trouble in self.troubles
        )


STARVED: Final = 15_000_000_000
"""How long a sidecar that is starved may take to accept a connection and to read from it (nanoseconds)."""
LOG_DELAY: Final = 2_000_000_000
"""How long a line of the log, or a word of a client, may be under way, with a margin for a busy machine (nanoseconds)."""


class Finding(NamedTuple):
    """Something that did not hold: which check, of which call, in words."""

    check: str
    call: str
    words: str


@dataclass
class Look:
    """One check over one act. `exercised`: how often there was something to look at."""

    check: str
    exercised: int = 0
    findings: list[Finding] = field(default_factory=list)

    def hold(self, true: bool, call: str, words: str) -> None:
        """Look at one thing that should be true."""
        self.exercised += 1
        if not true:
            self.findings.append(Finding(self.check, call, words))
