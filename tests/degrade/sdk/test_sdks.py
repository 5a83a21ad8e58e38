"""The real SDKs, in Python and on Node: each reads a stream that was closed before its end, and knows that it was.

A stream that cannot be closed ends with the error event and a broken connection, and each of them raises.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from tests.degrade.other_transcripts import OLLAMA_CHAT, OLLAMA_GENERATE
from tests.degrade.sdk import node_readers, python_readers
from tests.degrade.sdk.node_readers import Asked
from tests.degrade.sdk.python_readers import Heard
from tests.degrade.sdk.served import Shelf, closed, error_of, readers_of
from tests.degrade.sdk.streams import Stream, check_broken, check_whole
from tests.degrade.transcript import Transcript
from tests.degrade.transcripts import JSON_TRANSCRIPTS
from tests.support.upstream import Upstream

DOCS = Path(__file__).parents[3] / "docs" / "streams.md"
# Fetching the packages for Node takes its time, once.
pytestmark = pytest.mark.timeout(300)


def cuts(transcript: Transcript) -> list[int]:
    """Where a stream is cut here: at its beginning, in its middle, and shortly before its end."""
    length = len(transcript.pieces)
    near = {transcript.from_, transcript.from_ + 1, length // 2, length - 2, length - 1}
    return sorted(passed for passed in near if passed - 1 not in transcript.calls)


STREAMS = [
    Stream(transcript, passed, reader)
    for transcript in JSON_TRANSCRIPTS
    for passed in cuts(transcript)
    for reader in readers_of(transcript)
]
BROKEN = [
    Stream(transcript, passed, reader, broken=True)
    for transcript in [*(each for each in JSON_TRANSCRIPTS if each.calls), OLLAMA_CHAT, OLLAMA_GENERATE]
    for passed in ([transcript.calls[0] + 1, transcript.calls[-1] + 1] if transcript.calls else [3])
    for reader in readers_of(transcript)
]


@pytest.fixture(scope="session")
def bases(shelf: Shelf, service: Upstream) -> dict[str, str]:
    """Where each of the streams is served, closed as it should be, or broken off."""
    served: dict[str, str] = {}
    for stream in STREAMS:
        last = closed(stream.transcript, stream.passed)
        assert last is not None, str(stream)
        served[str(stream)] = shelf.put(stream.transcript, stream.passed, last)
    for stream in BROKEN:
        error = error_of(stream.transcript)
        served[str(stream)] = shelf.put(stream.transcript, stream.passed, error, then="close")
    return {stream: service.url(f"/{name}") for stream, name in served.items()}


@pytest.fixture(scope="session")
def heard_on_node(bases: dict[str, str], node_packages: Path) -> dict[str, Heard]:
    """What the SDKs on Node make of all of them, in one process."""
    streams = [*STREAMS, *BROKEN]
    asked = [Asked(stream.reader, bases[str(stream)]) for stream in streams]
    heard: list[Any] = node_readers.read(node_packages, asked)
    return {str(stream): Heard(**each) for stream, each in zip(streams, heard, strict=True)}


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_an_sdk_in_python_reads_it_to_the_end(stream: Stream, bases: dict[str, str]) -> None:
    check_whole(stream, python_readers.read(stream.reader, bases[str(stream)]))


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_an_sdk_on_node_reads_it_to_the_end(stream: Stream, heard_on_node: dict[str, Heard]) -> None:
    check_whole(stream, heard_on_node[str(stream)])


@pytest.mark.parametrize("stream", BROKEN, ids=str)
def test_an_sdk_in_python_raises_where_there_is_no_end(stream: Stream, bases: dict[str, str]) -> None:
    """And says why, as an error of its own."""
    check_broken(python_readers.read(stream.reader, bases[str(stream)]), "it was cut")


@pytest.mark.parametrize("stream", BROKEN, ids=str)
def test_an_sdk_on_node_raises_where_there_is_no_end(stream: Stream, heard_on_node: dict[str, Heard]) -> None:
    check_broken(heard_on_node[str(stream)], "it was cut")


def test_the_lock_file_names_no_registry() -> None:
    """Whoever installs takes the packages from where that machine takes them; their hashes are fixed."""
    lock = json.loads((node_readers.HERE / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert not [name for name, each in packages.items() if "resolved" in each]
    assert all(each["integrity"].startswith("sha512-") for each in packages.values())
    wanted = json.loads((node_readers.HERE / "package.json").read_text())["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def test_the_docs_name_the_versions_that_were_tried() -> None:
    """A reader of docs/streams.md knows which SDKs its table speaks of."""
    said = DOCS.read_text()
    for name in ("openai", "anthropic", "google-genai", "ollama"):
        assert f"| {name} {importlib.metadata.version(name)} |" in said
    wanted = json.loads((node_readers.HERE / "package.json").read_text())["dependencies"]
    for name, version in wanted.items():
        assert f"| {name} {version} |" in said
