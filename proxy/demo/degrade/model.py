"""A language model that says nothing of worth: a server of OpenAI's dialect, as slow and as wordy as it is told to be.

POST …/chat/completions   so many words, whole or as a stream of events, after so many milliseconds
POST …/embeddings         a vector for each text: the more words two texts share, the nearer they are

A word is a token. What was asked is kept, and whether the caller was still there at the end: a model is paid for what it
says, heard or not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain, count, cycle, islice
from typing import Any, Final

from aiohttp import web

from proxy.demo.serving import serving

KEPT: Final = 20_000
LARGEST: Final = 4 * 1024 * 1024
SIZE: Final = 256
"""Of a vector."""
_CREATED: Final = 1_700_000_000  # some moment: the SDKs want one, and no clock is read here
_WORD: Final = re.compile(r"\w+")
_EMPTY: Final = frozenset(
    {
        "a",
        "an",
        "and",
        "at",
        "did",
        "do",
        "does",
        "for",
        "how",
        "in",
        "is",
        "it",
        "of",
        "on",
        "the",
        "to",
        "with",
    }
)
_SAYS: Final = """\
the jar with a hole runs empty in its time and a speaker has as long as the water lasts so that who is poor is heard no \
less than who is rich and when the witnesses are read out the hole is stopped"""


@dataclass(frozen=True, slots=True)
class Voice:
    """How a model speaks: milliseconds before it begins, between two words of a stream, and how many words it says."""

    latency: float
    pace: float = 20
    words: int = 30


@dataclass(slots=True)
class Asked:
    """One request, as it arrived: `path` with its query, names of `headers` in lower case.

    `said`: words sent so far; `left`: its caller has left before the end.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    asked: dict[str, Any] = field(default_factory=dict)
    said: int = 0
    left: bool = False

    @property
    def model(self) -> str | None:
        """Which model it was for."""
        return self.asked.get("model")

    @property
    def max_tokens(self) -> int | None:
        """How many words it wanted at most."""
        return self.asked.get("max_tokens")


class Model:
    """The models of one server. `factor`: by how much all of them are slower than their voices, from the next call on."""

    def __init__(self, voices: Mapping[str, Voice], jitter: Callable[[], float] = lambda: 1.0) -> None:
        """`jitter` is drawn for each call, and is 1 on average."""
        self.url = ""
        self.factor = 1.0
        self.chats: deque[Asked] = deque(maxlen=KEPT)
        self.embeddings: deque[Asked] = deque(maxlen=KEPT)
        self._voices = voices
        self._jitter = jitter
        self._numbers = count(1)

    @property
    def cut(self) -> int:
        """How many callers of a chat have left before its end."""
        return sum(asked.left for asked in self.chats)

    def app(self) -> web.Application:
        """Return the server."""
        app = web.Application(client_max_size=LARGEST)
        app.router.add_post("/{before:.*}chat/completions", self._chat)
        app.router.add_post("/{before:.*}embeddings", self._embed)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = await _read(request)
        self.chats.append(asked)
        try:
            voice = self._voices.get(asked.asked["model"])
            heard = [str(message["content"]) for message in asked.asked["messages"]]
        except (KeyError, TypeError):
            return _error(400, "This is no chat: it needs a model and messages.")
        if voice is None:
            return _error(404, f"There is no model {asked.model!r}.")
        slower = self.factor * self._jitter()
        most = min(voice.words, asked.max_tokens or voice.words)
        words = list(islice(_words(str(asked.model), heard), most))
        reply = _Reply(f"chatcmpl-{next(self._numbers)}", asked, words, _length(heard))
        try:
            await asyncio.sleep(voice.latency * slower / 1000)
            if asked.asked.get("stream") is True:
                return await _stream(request, reply, voice.pace * slower / 1000)
            asked.said = len(words)
            return web.json_response(reply.whole())
        except (asyncio.CancelledError, ConnectionError):
            asked.left = True
            raise

    async def _embed(self, request: web.Request) -> web.Response:
        asked = await _read(request)
        self.embeddings.append(asked)
        texts = asked.asked.get("input")
        if isinstance(texts, str):
            texts = [texts]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return _error(400, "This embeds texts: it needs an input.")
        data = [
            {"object": "embedding", "index": index, "embedding": embedding(text)}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": _length(texts), "total_tokens": _length(texts)}
        return web.json_response({"object": "list", "model": asked.model, "data": data, "usage": usage})


@asynccontextmanager
async def running(model: Model, port: int = 0) -> AsyncIterator[Model]:
    """Serve a model until the block is left."""
    async with serving(model.app(), port) as model.url:
        yield model


def embedding(text: str) -> list[float]:
    """Return a vector of length 1 that depends on the words of a text, the long ones most, and not on their order.

    All zeros if there are none.
    """
    vector = [0.0] * SIZE
    for word in _WORD.findall(text.lower()):
        if word not in _EMPTY:
            number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
            vector[number % SIZE] += len(word) ** 2 * (1 if number & 1 << 32 else -1)
    norm = math.hypot(*vector) or 1.0
    return [value / norm for value in vector]


async def _read(request: web.Request) -> Asked:
    body = await request.read()
    asked = Asked(request.path_qs, {name.lower(): value for name, value in request.headers.items()}, body)
    try:
        document = json.loads(body)
    except ValueError:
        return asked
    if isinstance(document, dict):
        asked.asked = document
    return asked


def _error(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)


def _length(texts: Sequence[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _words(model: str, heard: Sequence[str]) -> Iterator[str]:
    """Return the words of an answer, without end: who speaks, how much was heard, and then always the same."""
    return chain((f"[{model},", "having", "heard", str(_length(heard)), "words]"), cycle(_SAYS.split()))


@dataclass(frozen=True, slots=True)
class _Reply:
    """What is said to one chat, in the two forms that the dialect has for it."""

    id: str
    asked: Asked
    words: Sequence[str]
    prompt: int

    @property
    def _finish(self) -> str:
        return "length" if len(self.words) == self.asked.max_tokens else "stop"

    @property
    def _usage(self) -> dict[str, int]:
        said = len(self.words)
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": said,
            "total_tokens": self.prompt + said,
        }

    def _document(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        about = {"id": self.id, "object": kind, "created": _CREATED, "model": self.asked.model}
        return about | {"choices": choices} | more

    def whole(self) -> dict[str, Any]:
        """The answer at once."""
        message = {"role": "assistant", "content": " ".join(self.words)}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return self._document("chat.completion", [choice], usage=self._usage)

    def pieces(self) -> Iterator[dict[str, Any]]:
        """The answer word by word."""
        for number, word in enumerate(self.words):
            delta = {"content": f" {word}"} if number else {"role": "assistant", "content": word}
            yield self._piece(delta)

    def end(self) -> Iterator[dict[str, Any]]:
        """What comes after the last word: why it ends, and what it has cost, if that was asked for."""
        yield self._piece({}, self._finish)
        options = self.asked.asked.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage") is True:
            yield self._document("chat.completion.chunk", [], usage=self._usage)

    def _piece(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._document("chat.completion.chunk", [choice])


async def _stream(request: web.Request, reply: _Reply, pace: float) -> web.StreamResponse:
    """Send a reply as events, with a pause of `pace` seconds between its words."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for piece in reply.pieces():
        if reply.asked.said:
            await asyncio.sleep(pace)
        await response.write(_event(json.dumps(piece)))
        reply.asked.said += 1
    for piece in reply.end():
        await response.write(_event(json.dumps(piece)))
    await response.write(_event("[DONE]"))
    await response.write_eof()
    return response


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()
