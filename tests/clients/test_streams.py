"""Answers that come bit by bit, as SDKs and plain clients read them: whole, or with an error that cannot be missed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

from tests.clients.calls import Call, uncertain
from tests.clients.speakers import SPEAKERS, Broken, Speaker
from tests.support.behaviours import Framing, cut_after, drip, events
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

QUESTION: list[Any] = [{"role": "user", "content": "tea?"}]


def chunk(text: str) -> str:
    """A piece of a chat completion, as OpenAI's API says it."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    piece = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(piece)


def delta(text: str) -> str:
    """A piece of a message, as Anthropic's API says it."""
    return json.dumps(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    )


def read_openai(call: Call, heard: list[str]) -> None:
    """Ask for a completion, and take its words as they come."""
    with openai.OpenAI(api_key="none", base_url=call.base) as client:
        stream = client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        heard.extend(piece.choices[0].delta.content or "" for piece in stream)


def read_anthropic(call: Call, heard: list[str]) -> None:
    """Ask for a message, and take its words as they come."""
    with anthropic.Anthropic(api_key="none", base_url=call.base) as client:
        stream = client.messages.create(model="m", max_tokens=9, messages=QUESTION, stream=True)
        deltas = (event.delta for event in stream if event.type == "content_block_delta")
        heard.extend(delta.text for delta in deltas if delta.type == "text_delta")


def test_openai_reads_a_whole_stream(sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]) -> None:
    """Nothing is added to a stream that ends in time.

    The SDK leaves at `[DONE]`, without waiting for the end of the message. That end still comes, and settles the write.
    """
    tool.then(events([chunk("good "), chunk("tea"), "[DONE]"], every=0.02))
    call = calling(tool.url("/whole/v1"))
    heard: list[str] = []
    read_openai(call, heard)
    assert heard == ["good ", "tea"]
    (step,) = sidecar.records_of(call.budget)
    assert step["outcome"] in ("completed", "client_gone")
    eventually(lambda: uncertain(sidecar, call) == [], what="the end of the stream settles the write")


@pytest.mark.parametrize("way", ["proxy", "base-url"])
def test_openai_raises_at_the_cut(
    way: str, sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]
) -> None:
    """What has come is there; then the error event makes the SDK raise, with the sidecar's words."""
    tool.then(events([chunk("good "), chunk("tea")], then="stall"))
    call = calling(tool.url("/slow/a/v1") if way == "proxy" else f"{sidecar.proxy_url}/tool/slow/b/v1")
    heard: list[str] = []
    with pytest.raises(openai.APIError, match="was cut") as raised:
        read_openai(call, heard)
    assert heard == ["good ", "tea"]
    assert type(raised.value) is openai.APIError, "no lost connection, after which one would try again"
    error = raised.value.body
    assert isinstance(error, dict)
    assert (error["type"], error["code"], error["effect"]) == ("deadline_exceeded", "route_cap", "uncertain")
    assert len(tool.requests) == 1
    step = sidecar.record(error["record"])
    assert (step["outcome"], step["phase"], step["status"]) == ("deadline_exceeded", "head_received", 200)
    assert sidecar.uncertain(error["record"])["state"] == "uncertain"


def test_anthropic_raises_at_the_cut(sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]) -> None:
    """Its SDK goes by the name of the event, and shows what stands in it."""
    pieces = [f"event: content_block_delta\ndata: {delta(text)}\n\n".encode() for text in ("good ", "tea")]
    tool.then(drip(pieces, every=0, headers=[("Content-Type", "text/event-stream")], then="stall"))
    call = calling(tool.url("/slow"))
    heard: list[str] = []
    with pytest.raises(anthropic.APIStatusError, match="was cut") as raised:
        read_anthropic(call, heard)
    assert heard == ["good ", "tea"]
    (step,) = sidecar.records_of(call.budget)
    assert step["record"] in str(raised.value)
    assert len(tool.requests) == 1


def test_openai_sees_a_stream_that_its_tool_broke_off(tool: Upstream, calling: Callable[..., Call]) -> None:
    """A stream that the tool leaves in the middle is an error for the SDK too, whatever the sidecar makes of it."""
    tool.then(events([chunk("good "), chunk("tea")], then="close"))
    call = calling(tool.url("/broken/v1"))
    heard: list[str] = []
    with pytest.raises(openai.APIError):
        read_openai(call, heard)
    assert heard == ["good ", "tea"]


# A tool that ends its answer with its connection cannot break it off: it is whole whenever that ends.
@pytest.mark.parametrize(
    ("ending", "framing"),
    [("cut", "chunked"), ("cut", "length"), ("cut", "close"), ("broken", "chunked"), ("broken", "length")],
)
@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
def test_half_an_answer_is_an_error(
    speaker: Speaker,
    ending: str,
    framing: Framing,
    sidecar: Sidecar,
    tool: Upstream,
    calling: Callable[..., Call],
) -> None:
    """No client takes a part for the whole, whether the sidecar cut the answer or the tool broke it off."""
    if speaker.missing is not None:
        pytest.skip(speaker.missing)
    tool.then(drip(framing=framing, every=0.02) if ending == "cut" else cut_after(40, of=60, framing=framing))
    path = f"/slow/report-{speaker.name}-{ending}-{framing}"
    with pytest.raises(Broken):
        speaker.speak(calling(tool.url()), "GET", tool.url(path), b"")

    def ended() -> list[dict[str, Any]]:
        return [record for record in sidecar.records if record["target"].endswith(path)]

    outcome = "deadline_exceeded" if ending == "cut" else "upstream_failed"
    assert {(step["outcome"], step["status"]) for step in eventually(ended)} == {(outcome, 200)}
