"""Errors of the admin ports, as `application/problem+json` (RFC 9457) with a remedy."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any, Final

PROBLEM_JSON: Final = "application/problem+json"

log: Final = logging.getLogger("waterclock.admin")
"""Where faults of our own are reported, with their traceback."""


class Problem(Exception):
    """An error that is the caller's to mend, or at least to know of."""

    def __init__(self, status: HTTPStatus, detail: str, remedy: str) -> None:
        """Say what is wrong, and what helps."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.remedy = remedy

    def body(self) -> bytes:
        """Return the JSON document."""
        title = self.status.phrase
        return as_json(
            {
                "type": f"urn:waterclock:problem:{title.lower().replace(' ', '-')}",
                "title": title,
                "status": self.status,
                "detail": self.detail,
                "remedy": self.remedy,
            }
        )


def as_json(document: Any) -> bytes:
    """Return JSON that is good to read in a terminal, and cannot play tricks with it: indented, in ASCII."""
    return json.dumps(document, indent=2).encode() + b"\n"


def own_fault() -> Problem:
    """Return the answer to an error that is ours. Who calls this reports the error to `log`."""
    return Problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The sidecar failed to answer this. Calls that pass through it are not affected.",
        "Look for the event `log` at this time in the sidecar's log, and report what it says.",
    )
