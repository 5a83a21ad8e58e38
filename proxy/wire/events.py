"""What a parser says: the parts of HTTP messages, in the order in which they arrived.

One message is a head, any number of `bytes`, `Trailers` if there were any, and `END`. `Upgraded` may follow an `END`.
A `WireFault` ends everything: it is the last event of its feed, and nothing comes after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, Literal, NamedTuple, TypeAlias

Field: TypeAlias = tuple[bytes, bytes, bytes]
"""One field line: the name in lower case, the name as received, the value without the space around it."""


class Framing(IntEnum):
    """Where the body of a message ends (RFC 9112 §6.3)."""

    NO_BODY = 0
    LENGTH = 1
    CHUNKED = 2
    UNTIL_CLOSE = 3


@dataclass(slots=True)
class RequestHead:
    """A request line with its fields, checked."""

    method: str
    target: str
    minor: int
    """The version is HTTP/1.`minor`."""
    fields: list[Field]
    """Every field line, in the order and the spelling received."""
    index: dict[bytes, bytes]
    """Lower-case name to value; the values of a repeated field are joined by a comma (RFC 9110 §5.3)."""
    framing: Framing
    length: int | None
    """The length of the content, when `framing` is `LENGTH`."""
    options: frozenset[bytes]
    """The connection options, in lower case (RFC 9110 §7.6.1)."""
    keep_alive: bool
    """Whether the connection persists after this exchange (RFC 9112 §9.3)."""
    upgrade: bytes | None
    """The protocols asked for, when this request asks to leave HTTP (RFC 9110 §7.8). CONNECT is not among them."""
    expect_continue: bool

    def get(self, name: bytes) -> bytes | None:
        """Give the value of the field with this lower-case name."""
        return self.index.get(name)


@dataclass(slots=True)
class ResponseHead:
    """A status line with its fields, checked. The attributes mean what they mean in `RequestHead`."""

    status: int
    reason: str
    minor: int
    fields: list[Field]
    index: dict[bytes, bytes]
    framing: Framing
    length: int | None
    options: frozenset[bytes]
    keep_alive: bool

    @property
    def interim(self) -> bool:
        """Whether another head follows, without an `END` between (RFC 9110 §15.2). 101 is final: it ends HTTP."""
        return self.status < 200 and self.status != 101

    def get(self, name: bytes) -> bytes | None:
        """Give the value of the field with this lower-case name."""
        return self.index.get(name)


class Trailers(NamedTuple):
    """The fields after a chunked body (RFC 9112 §7.1.2)."""

    fields: list[Field]


class End(Enum):
    """The type of `END`, an enum so that the type checker can tell it from the other events."""

    END = "end"


END: Final = End.END
"""The end of a message."""


class Upgraded(NamedTuple):
    """What follows on this connection is another protocol, beginning with `rest`."""

    rest: bytes


class WireFault(NamedTuple):
    """What arrived cannot be taken as HTTP, and the connection is of no further use."""

    status: int
    """The status that says so: of the 4xx and 5xx for a request, 502 for a response."""
    reason: str
    """A short token for records and metrics; `faults` has them all."""
    detail: str
    """One sentence for people: what is wrong where, and what to send instead."""


Event: TypeAlias = RequestHead | ResponseHead | bytes | Trailers | Literal[End.END] | Upgraded | WireFault
