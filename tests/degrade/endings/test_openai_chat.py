"""Chat completions: which choices are ended, what of the usage is told, and when a call is open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.degrade.chat_transcripts import USAGE, chat_chunk, chat_head
from tests.degrade.endings.feeding import added, followed
from tests.degrade.transcript import MARK

HEAD = chat_head()


def choices(values: list[Any]) -> list[Any]:
    """All choices of all chunks."""
    return [choice for value in values if value != "[DONE]" for choice in value["choices"]]


def test_the_mark_the_reason_and_the_last_event() -> None:
    """Two chunks as the model would have sent them, and nothing of one of its own."""
    first = chat_chunk({"role": "assistant", "content": "Tea"}, obfuscation="aB3")
    marked, ended, last = added(followed(first))
    assert marked == {
        **HEAD,
        "choices": [{"index": 0, "delta": {"content": MARK}, "logprobs": None, "finish_reason": None}],
    }
    assert ended == {
        **HEAD,
        "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}],
    }
    assert last == "[DONE]"


def test_only_open_choices_are_ended() -> None:
    values = added(
        followed(
            chat_chunk({"content": "a"}),
            chat_chunk({"content": "b"}, index=1),
            chat_chunk({"content": "c"}, index=2),
            chat_chunk({}, "stop", index=1),
        )
    )
    ends = [(each["index"], each["finish_reason"]) for each in choices(values)]
    assert ends == [(0, None), (0, "length"), (2, None), (2, "length")]


def test_when_all_have_ended_only_the_last_event_is_missing() -> None:
    """Nothing was cut of the text: there is no mark."""
    assert added(followed(chat_chunk({"content": "a"}), chat_chunk({}, "stop"))) == ["[DONE]"]


def test_a_choice_that_has_not_begun_begins_with_its_role() -> None:
    """The first chunk may hold no choice at all: then there is one, and it says the mark alone."""
    values = added(followed(chat_head(choices=[])))
    deltas = [each["delta"] for each in choices(values)]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": MARK}, {}]


def test_usage_is_told_as_far_as_it_was() -> None:
    """In a chunk of its own, as it is asked for; and where it is not known, every chunk says so as the others did."""
    told = added(
        followed(chat_chunk({"content": "a"}, usage=USAGE), chat_chunk({"content": "b"}, usage=None))
    )
    assert told[-2] == {**HEAD, "choices": [], "usage": USAGE}
    assert [each["usage"] for each in told[:-2]] == [None, None]
    unknown = added(followed(chat_chunk({"content": "a"}, usage=None)))
    assert [each["usage"] for each in unknown[:-1]] == [None, None]
    assert not [each for each in unknown[:-1] if not each["choices"]]
    assert not [each for each in added(followed(chat_chunk({"content": "a"})))[:-1] if "usage" in each]


def test_the_mark_stands_where_the_text_does() -> None:
    refusing = added(followed(chat_chunk({"refusal": "I"}), chat_chunk({"refusal": " will not"})))
    assert choices(refusing)[0]["delta"] == {"refusal": MARK}
    for member in ("reasoning_content", "audio", "annotations"):
        value: Any = {"transcript": "Tea"} if member == "audio" else []
        other = added(followed(chat_chunk({member: value})))
        assert choices(other)[0]["delta"] == {"content": MARK}
    older = {
        **HEAD,
        "object": "text_completion",
        "choices": [{"index": 0, "text": "Tea", "finish_reason": None}],
    }
    assert [each["text"] for each in choices(added(followed(older)))] == [MARK, ""]


@pytest.mark.parametrize(
    "delta",
    [
        {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]},
        {"tool_calls": {"wrong": "type"}},
        {"function_call": {"name": "order", "arguments": "{"}},
    ],
)
def test_a_call_is_open_until_its_choice_has_ended(delta: dict[str, Any]) -> None:
    """Whatever is said after it: arguments that look whole may have gone on."""
    ending = followed(chat_chunk(delta), chat_chunk({"content": "so"}))
    assert ending.close(MARK) is None
    assert not ending.failed
    more = followed(chat_chunk(delta), chat_chunk({"content": "a"}, index=1))
    assert more.close(MARK) is None
    ended = followed(chat_chunk(delta), chat_chunk({"content": "a"}, index=1), chat_chunk({}, "tool_calls"))
    assert {each["index"] for each in choices(added(ended))} == {1}


def test_an_error_is_a_failure() -> None:
    """Which has no truthful end but its own."""
    ending = followed(chat_chunk({"content": "a"}), {"error": {"message": "overloaded", "code": 503}})
    assert ending.failed
    assert not ending.over
    assert ending.close(MARK) is None


def test_chunks_of_servers_that_say_less() -> None:
    """Without an id or an index, and with an empty reason. Of those that call themselves nothing, the path says what they are."""
    chunk = {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "a"}, "finish_reason": ""}]}
    assert [each["index"] for each in choices(added(followed(chunk)))] == [0, 0]
    unnamed = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
    assert followed(unnamed).close(MARK) is None
    assert choices(added(followed(unnamed, path="/api/v1/chat/completions?x=1")))


def test_other_objects_between_the_chunks_change_nothing() -> None:
    ending = followed(chat_chunk({"content": "a"}), {"sources": [1]}, {"choices": [], "cost": 1, **HEAD})
    assert choices(added(ending))[1]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "choices",
    [
        7,
        [7],
        [{"index": -1}],
        [{"index": True}],
        [{"index": 10**9}],
        [{"index": 0}] * 1025,
        [{"index": "0"}],
        [{"delta": "a"}],
        [{"finish_reason": 1}],
    ],
    ids=lambda choices: repr(choices)[:30],
)
def test_what_is_no_choice_is_given_up(choices: Any) -> None:
    ending = followed(chat_chunk({"content": "a"}), {**HEAD, "choices": choices})
    assert ending.close(MARK) is None
    assert ending.dialect == "openai-chat"


def test_only_small_values_are_repeated() -> None:
    """Ids and counts. A stream cannot make its end long, or deep."""
    deep: Any = 1
    for _ in range(50):
        deep = {"more": deep}
    usage = {"a": 1, "b": 10**400, "c": "x" * 10_000, "d": deep, "e": 1.5, "f": [0] * 1000}
    chunk = {**chat_chunk({"content": "a"}, usage=usage), "model": "m" * 10_000, "system_fingerprint": deep}
    last = followed(chunk).close(MARK)
    assert last is not None
    assert len(last) < 2000
    told = json.loads(last.split(b"\n\n")[-3].removeprefix(b"data: "))
    assert told["usage"] == {"a": 1, "e": 1.5}
    assert "model" not in told
