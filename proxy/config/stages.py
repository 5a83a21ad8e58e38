"""Readers of stages: the shares that a budget is divided into, and the one that a route belongs to."""

from __future__ import annotations

import re
from typing import Final

from proxy.config.faults import Refusal, quoted
from proxy.config.reading import MISSING, MapOf, Value, scalar
from proxy.config.scalars import duration
from proxy.config.shape import Shape
from proxy.core.policy import SLACK, Share
from proxy.core.units import MILLISECOND

_STAGE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")  # as `Budget-Stage` names one

_span: Final = duration(MILLISECOND)
_slack: Final = duration()


def _named(text: str) -> str:
    if not _STAGE.match(text):
        remedy = "write 1 to 64 characters of A-Z a-z 0-9 . _ -"
        raise Refusal(f"{quoted(text)} is not the name of a stage", remedy)
    return text


def _claimed(text: str) -> str:
    if text == SLACK:
        raise Refusal(f'"{SLACK}" is the share that no call may claim', "write the name of another stage")
    return _named(text)


stage: Final = scalar(_claimed, Shape(pattern=_STAGE, never=(SLACK,)))


def _shares(value: Value) -> tuple[Share, ...]:
    """Read a mapping of stages to spans, in the order of the file. Only the slack may be nothing. Raises Refusal."""
    found: list[Share] = []
    for name, entry in value.entries():
        try:
            _named(name)
        except Refusal as refusal:
            entry.refuse(refusal)
            continue
        span = entry.read(_slack if name == SLACK else _span)
        if span is not MISSING:
            found.append(Share(name, span))
    return tuple(found)


def in_order(given: tuple[Share, ...], order: tuple[str, ...]) -> tuple[Share, ...]:
    """Return shares in the order of their names, the slack behind them; as they stand where it does not name each of them."""
    if set(order) != {share.stage for share in given} - {SLACK}:
        return given
    return tuple(
        sorted(given, key=lambda share: len(order) if share.stage == SLACK else order.index(share.stage))
    )


shares: Final = MapOf(_shares, names=Shape(pattern=_STAGE), values=_slack.shape)
