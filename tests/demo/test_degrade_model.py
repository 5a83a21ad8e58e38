"""The model and the retrieval of the demo: they speak the dialect that they claim to, and keep what they were asked."""

from __future__ import annotations

import json
import math
from typing import Any

import aiohttp
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.degrade import plan, search
from proxy.demo.degrade.model import Model, Voice, embedding, running
from proxy.demo.degrade.search import Search
from tests.support.model import serving

MESSAGES: list[Any] = [{"role": "user", "content": "how long is it?"}]


def near(one: str, other: str) -> float:
    """The cosine similarity of two texts."""
    return sum(a * b for a, b in zip(embedding(one), embedding(other), strict=True))


def test_the_sdk_reads_an_answer() -> None:
    """Whole, and with what it has cost; who spoke and how much was heard stands in it."""
    with (
        serving(Model({"large": Voice(1, words=12)})) as model,
        openai.OpenAI(api_key="k", base_url=f"{model.url}/v1", max_retries=0) as client,
    ):
        told = client.chat.completions.create(model="large", messages=MESSAGES)
        (choice,) = told.choices
        assert choice.message.content is not None
        assert choice.message.content.startswith("[large, having heard 4 words] the jar")
        assert choice.finish_reason == "stop"
        assert told.usage is not None
        assert (told.usage.prompt_tokens, told.usage.completion_tokens) == (4, 12)
        short = client.chat.completions.create(model="large", messages=MESSAGES, max_tokens=5)
        assert short.choices[0].message.content == "[large, having heard 4 words]"
        assert short.choices[0].finish_reason == "length"
    first, second = model.chats
    assert (first.path, first.model, first.max_tokens, first.said) == (
        "/v1/chat/completions",
        "large",
        None,
        12,
    )
    assert (first.headers["authorization"], second.max_tokens) == ("Bearer k", 5)
    assert model.cut == 0


def test_the_sdk_reads_a_stream() -> None:
    """Word by word, to its end; together they are the same text, and the usage comes last if it is asked for."""
    with (
        serving(Model({"large": Voice(1, pace=1, words=12)})) as model,
        openai.OpenAI(api_key="k", base_url=model.url, max_retries=0) as client,
    ):
        stream = client.chat.completions.create(
            model="large",
            messages=MESSAGES,
            stream=True,
            stream_options={"include_usage": True},
        )
        pieces = list(stream)
    words = [choice.delta.content for piece in pieces for choice in piece.choices]
    assert "".join(word or "" for word in words).startswith("[large, having heard 4 words] the jar with")
    assert len(words) == 13
    assert [choice.finish_reason for piece in pieces for choice in piece.choices] == [None] * 12 + ["stop"]
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens == 12
    assert model.chats[-1].said == 12


def test_the_sdk_reads_embeddings() -> None:
    """One for each text, in order."""
    with (
        serving(Model({})) as model,
        openai.OpenAI(api_key="k", base_url=f"{model.url}/v1", max_retries=0) as client,
    ):
        told = client.embeddings.create(model="e", input=["a jar", "water"], encoding_format="float")
    assert [each.embedding for each in told.data] == [embedding("a jar"), embedding("water")]
    assert len(model.embeddings) == 1


@given(st.text(max_size=200))
def test_a_vector_has_length_one_or_none(text: str) -> None:
    """Whatever the text."""
    length = math.hypot(*embedding(text))
    assert length == 0 or length == pytest.approx(1)


def test_other_wordings_are_near_and_other_questions_are_not() -> None:
    """Which is all that the demo needs of these vectors."""
    assert near(plan.QUESTION, plan.REWORDED) > plan.THRESHOLD
    assert abs(near(plan.QUESTION, "Is the shop open today?")) < 0.5


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no json", 400),
        (b"[]", 400),
        (b'{"model": "large"}', 400),
        (b'{"model": "large", "messages": 3}', 400),
        (b'{"model": "large", "messages": [{"role": "user"}]}', 400),
        (b'{"model": "other", "messages": []}', 404),
    ],
)
async def test_what_is_no_chat_is_an_error(body: bytes, status: int) -> None:
    """In the dialect's form; it is kept as it came."""
    async with (
        running(Model({"large": Voice(1)})) as model,
        aiohttp.ClientSession() as session,
        session.post(f"{model.url}/v1/chat/completions", data=body) as answer,
    ):
        assert answer.status == status
        assert (await answer.json())["error"]["type"] == "invalid_request_error"
    assert model.chats[-1].body == body


async def test_texts_of_another_type_are_not_embedded() -> None:
    async with (
        running(Model({})) as model,
        aiohttp.ClientSession() as session,
        session.post(f"{model.url}/v1/embeddings", json={"input": 3}) as answer,
    ):
        assert answer.status == 400


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_is_counted(stream: bool) -> None:
    """The words that it has not heard are not said."""
    model = Model({"large": Voice(1 if stream else 60_000, pace=60_000)})
    asks = {"model": "large", "messages": MESSAGES, "stream": stream}
    async with running(model), aiohttp.ClientSession() as session:
        try:
            timeout = aiohttp.ClientTimeout(total=0.2)
            async with session.post(f"{model.url}/chat/completions", json=asks, timeout=timeout) as answer:
                await answer.read()
        except TimeoutError:
            pass
    assert model.cut == 1
    assert model.chats[-1].said == stream


async def test_it_becomes_slower_from_the_next_call_on() -> None:
    """By the factor that is set, and by what is drawn for each call."""
    drawn: list[float] = []

    def jitter() -> float:
        drawn.append(1.0)
        return 0.0

    async with running(Model({"large": Voice(60_000)}, jitter)) as model, aiohttp.ClientSession() as session:
        model.factor = 4
        async with session.post(
            f"{model.url}/chat/completions", json={"model": "large", "messages": MESSAGES}
        ) as answer:
            assert answer.status == 200
    assert drawn == [1.0]


async def test_a_search_finds_as_many_passages_as_it_is_asked_for() -> None:
    """Up to a bound, and says what a number is."""
    async with search.running(Search()) as found, aiohttp.ClientSession() as session:
        for wanted, status in (("2", 200), ("0", 200), ("51", 400), ("-1", 400), ("٣", 400)):
            async with session.get(f"{found.url}/search", params={"k": wanted}) as answer:
                assert answer.status == status
                if status == 200:
                    assert len(json.loads(await answer.read())["passages"]) == int(wanted)
    assert list(found.sought) == [2, 0]
