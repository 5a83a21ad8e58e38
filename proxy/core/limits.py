"""What a request head states about time: `Budget-*` and the limits of other systems, read by exact rules.

The budget's own numbers are `[0-9]{1,10}` and nothing else. A number that is almost right is an error, never a
guess: a limit that was misread is a promise that nobody made. Two field lines (or one list) of the same number are
one statement; of different numbers, an error.

Foreign limits that are part of a protocol (`grpc-timeout`, `Connect-Timeout-Ms`, Envoy's) are as strict. The timers
that SDKs volunteer are not the developer's to correct, so one that cannot be read is left out of account.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

from proxy.core.budget import CallPhase
from proxy.core.units import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND
from proxy.values import Value

_DIGITS: Final = 10
_COMMA: Final = 0x2C
_BUDGET_ID: Final = re.compile(rb"[A-Za-z0-9._~:-]{1,128}\Z")
_STAGE: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z")
_KEY: Final = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?\Z")
_GRPC_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])\Z")  # gRPC over HTTP/2, "Timeout"
_GRPC_UNITS: Final = {b"H": HOUR, b"M": MINUTE, b"S": SECOND, b"m": MILLISECOND, b"u": MICROSECOND, b"n": 1}
_SECONDS: Final = re.compile(rb"([0-9]{1,10})(?:\.([0-9]{1,9})[0-9]*)?\Z")
_COUNT: Final = re.compile(rb"[0-9]{1,4}\Z")
_ATTEMPT: Final = re.compile(rb"(?:\A|[;\s])attempt=([0-9]{1,4})(?:[;\s]|\Z)")
# W3C Trace Context, §3.2.2: an id of zeros is none, and version ff is not allowed.
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z"
)


class MalformedLimit(ValueError):
    """A limit header that cannot be read. `field` names it, `problem` says what is wrong and what is right."""

    def __init__(self, field: str, problem: str) -> None:
        """Keep the field's name and the sentence that explains the fault."""
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Limits(Value):
    """What one request states. Spans are nanoseconds; None means that nothing was stated.

    `attempts`: how many attempts at this unit its client says that it has made before.
    """

    _fields: ClassVar[tuple[str, ...]] = (
        "remaining",
        "budget_id",
        "reserve",
        "stage",
        "phase",
        "depth",
        "confirmed",
        "key",
        "foreign",
        "client_timer",
        "trace_id",
        "proxy_user",
        "proxy_remaining",
        "attempts",
    )
    __slots__ = _fields

    def __init__(
        self,
        remaining: int | None = None,
        budget_id: str | None = None,
        reserve: int | None = None,
        stage: str | None = None,
        phase: CallPhase = CallPhase.WORK,
        depth: int = 0,
        confirmed: bool = False,
        key: str | None = None,
        foreign: int | None = None,
        client_timer: int | None = None,
        trace_id: str | None = None,
        proxy_user: str | None = None,
        proxy_remaining: int | None = None,
        attempts: int = 0,
    ) -> None:
        """Take what is known."""
        self.remaining: Final = remaining
        self.budget_id: Final = budget_id
        self.reserve: Final = reserve
        self.stage: Final = stage
        self.phase: Final = phase
        self.depth: Final = depth
        self.confirmed: Final = confirmed
        self.key: Final = key
        self.foreign: Final = foreign
        self.client_timer: Final = client_timer
        self.trace_id: Final = trace_id
        self.proxy_user: Final = proxy_user
        self.proxy_remaining: Final = proxy_remaining
        self.attempts: Final = attempts

    @property
    def stated(self) -> bool:
        """Whether the call states a budget of its own, or names one. A trace is there whether or not it is one's name."""
        return self.remaining is not None or self.budget_id is not None or self.proxy_user is not None


NOTHING_STATED: Final = Limits()


def _one(field: str, value: bytes) -> bytes:
    """Return the single member of a field that may have been repeated with the same value."""
    if _COMMA not in value:
        return value
    first, *others = value.split(b", ")
    if any(other != first for other in others):
        raise MalformedLimit(field, "stated twice with different values; send it once")
    return first


def number(field: str, value: bytes) -> int:
    """Read `[0-9]{1,10}`, nothing else. Raises MalformedLimit."""
    digits = _one(field, value)
    if not digits.isdigit() or len(digits) > _DIGITS:
        raise MalformedLimit(
            field, "must be 1 to 10 ASCII digits, a whole number without sign, point or spaces"
        )
    return int(digits)


def _milliseconds(field: str, value: bytes) -> int:
    return number(field, value) * MILLISECOND


def _matching(field: str, value: bytes, pattern: re.Pattern[bytes], rule: str) -> str:
    text = _one(field, value)
    if not pattern.match(text):
        raise MalformedLimit(field, rule)
    return text.decode("ascii")


def _budget_id(field: str, value: bytes) -> str:
    return _matching(field, value, _BUDGET_ID, "must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ : -")


def _stage(field: str, value: bytes) -> str:
    return _matching(field, value, _STAGE, "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")


def _key(field: str, value: bytes) -> str:
    if not _KEY.match(value):
        raise MalformedLimit(field, "must be 1 to 1024 visible ASCII characters")
    return value.decode("ascii")


def _phase(field: str, value: bytes) -> CallPhase:
    text = _one(field, value)
    if text == b"work":
        return CallPhase.WORK
    if text == b"cleanup":
        return CallPhase.CLEANUP
    raise MalformedLimit(field, "must be `work` or `cleanup`")


def _confirmed(field: str, value: bytes) -> bool:
    if _one(field, value) != b"confirmed":
        raise MalformedLimit(field, "must be `confirmed`, after checking that the first write did not happen")
    return True


def _grpc_timeout(field: str, value: bytes) -> int:
    match = _GRPC_TIMEOUT.match(_one(field, value))
    if match is None:
        raise MalformedLimit(field, "must be 1 to 8 digits and one unit of H M S m u n")
    return int(match[1]) * _GRPC_UNITS[match[2]]


def _seconds(value: bytes) -> int | None:
    """Read decimal seconds as SDKs print them; None when the value is something else.

    Zero is something else too: SDKs in JavaScript round down to whole seconds, and say it for any timer under one.
    """
    match = _SECONDS.match(value)
    if match is None:
        return None
    return int(match[1]) * SECOND + int((match[2] or b"").ljust(9, b"0")) or None


def _proxy_credentials(value: bytes) -> tuple[str | None, int | None]:
    """Read the user (a budget id) and the password (a remainder, if it is all digits) of the proxy URL."""
    field = "Proxy-Authorization"
    scheme, _, encoded = value.partition(b" ")
    if scheme.lower() != b"basic":
        return None, None
    try:
        user, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        raise MalformedLimit(field, "is not valid Basic credentials (RFC 7617)") from None
    if not user:
        return None, None
    if not _BUDGET_ID.match(user):
        raise MalformedLimit(
            field, "the user of the proxy URL is a budget id: A-Z a-z 0-9 . _ ~ : -, at most 128"
        )
    stated = _milliseconds(f"{field} (its password)", password) if password.isdigit() else None
    return user.decode("ascii"), stated


_REMAINING: Final = b"budget-remaining-ms"
# Field, slot of Limits, reader: the contract's table of request headers, as data.
_FIELDS: Final[dict[bytes, tuple[str, str, Callable[[str, bytes], Any]]]] = {
    _REMAINING: ("Budget-Remaining-Ms", "remaining", _milliseconds),
    b"budget-id": ("Budget-Id", "budget_id", _budget_id),
    b"budget-reserve-ms": ("Budget-Reserve-Ms", "reserve", _milliseconds),
    b"budget-stage": ("Budget-Stage", "stage", _stage),
    b"budget-phase": ("Budget-Phase", "phase", _phase),
    b"budget-depth": ("Budget-Depth", "depth", number),
    b"budget-retry": ("Budget-Retry", "confirmed", _confirmed),
    b"grpc-timeout": ("grpc-timeout", "foreign", _grpc_timeout),
    b"connect-timeout-ms": ("Connect-Timeout-Ms", "foreign", _milliseconds),
    b"x-envoy-expected-rq-timeout-ms": ("X-Envoy-Expected-Rq-Timeout-Ms", "foreign", _milliseconds),
}
_TIMERS: Final = (b"x-stainless-read-timeout", b"x-stainless-timeout", b"x-server-timeout")
_RETRY_COUNT: Final = b"x-stainless-retry-count"
_SDK_REQUEST: Final = b"amz-sdk-request"
_OTHERS: Final = frozenset({*_TIMERS, b"traceparent", b"proxy-authorization", _RETRY_COUNT, _SDK_REQUEST})
_NAMES: Final = frozenset({*_FIELDS, *_OTHERS})


def read_limits(
    fields: dict[bytes, bytes], key_field: bytes = b"idempotency-key", *, by_trace: bool = False
) -> Limits:
    """Read every limit that a head states. `fields` maps lower-case names to values joined with ", ".

    `key_field` is the route's name for the idempotency key; `by_trace` says whether a trace id names a budget.
    Raises MalformedLimit with the field's name and the remedy.
    """
    names = [name for name in fields if name in _NAMES]
    if key_field not in fields:
        if not names:
            return NOTHING_STATED
        if (
            len(names) == 1 and names[0] == _REMAINING
        ):  # what a call states that states something, and mostly all
            return Limits(_milliseconds("Budget-Remaining-Ms", fields[_REMAINING]))
    stated: dict[str, Any] = {}
    for name, (field, slot, read) in _FIELDS.items():
        if name in names:
            value = read(field, fields[name])
            stated[slot] = min(value, stated[slot]) if slot in stated else value  # foreign limits share one
    if key_field in fields:
        stated["key"] = _key(key_field.decode("latin-1").title(), fields[key_field])
    if not _OTHERS.isdisjoint(names):
        _read_others(fields, stated, by_trace=by_trace)
    return Limits(**stated)


def _attempts_before(fields: dict[bytes, bytes]) -> int:
    """Read how many attempts an SDK has made before this one: its retries so far, or the number of this attempt.

    They are volunteered, so one that cannot be read says nothing.
    """
    match = _COUNT.match(fields.get(_RETRY_COUNT, b""))
    if match is not None:
        return int(match[0])
    numbered = _ATTEMPT.search(fields.get(_SDK_REQUEST, b""))
    return max(0, int(numbered[1]) - 1) if numbered is not None else 0


def _read_others(fields: dict[bytes, bytes], stated: dict[str, Any], *, by_trace: bool) -> None:
    """Read what only some callers send: an SDK's own timer, the proxy user, the trace."""
    timers = [span for name in _TIMERS if name in fields and (span := _seconds(fields[name])) is not None]
    if timers:
        stated["client_timer"] = min(timers)
    if _RETRY_COUNT in fields or _SDK_REQUEST in fields:
        stated["attempts"] = _attempts_before(fields)
    if b"proxy-authorization" in fields:
        user, remaining = _proxy_credentials(fields[b"proxy-authorization"])
        stated["proxy_user"], stated["proxy_remaining"] = user, remaining
    if by_trace and (match := _TRACEPARENT.match(fields.get(b"traceparent", b""))):
        stated["trace_id"] = match[1].decode("ascii")
