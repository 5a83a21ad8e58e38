"""What is said to people of an answer that was less than asked: a mark, the rung that gave it, and why."""

from __future__ import annotations

from typing import Any, Final

from proxy.cli.output import one_line

Document = dict[str, Any]

UNICODE_MARK: Final = "↓"
ASCII_MARK: Final = "v"

_WHY: Final = {
    "time": "the better ones need more than was left",
    "failed": "a better one was tried, and failed",
    "slow": "a better one said nothing while this one still fitted",
    "busy": "admission had no place for the better ones",
    "body": "the request could not be changed as a better one says",
    "missed": "the cache, a better one, had nothing",
    "truncated": "its stream was closed before its end",
    "delegated": "the job that it had asked says so itself",
}
_FROM_CACHE: Final = {
    "hit": "the same had been asked before",
    "stale": "an old answer was all that was to be had",
    "semantic": "the same had been asked in other words",
}


def rung_and_why(degraded: Document) -> tuple[str, str]:
    """Return the rung that answered and, in brackets, why it did."""
    return one_line(degraded["rung"]), f"({one_line(degraded['reason'])})"


def on_less(step: Document) -> str | None:
    """Say in the rest of a sentence that a step was answered with less, by which rung, and why; None if it was not."""
    degraded = step["degraded"]
    if degraded is None:
        return None
    by = f" by the rung {one_line(step['rung'])}" if step["rung"] is not None else ""
    reason = degraded["reason"]
    return f"was answered with less{by}: {_WHY.get(reason, one_line(reason))}"


def on_cache(step: Document) -> str | None:
    """Say in the rest of a sentence that a step was answered from the cache; None if it was not."""
    why = _FROM_CACHE.get(step["cache"])
    return f"was answered from the cache: {why}" if why is not None else None
