"""Transcripts, served: each under a name of its own, which is the first segment of the path that is asked for.

    shelf = Shelf()
    with Upstream(shelf.behave) as upstream:
        base = upstream.url("/" + shelf.put(transcript, passed=3, last=ending.close(MARK)))

What stands behind a sidecar stalls after what has passed (`then="stall"`), and is ended by the sidecar.
"""

from __future__ import annotations

import itertools
import json
from typing import Literal, NamedTuple

from proxy.degrade.endings.failing import failure
from proxy.degrade.endings.recognise import boundary_for, ending_for
from tests.degrade.other_transcripts import GEMINI_OF_TWO
from tests.degrade.transcript import MARK, Transcript
from tests.support.behaviours import drip
from tests.support.upstream import Exchange

Then = Literal["end", "stall", "close"]

_CUT = json.dumps(
    {"error": {"message": "it was cut", "type": "deadline_exceeded", "code": "route_cap"}}
).encode()


class Served(NamedTuple):
    """The pieces of one answer, and what comes behind them."""

    transcript: Transcript
    pieces: list[bytes]
    then: Then


class Shelf:
    """What is served, by name."""

    def __init__(self) -> None:
        self._served: dict[str, Served] = {}
        self._numbers = itertools.count(1)

    def put(self, transcript: Transcript, passed: int, last: bytes = b"", *, then: Then = "end") -> str:
        """Serve so many pieces of a transcript, and `last` behind them; return the name."""
        name = f"stream-{next(self._numbers)}"
        self._served[name] = Served(transcript, [*transcript.pieces[:passed], last], then)
        return name

    async def behave(self, exchange: Exchange) -> None:
        """Answer a request for one of them."""
        served = self._served[exchange.request.target.split("/")[1]]
        headers = [("Content-Type", served.transcript.content_type)]
        pieces = [piece for piece in served.pieces if piece]
        await drip(pieces, every=0, headers=headers, then=served.then)(exchange)


def closed(transcript: Transcript, passed: int) -> bytes | None:
    """What closes a transcript of which so much has passed."""
    ending = ending_for(transcript.content_type.encode(), transcript.path)
    assert ending is not None
    for piece in transcript.pieces[:passed]:
        ending.feed(piece)
    return ending.close(MARK)


def error_of(transcript: Transcript) -> bytes:
    """What a transcript ends with that has no better end: an event, or a line."""
    boundary = boundary_for(transcript.content_type.encode())
    assert boundary is not None
    return failure(boundary, transcript.path, _CUT)


def readers_of(transcript: Transcript) -> list[str]:
    """The names of the readers, in Python and on Node, that speak a transcript's dialect."""
    path = transcript.path.partition("?")[0]
    match transcript.dialect:
        case "openai-chat" if not path.endswith("/chat/completions"):
            return ["openai completions"]
        case "openai-chat":
            return ["openai chat", "openai chat helper"]
        case "openai-responses":
            return ["openai responses", "openai responses helper"]
        case "anthropic-messages":
            return ["anthropic messages", "anthropic messages helper"]
        case "gemini" if transcript is GEMINI_OF_TWO:
            return ["gemini"]  # a conversation goes on with one
        case "gemini":
            return ["gemini", "gemini chat"]
        case "ollama":
            return ["ollama chat" if path.endswith("/chat") else "ollama generate"]
        case _:
            return []
