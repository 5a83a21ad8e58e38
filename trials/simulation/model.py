"""What really happened: each call as its client made it, and as the servers saw it. The sidecar knows nothing of this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from trials.simulation.pipes import End


class Answer(NamedTuple):
    """What a client has heard. `status` 0: nothing that could be read; `whole`: to its end, by HTTP's own rules.

    `end`: how its connection was, `open`, `closed`, `reset`, `refused` (there was none), or `left` (by the client itself).
    """

    status: int
    fields: dict[str, str]
    body: bytes
    whole: bool
    end: str

    @property
    def outcome(self) -> str:
        """The outcome that the sidecar has told."""
        return self.fields.get("budget-outcome", "").partition(";")[0]

    @property
    def effect(self) -> str:
        """The effect that the sidecar has told."""
        return self.fields.get("budget-outcome", "").partition("effect=")[2].partition(";")[0]

    @property
    def record(self) -> str:
        """The id of the record that the sidecar has told."""
        return self.fields.get("budget-record", "")


@dataclass
class Attempt:
    """One arrival of a call at a server. Times are nanoseconds on the run's clock; None: not, so far."""

    call: int
    server: str
    at: int
    whole: int | None = None
    committed: int | None = None
    may_commit: bool = False
    answer: bytes | None = None
    """The whole body that it means to answer with."""
    status: int = 0
    lied: bool = False
    """Its end is not told honestly: a wrong length, or the end of the connection for the end of the body."""
    said: int | None = None
    """When it had sent all of its answer."""


@dataclass
class Call:
    """One request of one client. `unit`: what it asks for, as the guard sees it; `inbound`: it is an entry request."""

    number: int
    host: str
    method: str
    path: str
    body: bytes
    key: str | None
    who: str
    confirmed: bool
    inbound: bool
    at: int
    process: int = 0
    record: str = ""
    answers: list[Answer] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    sent_at: int | None = None
    """When the sidecar has sent it first."""
    declared_at: int | None = None
    """When its intent was on its way to the journal, so that it was past the guard."""
    ended_at: int | None = None
    """When it has left its record, or died with its process."""
    ways: list[End] = field(default_factory=list)
    """The connections that the sidecar has sent it on."""

    @property
    def unit(self) -> tuple[str, str, str, bytes]:
        """The work that it asks for."""
        return self.host, self.method, self.path, self.body

    @property
    def committed(self) -> int:
        """How often it was carried out."""
        return sum(attempt.committed is not None for attempt in self.attempts)

    @property
    def answer(self) -> Answer | None:
        """What its client has heard, if it has come to an end."""
        return self.answers[-1] if self.answers else None


class Model:
    """All calls of one run."""

    def __init__(self) -> None:
        """Begin with none."""
        self.calls: dict[int, Call] = {}
        self.by_key: dict[tuple[str, str], list[Call]] = {}
        self.by_unit: dict[tuple[str, str, str, bytes], list[Call]] = {}
        self.stray: list[str] = []
        """What servers and clients have heard that nobody could have sent."""

    def add(self, call: Call) -> None:
        """Take a call that a client is about to make."""
        self.calls[call.number] = call
        self.by_unit.setdefault(call.unit, []).append(call)
        if call.key is not None:
            self.by_key.setdefault((call.host, call.key), []).append(call)

    def arrived(self, number: int, server: str, now: int) -> Attempt:
        """Take note that the head of a call has arrived at a server."""
        attempt = Attempt(number, server, now)
        call = self.calls.get(number)
        if call is None:
            self.stray.append(f"{server} has heard of a call {number} that nobody has made")
        else:
            call.attempts.append(attempt)
        return attempt

    def happened(self, host: str, key: str) -> bool:
        """Say whether a write with this key was carried out at a host."""
        return any(call.committed for call in self.by_key.get((host, key), ()))

    def is_keyed_twin(self, call: Call) -> bool:
        """Say whether another call with the same key was carried out, which a question by the key cannot tell from this one."""
        return call.key is not None and self.happened(call.host, call.key)

    def in_doubt(self, call: Call) -> bool:
        """Say whether a call may yet be carried out."""
        if any(each.may_commit and each.committed is None for each in call.attempts):
            return True
        return any(end.conn.under_way(end) or end.other.unread for end in call.ways)
