"""The agent: it looks for passages, puts a question to the model, and says that the job is done, all under one budget.

It asks for the same every time, eight passages and the large model, and never for less: what to do with less time is the
sidecar's affair. Its last question it asks with the SDK that OpenAI publishes, as a stream.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from proxy.demo.degrade import plan
from proxy.demo.degrade.model import Asked, Model
from proxy.demo.degrade.plan import Case
from proxy.demo.degrade.search import Search
from proxy.demo.job import Answer, Document, Step, add_records
from proxy.demo.sidecar import Sidecar, Unable

WANTED: Final = 8
MODEL: Final = "gpt-4o"
STREAM: Final = "stream"


@dataclass(slots=True)
class Others:
    """Who is behind the sidecar: the retrieval, the server of the large models, and the one of the small model."""

    search: Search
    big: Model
    small: Model

    @property
    def marks(self) -> tuple[int, int, int]:
        """How much each of them has been asked so far."""
        return len(self.search.sought), len(self.big.chats), len(self.small.chats)


@dataclass(slots=True)
class Played:
    """What came of a case: its two steps, what reached the others, and the ledger's record as it was closed."""

    case: Case
    search: Step = field(default_factory=lambda: Step("retrieval", 0))
    chat: Step = field(default_factory=lambda: Step("chat", 0))
    sought: list[int] = field(default_factory=list)
    asked: list[tuple[str, Asked]] = field(default_factory=list)
    closed: Document = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        """Both of them, in order."""
        return [self.search, self.chat]

    @property
    def text(self) -> str | None:
        """What the model has said, as the agent got it; None where the answer is no chat."""
        return text_of(self.chat.answer)


@dataclass(slots=True)
class Heard:
    """What the SDK made of the stream. `raised`: the exception it ended with, which it should not."""

    text: str = ""
    finish: str | None = None
    pieces: int = 0
    raised: str | None = None
    step: Step = field(default_factory=lambda: Step(STREAM, 0))
    closed: Document = field(default_factory=dict)


def text_of(answer: Answer | None) -> str | None:
    """Return the text of a chat completion; None where an answer is none."""
    if answer is None or answer.status != 200:
        return None
    try:
        return str(json.loads(answer.body)["choices"][0]["message"]["content"])
    except (ValueError, LookupError, TypeError):
        return None


def chat_body(question: str, passages: list[str]) -> dict[str, Any]:
    """Return what the agent asks the model."""
    messages = [
        {"role": "system", "content": plan.SYSTEM},
        {"role": "user", "content": "\n".join(passages)},
        {"role": "user", "content": question},
    ]
    return {"model": MODEL, "messages": messages}


def need_sdk() -> None:
    """Make sure that the SDK is there. Raises Unable, with where to get it."""
    try:
        import openai  # noqa: F401 - only whether it is there
    except ImportError:
        raise Unable(
            "The SDK of OpenAI is not installed: pip install openai, or make demo-degrade."
        ) from None


class Agent:
    """An ordinary client, which is told of the sidecar by its base URLs."""

    def __init__(self, session: aiohttp.ClientSession, sidecar: Sidecar, others: Others) -> None:
        """Take whom it calls, and who is behind that."""
        self._session = session
        self._sidecar = sidecar
        self._others = others

    async def play(self, played: Played) -> None:
        """Play a case to its close. Raises Unable."""
        case, others = played.case, self._others
        sought, big, small = others.marks
        job = {"Budget-Id": case.id, "Authorization": plan.KEY}
        opening = job | {"Budget-Remaining-Ms": str(case.budget)}
        url = f"{self._sidecar.proxy}/retrieval/search?q=jars&k={WANTED}"
        played.search.answer = found = await self._call("GET", url, opening)
        passages = json.loads(found.body).get("passages", [])
        url = f"{self._sidecar.proxy}/chat/v1/chat/completions"
        played.chat.answer = await self._call("POST", url, job, chat_body(case.question, passages))
        played.closed = await self._sidecar.close(self._session, case.id)
        await add_records(self._sidecar, played.steps)
        played.sought = list(others.search.sought)[sought:]
        played.asked = [("big", each) for each in list(others.big.chats)[big:]]
        played.asked += [("small", each) for each in list(others.small.chats)[small:]]

    async def listen(self, heard: Heard) -> None:
        """Ask for a stream that is longer than its time, with the SDK, and read it to its end. Raises Unable."""
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError
        except ImportError:
            raise Unable(
                "The SDK of OpenAI is not installed: pip install openai, or make demo-degrade."
            ) from None
        headers = {"Budget-Id": STREAM, "Budget-Remaining-Ms": str(plan.STREAM_BUDGET)}
        async with AsyncOpenAI(
            api_key=plan.KEY.removeprefix("Bearer "),
            base_url=f"{self._sidecar.proxy}/chat/v1",
            max_retries=0,
            default_headers=headers,
            http_client=DefaultAsyncHttpxClient(trust_env=False),
        ) as client:
            try:
                body = chat_body(plan.QUESTION, [])
                stream = await client.chat.completions.create(**body, stream=True)
                headers = stream.response.headers
                heard.step.answer = Answer(stream.response.status_code, headers, b"")
                async for piece in stream:
                    heard.pieces += 1
                    for choice in piece.choices:
                        heard.text += choice.delta.content or ""
                        heard.finish = choice.finish_reason or heard.finish
            except OpenAIError as error:
                heard.raised = repr(error)
        heard.closed = await self._sidecar.close(self._session, STREAM)
        await add_records(self._sidecar, [heard.step])

    async def _call(
        self, method: str, url: str, headers: dict[str, str], body: dict[str, Any] | None = None
    ) -> Answer:
        async with self._session.request(method, url, headers=headers, json=body) as answer:
            return Answer(answer.status, answer.headers, await answer.read())
