"""A call as it goes to the sidecar: its line, what it states of its budget, and its body in one of the forms that HTTP has."""

from __future__ import annotations

from proxy.core.units import MILLISECOND, SECOND
from trials.simulation.draws import Draws
from trials.simulation.model import Call

UNSTATED = 60 * SECOND
"""So much time or more is not stated."""


def wire_of(
    draws: Draws,
    call: Call,
    budget: str | None,
    left: int,
    attempt: int,
    stage: str | None,
    *,
    absolute: bool,
) -> bytes:
    """Return the bytes of a call. `absolute`: as to a proxy (RFC 9112 §3.2.2)."""
    target = f"http://{call.host}{call.path}" if absolute else call.path
    lines = [
        f"{call.method} {target} HTTP/1.1",
        f"Host: {call.host}",
        f"X-Request-Id: {call.number}",
        f"Authorization: {call.who}",
        *_stated(draws, call, budget, left, stage),
    ]
    if draws.happens(0.2):
        lines.append(f"x-stainless-retry-count: {attempt}")
    if draws.happens(0.05):
        lines.append("Connection: close")
    body = b""
    if call.method in ("POST", "PUT"):
        framing, body = _framed(draws, call.body)
        lines.append(framing)
        if draws.happens(0.05):
            lines.append("Expect: 100-continue")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _stated(draws: Draws, call: Call, budget: str | None, left: int, stage: str | None) -> list[str]:
    """Return what a call says of its job, its key and its limits."""
    given = {
        "Idempotency-Key": call.key,
        "Budget-Id": budget,
        "Budget-Remaining-Ms": max(0, left // MILLISECOND)
        if left < UNSTATED and draws.happens(0.9)
        else None,
        "Budget-Retry": "confirmed" if call.confirmed else None,
        "Budget-Stage": stage,
        "Budget-Phase": "cleanup" if draws.happens(0.1) else None,
        "Connect-Timeout-Ms": draws.span(MILLISECOND, 5 * SECOND) // MILLISECOND
        if draws.happens(0.1)
        else None,
    }
    return [f"{name}: {value}" for name, value in given.items() if value is not None]


def _framed(draws: Draws, body: bytes) -> tuple[str, bytes]:
    """Return how a body says its length, and the body so framed."""
    if not draws.happens(0.2):
        return f"Content-Length: {len(body)}", body
    half = len(body) // 2
    parts = [part for part in (body[:half], body[half:]) if part]
    return "Transfer-Encoding: chunked", b"".join(
        b"%x\r\n%b\r\n" % (len(part), part) for part in parts
    ) + b"0\r\n\r\n"
