"""Any place that speaks OpenAI's dialect will do, and whatever else one may say is told in words and crashes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from proxy.core.units import MILLISECOND, SECOND
from proxy.semantic.embeddings import EmbeddingsFailed
from proxy.semantic.embeddings import remote as module
from proxy.semantic.embeddings.remote import MOST_TEXTS, RemoteEmbeddings, endpoint

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def place(handler: Handler) -> AsyncIterator[str]:
    """A server that answers everything so."""
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asked(
    url: str, key: str | None = None, within: int = 5 * SECOND
) -> AsyncIterator[RemoteEmbeddings]:
    """Who asks there."""
    embeddings = RemoteEmbeddings(url, "model-1", key, within)
    try:
        yield embeddings
    finally:
        await embeddings.close()


def vectors(count: int) -> dict[str, Any]:
    """What such a place says."""
    data = [{"object": "embedding", "index": at, "embedding": [3, 4.0, at]} for at in range(count)]
    return {"object": "list", "data": data, "model": "model-1", "usage": {"prompt_tokens": 5}}


@pytest.mark.parametrize(
    ("url", "asked_at"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1/embeddings"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1/embeddings"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/embeddings"),
        ("http://127.0.0.1:11434/v1/embeddings", "http://127.0.0.1:11434/v1/embeddings"),
    ],
)
def test_a_url_may_be_written_in_each_of_the_usual_ways(url: str, asked_at: str) -> None:
    assert endpoint(url) == asked_at


async def test_texts_are_asked_for_in_one_request_with_model_and_key() -> None:
    requests: list[tuple[str, str | None, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        requests.append((request.path, request.headers.get("Authorization"), body))
        data = vectors(len(body["input"]))
        data["data"].reverse()  # they say themselves where they belong
        return web.json_response(data)

    async with place(answer) as url, asked(url, "secret") as embeddings:
        one, other = await embeddings.embed(["a", "b"])
    assert one is not None
    assert other is not None
    assert one.tolist() == pytest.approx([0.6, 0.8, 0])
    assert other.tolist() == pytest.approx([0.588, 0.784, 0.196], abs=1e-3)
    body = {"model": "model-1", "input": ["a", "b"], "encoding_format": "float"}
    assert requests == [("/v1/embeddings", "Bearer secret", body)]


async def test_many_texts_are_several_requests_and_no_key_is_none() -> None:
    sizes: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        sizes.append(len((await request.json())["input"]))
        return web.json_response(vectors(sizes[-1]))

    async with place(answer) as url, asked(url) as embeddings:
        assert len(await embeddings.embed(["a"] * (MOST_TEXTS + 3))) == MOST_TEXTS + 3
    assert sizes == [MOST_TEXTS, 3]


def of(embedding: Any, **more: Any) -> dict[str, Any]:
    return {"data": [{"index": 0, "embedding": embedding} | more]}


GARBAGE: dict[str, bytes] = {
    name: said if isinstance(said, bytes) else json.dumps(said).encode()
    for name, said in {
        "nothing": b"",
        "no JSON": b"<html>",
        "too deep": b"[" * 100_000,
        "a list": [],
        "no data": {},
        "data of another type": {"data": "x"},
        "too few": {"data": []},
        "too many": vectors(2),
        "no object": {"data": [1]},
        "no embedding": {"data": [{"index": 0}]},
        "an empty one": of([]),
        "base64": of("AAAA"),
        "words": of(["1", "2"]),
        "truth": of([True, 1]),
        "null": of([None]),
        "hundreds of digits": of([10**400]),
        "not a number": b'{"data": [{"index": 0, "embedding": [NaN]}]}',
        "infinite": b'{"data": [{"index": 0, "embedding": [1e999]}]}',
        "too long": of([1.0] * 20_000),
        "another place": of([1], index=1),
        "a place that is none": of([1], index="0"),
        "a place that is a truth": of([1], index=False),
    }.items()
}


@pytest.mark.parametrize("what", GARBAGE)
async def test_what_no_such_place_says_is_told(what: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=GARBAGE[what], content_type="application/json")

    async with place(answer) as url, asked(url) as embeddings:
        with pytest.raises(
            EmbeddingsFailed, match=r"does not answer as /v1/embeddings does .*; correct --embeddings"
        ):
            await embeddings.embed(["a"])


async def test_vectors_of_two_lengths_are_none() -> None:
    async def answer(_: web.Request) -> web.Response:
        said = {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}
        return web.json_response(said)

    async with place(answer) as url, asked(url) as embeddings:
        with pytest.raises(EmbeddingsFailed, match="one length"):
            await embeddings.embed(["a", "b"])


async def test_a_vector_without_a_direction_is_none() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(of([0, 0.0]))

    async with place(answer) as url, asked(url) as embeddings:
        assert await embeddings.embed(["a"]) == [None]


@pytest.mark.parametrize("status", [301, 400, 401, 429, 500])
async def test_another_status_is_told_with_what_was_said(status: int) -> None:
    """A redirection is not followed: the key is for one place."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text="no such model", headers={"Location": "/other"})

    async with place(answer) as url, asked(url, "secret") as embeddings:
        with pytest.raises(
            EmbeddingsFailed, match=rf"answered {status}: 'no such model'; check --model and the key"
        ):
            await embeddings.embed(["a"])


async def test_a_place_that_hangs_is_left_in_time() -> None:
    over = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    async with place(answer) as url, asked(url, within=30 * MILLISECOND) as embeddings:
        with pytest.raises(EmbeddingsFailed, match="did not answer in time"):
            await embeddings.embed(["a"])
        over.set()


async def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ANSWER", 100_000)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 10_000)
        except ConnectionError:
            return response

    async with place(answer) as url, asked(url) as embeddings:
        with pytest.raises(EmbeddingsFailed, match="longer than 100000 bytes"):
            await embeddings.embed(["a"])


async def test_nobody_is_there() -> None:
    async with asked("http://127.0.0.1:1") as embeddings:
        with pytest.raises(EmbeddingsFailed, match="cannot be asked"):
            await embeddings.embed(["a"])


async def test_a_url_that_is_none_is_told() -> None:
    async with asked("http://[::") as embeddings:
        with pytest.raises(EmbeddingsFailed, match="cannot be asked"):
            await embeddings.embed(["a"])
