"""What a parser says: the parts of HTTP messages, in the order in which they arrived.

One message is a head, any number of `bytes`, `Trailers` if there were any, and `END`. `Upgraded` may follow an `END`.
A `WireFault` ends everything: it is the last event of its feed, and nothing comes after it.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

from proxy.values import Value

Field: TypeAlias = tuple[bytes, bytes, bytes]
"""One field line: the name in lower case, the name as received, the value without the space around it."""


class Framing(IntEnum):
    """Where the body of a message ends (RFC 9112 §6.3)."""

    NO_BODY = 0
    LENGTH = 1
    CHUNKED = 2
    UNTIL_CLOSE = 3


class RequestHead(Value):
    """A request line with its fields, checked.

    The version is HTTP/1.`minor`. `fields`: every field line, in the order and the spelling received. `index`: lower-case
    name to value; the values of a repeated field are joined by a comma (RFC 9110 §5.3). `length`: that of the content, when
    `framing` is `LENGTH`. `options`: those of the connection, in lower case (RFC 9110 §7.6.1). `keep_alive`: whether the
    connection persists after this exchange (RFC 9112 §9.3). `upgrade`: the protocols asked for, when this request asks to
    leave HTTP (RFC 9110 §7.8); CONNECT is not among them.
    """

    _fields: ClassVar[tuple[str, ...]] = (
        "method",
        "target",
        "minor",
        "fields",
        "index",
        "framing",
        "length",
        "options",
        "keep_alive",
        "upgrade",
        "expect_continue",
    )
    __slots__ = _fields

    def __init__(
        self,
        method: str,
        target: str,
        minor: int,
        fields: list[Field],
        index: dict[bytes, bytes],
        framing: Framing,
        length: int | None,
        options: frozenset[bytes],
        keep_alive: bool,
        upgrade: bytes | None,
        expect_continue: bool,
    ) -> None:
        """Take what was read."""
        self.method: Final = method
        self.target: Final = target
        self.minor: Final = minor
        self.fields: Final = fields
        self.index = index  # a tunnel may state more for it
        self.framing: Final = framing
        self.length: Final = length
        self.options: Final = options
        self.keep_alive = keep_alive
        self.upgrade: Final = upgrade
        self.expect_continue: Final = expect_continue

    def get(self, name: bytes) -> bytes | None:
        """Give the value of the field with this lower-case name."""
        return self.index.get(name)


class ResponseHead(Value):
    """A status line with its fields, checked. The attributes mean what they mean in `RequestHead`."""

    _fields: ClassVar[tuple[str, ...]] = (
        "status",
        "reason",
        "minor",
        "fields",
        "index",
        "framing",
        "length",
        "options",
        "keep_alive",
    )
    __slots__ = _fields

    def __init__(
        self,
        status: int,
        reason: str,
        minor: int,
        fields: list[Field],
        index: dict[bytes, bytes],
        framing: Framing,
        length: int | None,
        options: frozenset[bytes],
        keep_alive: bool,
    ) -> None:
        """Take what was read."""
        self.status: Final = status
        self.reason: Final = reason
        self.minor: Final = minor
        self.fields: Final = fields
        self.index: Final = index
        self.framing: Final = framing
        self.length: Final = length
        self.options: Final = options
        self.keep_alive = keep_alive

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
