"""The last that is said in a stream which breaks off: an error, in the form on which its client raises.

An event stream gets an event `error`, as the SDKs of OpenAI and Anthropic expect it. Those of Gemini read nothing but data, and
raise on an error in Google's own form. Readers of lines (Ollama's) expect a sentence under `error`. Plain text has no form.
"""

from __future__ import annotations

import json
from typing import Any, Final

from proxy.core.calls import Outcome
from proxy.degrade.endings.writing import event, line
from proxy.wire.boundary import Boundary
from proxy.wire.characters import CharacterBoundary
from proxy.wire.eventstream import error_event
from proxy.wire.lines import LineBoundary

_GEMINI: Final = ":streamGenerateContent"
_IN_TIME: Final = (504, "DEADLINE_EXCEEDED")  # google.rpc.Code, and the status that it has in HTTP
_FAILED: Final = (503, "UNAVAILABLE")


def failure(boundary: Boundary, target: str, payload: bytes) -> bytes:
    """Return what is said, or nothing. `target`: what the client has asked for; `payload`: `{"error": {"message": …}}`.

    Gemini is known by the address alone: a stream may break off before its first event.
    """
    if isinstance(boundary, CharacterBoundary):
        return b""
    if isinstance(boundary, LineBoundary):
        error = _error(payload)
        return line({"error": error.pop("message"), **error})
    if target.partition("?")[0].endswith(_GEMINI):
        error = _error(payload)
        code, status = _IN_TIME if error["type"] == Outcome.DEADLINE_EXCEEDED else _FAILED
        return event({"error": {**error, "reason": error["code"], "code": code, "status": status}})
    return error_event(payload)


def _error(payload: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(payload)["error"]
    return error
