"""Whether a write happened, found out by a read that the route names: what to ask, and what an answer says.

A yes is believed at once. A no is believed only when the other side can no longer be at work on the write (its
connection has ended, and some time has passed): what is not there yet may be about to be.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

from proxy.core import exact_json
from proxy.core.json_path import ABSENT
from proxy.core.policy import Verify
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteRecord

FIRST_WAIT: Final = 250 * MILLISECOND
LONGEST_WAIT: Final = 30 * SECOND
ASK_TIME: Final = 5 * SECOND
"""How long one question may take (nanoseconds)."""
MOST_BODY: Final = exact_json.MOST_BYTES
"""How much of an answer is read; a longer one says nothing."""

_HOLE: Final = re.compile(r"\{([a-z_]+)\}")
# A segment that is a step and no name (RFC 3986 §5.2.4), or holds one for a reader that undoes the encoding first.
_STEP: Final = re.compile(r"(?:\A|[/\\])\.\.?(?:[/\\]|\Z)")
_ABSENT_STATUS: Final = 404


class Found(StrEnum):
    """What an answer says of the write."""

    APPLIED = "applied"
    ABSENT = "absent"
    UNKNOWN = "unknown"


def question(verify: Verify, record: WriteRecord) -> str | None:
    """Return the path to ask for a write, or None when there is none that asks for this write and nothing else.

    That is so when it lacks what the path has a hole for (its key, or its budget), and when what it has would make a step
    of a segment: no encoding keeps `/orders/..` from being read as `/`, which says yes to everything.
    """
    values = {"idempotency_key": record.key, "budget_id": record.budget_id, "record": record.id}
    if not all(values.get(name) for name in _HOLE.findall(verify.path)):
        return None

    def filled(text: str) -> str:
        return _HOLE.sub(lambda hole: quote(values[hole[1]] or "", safe=""), text)

    for segment in verify.path.partition("?")[0].split("/"):
        if _HOLE.search(segment) and _STEP.search(unquote(filled(segment))):
            return None
    return filled(verify.path)


def says(verify: Verify, status: int, body: bytes) -> Found:
    """Return what an answer says."""
    if status == _ABSENT_STATUS and status != verify.status:
        return Found.ABSENT
    if status != verify.status:
        return Found.UNKNOWN
    if verify.json is None:
        return Found.APPLIED
    try:
        document = exact_json.load(body)
    except ValueError:
        return Found.UNKNOWN
    value = verify.json.find(document)
    return Found.ABSENT if value is ABSENT or value is None else Found.APPLIED


def wait_before(asked: int) -> int:
    """Return how long to wait before asking again, after `asked` questions (nanoseconds)."""
    return min(LONGEST_WAIT, FIRST_WAIT << min(asked, 20))
