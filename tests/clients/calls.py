"""A call as a client makes it, and what the client is left with when it has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tests.support.sidecar import Sidecar


class Call(NamedTuple):
    """Where a client is told to go. The environment says the same as `proxy`; some clients want it said."""

    base: str
    proxy: str
    budget: str
    ca: Path | None = None


class Failed(NamedTuple):
    """How a call failed for its client.

    `says` is the error as it stands in a log; `carries` is what a program finds in it besides.
    """

    status: int | None
    says: str
    carries: str = ""


def uncertain(sidecar: Sidecar, call: Call) -> list[dict[str, Any]]:
    """The writes of a call's budget whose effect is unknown now."""
    writes = sidecar.ask("/uncertain?state=uncertain")["writes"]
    return [write for write in writes if write["budget_id"] == call.budget]
