"""What is said at the end of a stream that breaks off: by its form, and for Gemini by what was asked for."""

from __future__ import annotations

import json

import pytest

from proxy.dataplane.answers import error_payload
from proxy.degrade.endings.failing import failure
from proxy.degrade.endings.recognise import boundary_for, ending_for

GEMINI = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
ERROR = {
    "type": "deadline_exceeded",
    "code": "route_cap",
    "message": "It was cut.",
    "effect": "none",
    "phase": "head_received",
    "record": "r1",
}


def said(
    content_type: bytes, target: str = "/v1/chat/completions", outcome: str = "deadline_exceeded"
) -> bytes:
    """The end of such a stream."""
    boundary = boundary_for(content_type)
    assert boundary is not None
    payload = error_payload(outcome, "route_cap", "It was cut.", "none", "head_received", "r1")
    return failure(boundary, target, payload)


def test_an_event_stream_gets_an_event() -> None:
    lines = said(b"text/event-stream").split(b"\n")
    assert (lines[0], lines[2:]) == (b"event: error", [b"", b""])
    assert json.loads(lines[1].removeprefix(b"data: ")) == {"error": ERROR}


@pytest.mark.parametrize("target", [GEMINI, GEMINI + "?alt=sse", "http://models.test" + GEMINI + "?key=a:b"])
def test_gemini_gets_data_in_googles_form(target: str) -> None:
    """It begins with the error: its clients look for that."""
    end = said(b"text/event-stream; charset=utf-8", target)
    assert end.startswith(b'data: {"error":{')
    assert end.endswith(b"}}\n\n")
    own = {"code": 504, "status": "DEADLINE_EXCEEDED", "reason": "route_cap"}
    assert json.loads(end.removeprefix(b"data: ")) == {"error": ERROR | own}


def test_gemini_is_told_whether_it_was_the_time() -> None:
    error = json.loads(said(b"text/event-stream", GEMINI, "upstream_failed").removeprefix(b"data: "))["error"]
    assert (error["code"], error["status"]) == (503, "UNAVAILABLE")


@pytest.mark.parametrize("target", ["/api/chat", GEMINI])
def test_lines_get_a_line_with_a_sentence(target: str) -> None:
    end = said(b"application/x-ndjson", target)
    assert end.endswith(b"}\n")
    rest = {name: value for name, value in ERROR.items() if name != "message"}
    assert json.loads(end) == {"error": "It was cut."} | rest


def test_plain_text_has_no_form() -> None:
    assert said(b"text/plain") == b""


@pytest.mark.parametrize("target", ["/v1/chat/completions", GEMINI])
def test_another_sidecar_behind_it_takes_it_for_a_failure(target: str) -> None:
    """And closes nothing, as if it were an answer that became too long."""
    ending = ending_for(b"text/event-stream", target)
    assert ending is not None
    ending.feed(b'data: {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}\n\n')
    ending.feed(said(b"text/event-stream", target))
    assert (ending.failed, ending.close("mark")) == (True, None)
