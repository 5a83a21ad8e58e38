"""Whether the sidecar itself tries a call again, and when: a decision, made after each attempt that failed.

A retry is made where the route asks for it, the unit may be repeated, the attempts and the retry budget are not used up,
and it still fits: backoff and all, in what is left. Where it does not, the last answer is returned at once, with no time
lost in waiting for nothing.

The backoff is exponential with full jitter: before the n-th retry, somewhere between nothing and `base * 2^(n-1)` or
`cap`, whichever is less. A `Retry-After` is obeyed where it asks for more.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from proxy.core.calls import Outcome
from proxy.core.policy import Retries
from proxy.core.units import SECOND

WINDOW: Final = 10 * SECOND
"""How far back calls and retries count towards the retry budget (nanoseconds)."""
_SLICES: Final = 10
_SLICE: Final = WINDOW // _SLICES


class Again(NamedTuple):
    """The decision. `after`: the wait before the next attempt (nanoseconds); None: there is none, and `why`."""

    after: int | None
    why: str = ""


NOT_ASKED: Final = Again(None, "not_asked")
NOT_SAFE: Final = Again(None, "not_safe")
NOT_KEPT: Final = Again(None, "body_too_large")
USED_UP: Final = Again(None, "attempts_used_up")
NO_TIME: Final = Again(None, "no_time")
WITHHELD: Final = Again(None, "retry_budget")


class Failure(NamedTuple):
    """How an attempt ended. `status`: of a whole answer; `retry_after`: what it asked for (nanoseconds).

    `reason`, `detail`: what is said of it, if it was the last.
    """

    outcome: Outcome
    status: int | None = None
    retry_after: int | None = None
    reason: str = ""
    detail: str = ""


def again(
    retries: Retries | None,
    failure: Failure,
    *,
    made: int,
    repeatable: bool,
    kept: bool = True,
    left: int | None,
    min_start: int,
    jitter: float,
    granted: bool,
) -> Again:
    """Decide on another attempt after `made` of them.

    `repeatable`: the unit may be sent again. `kept`: all of its body is still here. `left`: what is left of the allowance (None: no end). `jitter` is drawn
    from [0, 1). `granted`: the retry budget has room.
    """
    if retries is None or not asked(retries, failure):
        return NOT_ASKED
    if not repeatable:
        return NOT_SAFE
    if not kept:
        return NOT_KEPT
    if made > retries.max:
        return USED_UP
    wait = int(jitter * min(retries.cap, retries.base << min(made - 1, 63)))
    if failure.retry_after is not None:
        wait = max(wait, failure.retry_after)
    if left is not None and wait + max(1, min_start) > left:
        return NO_TIME
    return Again(wait) if granted else WITHHELD


def asked(retries: Retries, failure: Failure) -> bool:
    """Say whether a route asks for another attempt after such an end."""
    return failure.outcome in retries.outcomes or failure.status in retries.statuses


class RetryBudget:
    """How many retries a route may make: a share of its recent calls, and a few a second in any case.

    As Finagle and Linkerd do it, so that retries can never multiply the load of a tool that fails. Time is kept in slices,
    and what is not sure to be within the window is counted to be on the safe side: of the slice in which it begins, the
    retries count and the calls do not.
    """

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._slices: deque[tuple[int, list[int]]] = deque()  # number, [calls, retries]

    def call(self, now: int) -> None:
        """Count a call."""
        self._slice(now)[0] += 1

    def allows(self, retries: Retries, now: int) -> bool:
        """Say whether one more retry is within the budget."""
        self._slice(now)
        whole = now // _SLICE - _SLICES
        calls = sum(counts[0] for number, counts in self._slices if number > whole)
        spent = sum(counts[1] for _, counts in self._slices)
        return spent < retries.ratio * calls // 100 + retries.floor * WINDOW // SECOND

    def spend(self, now: int) -> None:
        """Count a retry."""
        self._slice(now)[1] += 1

    def _slice(self, now: int) -> list[int]:
        number = now // _SLICE
        while self._slices and self._slices[0][0] < number - _SLICES:
            self._slices.popleft()
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, [0, 0]))
        return self._slices[-1][1]
