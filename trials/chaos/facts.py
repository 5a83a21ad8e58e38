"""What each side says of a call, each in its own words: its client, the upstream's account, the sidecar's record.

All of it passes as lines of JSON, so that what a run has seen can be kept and judged again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from trials.chaos.words import kind_of

Record = Mapping[str, Any]
"""A step's record, as the log has it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A call as its client meant it. `number`: the how-manieth of its unit. `ways`: how the upstream shall behave, by arrival.

    `leave`: at which phase the client leaves, with a RST if `rudely`. `stated_ms`: the budget that it states.
    """

    id: str
    unit: str
    number: int
    route: str
    method: str
    place: str
    ways: tuple[str, ...]
    key: str | None = None
    size: int = 0
    chunked: bool = False
    confirmed: bool = False
    budget: str | None = None
    stated_ms: int | None = None
    leave: str | None = None
    rudely: bool = False

    @property
    def kind(self) -> str:
        """What a repetition would do."""
        return kind_of(self.route, self.method)


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of a call, for its client. Times are nanoseconds of the machine's monotonic clock.

    `sent`: how much of the request went out (`nothing`, `part`, `head`, `whole`). `end`: how it ended (`message`, `fin`,
    `reset`, `garbage`, `left`, `hung`, `unreached`). `body`: whether it is what it should be (`equal`, a `prefix`, a stream
    that was `closed` or `failed` after one, `own`: the sidecar's, `different`). `fields`: those of the head that matter.
    """

    began: int
    ended: int
    sent: str
    end: str
    status: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    trailers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    size: int = 0
    problem: dict[str, Any] | None = None

    @property
    def whole(self) -> bool:
        """Whether its client may take it for a whole answer."""
        return self.end == "message"

    @property
    def outcome(self) -> Outcome | None:
        """What the head says of the call, if there was one."""
        said = self.fields.get("budget-outcome")
        return outcome_of(said) if said is not None else None

    @property
    def completed(self) -> bool:
        """Whether its client has the upstream's answer, whole."""
        outcome = self.outcome
        if not self.whole or outcome is None or self.problem is not None:
            return False
        return outcome.token in ("completed", "in_progress")


class Outcome(NamedTuple):
    """`Budget-Outcome`, taken apart."""

    token: str
    parameters: dict[str, str]

    def get(self, name: str) -> str | None:
        """Return a parameter."""
        return self.parameters.get(name)


def outcome_of(value: str) -> Outcome:
    """Take a `Budget-Outcome` apart (RFC 9651, as far as it is used). Raises ValueError."""
    token, *parameters = value.split("; ")
    return Outcome(token, dict(_parameter(each) for each in parameters))


def _parameter(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise ValueError(f"{text!r} is no parameter")
    return name, value


@dataclass(frozen=True, slots=True)
class Told:
    """A call and what its client says of it."""

    ask: Ask
    heard: Heard

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps({"ask": asdict(self.ask), "heard": asdict(self.heard)}) + "\n"

    @classmethod
    def read(cls, line: str) -> Told:
        """Read such a line."""
        document = json.loads(line)
        ask = document["ask"] | {"ways": tuple(document["ask"]["ways"])}
        return cls(Ask(**ask), Heard(**document["heard"]))


class Seen(NamedTuple):
    """One line of the upstream's account. `event`, in the order in which they come:

    `touched` (some bytes of it, which nobody read on), `head` (of both, `detail` is the port it came from), `whole` (all of the request), `committed` (done; `detail`: the
    method, or `again` where it was done before under a key that is honoured), `answering` (the first byte of an answer left), `answered` (the last one).
    Of no call: `asked` (a question about a write; `detail`: what was said), `malformed` and `fault`.
    """

    event: str
    call: str
    unit: str
    arrival: int
    at: int
    detail: str = ""

    def line(self) -> bytes:
        """Return it as a line of JSON."""
        return json.dumps(self).encode() + b"\n"

    @classmethod
    def read(cls, line: str) -> Seen:
        """Read such a line."""
        return cls(*json.loads(line))


_NOTHING = Seen("", "", "", 0, 0)


class Account:
    """The upstream's account, by call and by unit. It only grows."""

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        """Take what is there."""
        self._of_call: dict[str, list[Seen]] = {}
        self._asked: dict[str, list[Seen]] = {}
        self.faults: list[Seen] = []
        self.malformed: list[Seen] = []
        for each in seen:
            self.add(each)

    def add(self, seen: Seen) -> None:
        """Take a line."""
        if seen.event == "asked":
            self._asked.setdefault(seen.call, []).append(seen)
        elif seen.event == "fault":
            self.faults.append(seen)
        elif seen.event == "malformed":
            self.malformed.append(seen)
        else:
            self._of_call.setdefault(seen.call, []).append(seen)

    def of(self, call: str) -> list[Seen]:
        """Return all that was seen of a call."""
        return self._of_call.get(call, [])

    def first(self, call: str, *events: str) -> Seen | None:
        """Return the first of these that was seen of a call."""
        return next((seen for seen in self.of(call) if seen.event in events), None)

    def arrivals(self, call: str) -> int:
        """Return how often its head has arrived."""
        return sum(seen.event == "head" for seen in self.of(call))

    def last_on(self, port: str) -> str:
        """Return the call that came last on the connection from a port; "" where none did."""
        heads = [seen for of in self._of_call.values() for seen in of if seen.event in ("head", "touched")]
        return max(
            (seen for seen in heads if seen.detail == port), key=lambda seen: seen.at, default=_NOTHING
        ).call

    def absent(self, record: str, before: int) -> int:
        """Return how often it was said, to a question about a write's record, that there is nothing."""
        return sum(seen.detail == "404" and seen.at < before for seen in self._asked.get(record, ()))

    @property
    def asked(self) -> int:
        """How many questions there were."""
        return sum(map(len, self._asked.values()))
