"""The real SDKs, in Python and on Node, behind a real sidecar whose time runs out in the middle of what they read.

The service says so much of a stream, the half of an event or line more (a character of several bytes is cut where there is
one), and then nothing. What the SDK reads after that the sidecar has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.degrade.chat_transcripts import CHAT_CALLING, CHAT_COUNTING, COMPLETIONS
from tests.degrade.other_transcripts import (
    GEMINI_CALLING,
    GEMINI_PLAIN,
    MESSAGES_CALLING,
    MESSAGES_PLAIN,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
)
from tests.degrade.responses_transcripts import RESPONSES_CALLING, RESPONSES_PLAIN
from tests.degrade.sdk import node_readers, python_readers
from tests.degrade.sdk.node_readers import Asked
from tests.degrade.sdk.python_readers import Heard
from tests.degrade.sdk.served import Shelf, readers_of
from tests.degrade.sdk.streams import Stream, check_broken, check_whole
from tests.degrade.transcript import MARK, Transcript
from tests.degrade.transcripts import JSON_TRANSCRIPTS
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

CAP_MS = 2000
WHY = f"The call was allowed {CAP_MS} ms (the cap of its route) and was cut then."
AT_ONCE = 16
"""How many streams the SDKs in Python read at a time. Each waits for the end of its time."""

# Fetching the packages for Node takes its time, once.
pytestmark = pytest.mark.timeout(300)


def cuts(transcript: Transcript) -> list[int]:
    """Where a stream is cut here: before a character of several bytes, and before its last event."""
    passed = next(number for number, piece in enumerate(transcript.pieces) if "茶".encode() in piece)
    near = {max(passed, transcript.from_), len(transcript.pieces) - 1}
    return sorted(each for each in near if each - 1 not in transcript.calls)


def half(piece: bytes) -> bytes:
    """The beginning of an event or a line, up to the middle of a character if it has a long one."""
    long = next((at for at, byte in enumerate(piece) if byte >= 0x80), None)
    return piece[: len(piece) // 2 if long is None else long + 1]


CLOSED = [
    Stream(transcript, passed, reader)
    for transcript in JSON_TRANSCRIPTS
    for passed in cuts(transcript)
    for reader in readers_of(transcript)
]
CALLING = [CHAT_CALLING, RESPONSES_CALLING, MESSAGES_CALLING, GEMINI_CALLING]
BEFORE = [
    CHAT_COUNTING,
    COMPLETIONS,
    RESPONSES_PLAIN,
    MESSAGES_PLAIN,
    GEMINI_PLAIN,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
]
BROKEN = [
    Stream(transcript, passed, reader, broken=True)
    for transcript, passed in [
        *((transcript, transcript.calls[-1] + 1) for transcript in CALLING),
        *((transcript, 0) for transcript in BEFORE),
    ]
    for reader in readers_of(transcript)
]
STREAMS = [*CLOSED, *BROKEN]
PROXIED = [
    stream
    for stream in STREAMS
    if stream.transcript in (CHAT_COUNTING, RESPONSES_PLAIN, MESSAGES_PLAIN, GEMINI_PLAIN, OLLAMA_CHAT)
]

Hearing = dict[str, Heard]
Read = Callable[[list[Stream], list[str]], Hearing]


@pytest.fixture(scope="module")
def names(shelf: Shelf) -> dict[str, str]:
    """Where each of the streams is served."""
    return {
        str(stream): shelf.put(
            stream.transcript, stream.passed, half(stream.transcript.pieces[stream.passed]), then="stall"
        )
        for stream in STREAMS
    }


@pytest.fixture(scope="module")
def closing(service: Upstream) -> Iterator[Sidecar]:
    """A sidecar that closes streams, on a route of its own and for all that is asked of this machine."""
    rules = {"effect": "read", "cap": f"{CAP_MS}ms", "on_cut": "truncate", "truncate_mark": MARK}
    routes = [
        {"name": "led", "prefix": "/led", "upstream": service.url("")} | rules,
        {"name": "proxied", "match": {"host": "127.0.0.1"}} | rules,
    ]
    with Sidecar({"routes": routes}) as sidecar:
        yield sidecar


def in_python(streams: list[Stream], bases: list[str]) -> Hearing:
    """What the SDKs in Python make of them."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        heard = pool.map(python_readers.read, [stream.reader for stream in streams], bases)
    return {str(stream): each for stream, each in zip(streams, heard, strict=True)}


@pytest.fixture(scope="module")
def on_node(node_packages: Path) -> Read:
    """What the SDKs on Node make of them."""

    def read(streams: list[Stream], bases: list[str]) -> Hearing:
        asked = [Asked(stream.reader, base) for stream, base in zip(streams, bases, strict=True)]
        heard: list[Any] = node_readers.read(node_packages, asked)
        return {str(stream): Heard(**each) for stream, each in zip(streams, heard, strict=True)}

    return read


@pytest.fixture(scope="module")
def led(closing: Sidecar, names: dict[str, str]) -> list[str]:
    """The base URLs that lead to the streams through the sidecar."""
    return [f"{closing.proxy_url}/led/{names[str(stream)]}" for stream in STREAMS]


@pytest.fixture(scope="module")
def python_led(led: list[str]) -> Hearing:
    return in_python(STREAMS, led)


@pytest.fixture(scope="module")
def node_led(led: list[str], on_node: Read) -> Hearing:
    return on_node(STREAMS, led)


@pytest.fixture(scope="module")
def proxied(closing: Sidecar, service: Upstream, names: dict[str, str]) -> Iterator[list[str]]:
    """The base URLs at the service itself, in an environment that names the sidecar as the proxy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", closing.proxy_url)
        patch.setenv("http_proxy", closing.proxy_url)
        patch.setenv("NODE_USE_ENV_PROXY", "1")
        yield [service.url(f"/{names[str(stream)]}") for stream in PROXIED]


@pytest.fixture(scope="module")
def python_proxied(proxied: list[str]) -> Hearing:
    return in_python(PROXIED, proxied)


@pytest.fixture(scope="module")
def node_proxied(proxied: list[str], on_node: Read) -> Hearing:
    return on_node(PROXIED, proxied)


def check(stream: Stream, heard: Hearing) -> None:
    """Closed streams are read to the end, and those that broke raise."""
    if stream.broken:
        check_broken(heard[str(stream)], WHY)
    else:
        check_whole(stream, heard[str(stream)])


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_an_sdk_in_python_is_led_through_the_sidecar(stream: Stream, python_led: Hearing) -> None:
    check(stream, python_led)


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_an_sdk_on_node_is_led_through_the_sidecar(stream: Stream, node_led: Hearing) -> None:
    check(stream, node_led)


@pytest.mark.parametrize("stream", PROXIED, ids=str)
def test_an_sdk_in_python_has_the_sidecar_as_its_proxy(stream: Stream, python_proxied: Hearing) -> None:
    check(stream, python_proxied)


@pytest.mark.parametrize("stream", PROXIED, ids=str)
def test_an_sdk_on_node_has_the_sidecar_as_its_proxy(stream: Stream, node_proxied: Hearing) -> None:
    check(stream, node_proxied)
