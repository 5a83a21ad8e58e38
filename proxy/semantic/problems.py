"""Errors of the service, as `application/problem+json` (RFC 9457) with a remedy."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from aiohttp import web

PROBLEM_JSON: Final = "application/problem+json"


class Problem(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, detail: str, remedy: str) -> None:
        """Say what is wrong, and what helps; a sentence each."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.remedy = remedy

    def response(self) -> web.Response:
        """Return the answer."""
        title = self.status.phrase
        document = {
            "type": f"urn:waterclock:problem:{title.lower().replace(' ', '-')}",
            "title": title,
            "status": int(self.status),
            "detail": self.detail,
            "remedy": self.remedy,
        }
        headers = {"Retry-After": "1"} if self.status is HTTPStatus.SERVICE_UNAVAILABLE else None
        body = json.dumps(document, indent=2).encode() + b"\n"
        return web.Response(status=self.status, body=body, content_type=PROBLEM_JSON, headers=headers)


def malformed(detail: str, remedy: str) -> Problem:
    """Return what answers a request that cannot be read."""
    return Problem(HTTPStatus.BAD_REQUEST, detail, remedy)
