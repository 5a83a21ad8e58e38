"""Over HTTP, on real sockets: what is asked for rightly is answered, and what is not is told its place and its remedy."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.policy import Address
from proxy.core.units import MILLISECOND
from proxy.observe.steplog import StepLog
from proxy.semantic import api, server
from proxy.semantic.api import MOST_AT_ONCE
from proxy.semantic.problems import Problem
from proxy.semantic.reading.tokens import MOST_CHARACTERS
from proxy.semantic.requests import MOST_BODY, MOST_FIND, read_find, read_keep
from proxy.semantic.server import CacheServer, Settings
from proxy.semantic.shelf import Bounds
from tests.semantic.shelves import ENCODED, find_body, keep_body

HERE = Address("127.0.0.1", 0)


class Client:
    """Somebody who asks."""

    def __init__(self, server: CacheServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        async with self._session.post(path, data=data, headers=fields) as response:
            return response.status, await response.json(content_type=None) if response.status != 204 else None

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(path) as response:
            return response.status, await response.text()


@asynccontextmanager
async def service(**settings: Any) -> AsyncIterator[Client]:
    """The whole service, started and stopped."""
    log = StepLog(fd=2)
    values: dict[str, Any] = {"listen": HERE, "drain": 0.0} | settings
    whole = CacheServer(Settings(**values), log)
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(whole.run())
            listening = group.create_task(whole.listening.wait())
            await asyncio.wait([running, listening], return_when=asyncio.FIRST_COMPLETED)
            try:
                async with aiohttp.ClientSession(
                    f"http://127.0.0.1:{whole.port}", trust_env=False
                ) as session:
                    yield Client(whole, session)
            finally:
                whole.stop()
                listening.cancel()
    finally:
        log.close()


async def test_what_is_kept_is_found_by_another_wording() -> None:
    async with service() as client:
        assert await client.post("/v1/keep", keep_body("Is the payment service up?")) == (204, None)
        status, said = await client.post("/v1/find", find_body("Please, is the payment service up?"))
        assert status == 200
        assert said.pop("similarity") == pytest.approx(0.9, abs=0.11)
        assert 0 <= said.pop("age_ms") < 60_000
        entry = base64.b64encode(ENCODED).decode()
        assert said == {"found": True, "entry": entry, "text": "Is the payment service up?"}
        _, said = await client.post("/v1/find", find_body("Is the payment service not up?"))
        assert (said["found"], said["why"]) == (False, "negations differ")
        _, said = await client.post("/v1/find", find_body("Is the payment service up?", partition="q"))
        assert said == {"found": False, "nearest": None, "why": "nothing kept"}


async def test_an_answer_goes_when_its_time_is_over() -> None:
    async with service() as client:
        await client.post("/v1/keep", keep_body("Is it up?", keep_ms=1))
        await asyncio.sleep(0.005)
        _, said = await client.post("/v1/find", find_body("Is it up?"))
        assert said["why"] == "nothing kept"


async def test_numbers_are_shown() -> None:
    async with service() as client:
        await client.post("/v1/keep", keep_body("Is the payment service up?"))
        await client.post("/v1/find", find_body("Is the payment service up?"))
        await client.post("/v1/find", find_body("Is the payment service not up?"))
        await client.post("/v1/find", b"{")
        status, text = await client.get("/metrics")
    assert status == 200
    lines = set(text.splitlines())
    assert {
        'waterclock_semantic_finds_total{reason="",result="found"} 1.0',
        'waterclock_semantic_finds_total{reason="negations differ",result="missed"} 1.0',
        'waterclock_semantic_finds_total{reason="numbers differ",result="missed"} 0.0',
        'waterclock_semantic_keeps_total{result="kept"} 1.0',
        'waterclock_semantic_problems_total{status="400"} 1.0',
        "waterclock_semantic_entries 1.0",
        "waterclock_semantic_partitions 1.0",
        "waterclock_semantic_find_duration_seconds_count 2.0",
    } <= lines


async def test_health_is_told() -> None:
    async with service() as client:
        assert await client.get("/healthz") == (200, '{"alive": true}')
        assert await client.get("/readyz") == (200, '{"ready": true, "reasons": []}')


# -- poisoned --------------------------------------------------------------------------------------------------------

FINDS: dict[str, tuple[object, str]] = {
    "nothing": (b"", "not JSON"),
    "no JSON": (b"{", "not JSON"),
    "no UTF-8": (b'"\xff"', "not JSON"),
    "too deep": (b"[" * 100_000, "not JSON"),
    "not a number": (b'{"partition": "p", "text": "a", "threshold": NaN}', "NaN"),
    "twice": (b'{"partition": "p", "partition": "q", "text": "a", "threshold": 1}', "two members"),
    "a list": ([], "The body is a list"),
    "a string": ("find", "the string"),
    "missing": ({"partition": "p", "text": "a"}, "threshold is missing"),
    "unknown": (find_body("a", limit=5), "limit"),
    "partition of another type": (find_body("a", partition=7), "partition is the number 7"),  # type: ignore[arg-type]
    "partition empty": (find_body("a", partition=""), "partition is the string"),
    "partition too long": (find_body("a", partition="x" * 257), "partition is the string"),
    "partition with a space": (find_body("a", partition="a b"), "partition"),
    "text of another type": (find_body("a") | {"text": ["a"]}, "text is a list"),
    "text null": (find_body("a") | {"text": None}, "text is null"),
    "text empty": (find_body(" \n"), "text is the string"),
    "threshold a truth": (find_body("a", threshold=True), "threshold is true"),
    "threshold a string": (find_body("a", threshold="0.9"), "threshold is the string"),
    "threshold too large": (find_body("a", threshold=1.1), "threshold is the number 1.1"),
    "threshold negative": (find_body("a", threshold=-0.1), "threshold"),
    "threshold of hundreds of digits": (
        b'{"partition": "p", "text": "a", "threshold": %b}' % (b"7" * 400),
        "threshold is the number 7",
    ),
    "text with half of a pair": (find_body("a \ud800"), "half of a surrogate pair"),
    "too many values": (b"[" + b"1," * 20_000 + b"1]", "commas and colons"),
    "threshold huge": (b'{"partition": "p", "text": "a", "threshold": 1e999}', "threshold is the number inf"),
}
KEEPS: dict[str, tuple[object, str]] = {
    "entry of another type": (keep_body("a", entry=5), "entry is the number 5"),
    "entry no base64": (keep_body("a", entry="!!!!"), "entry cannot be read"),
    "entry not ASCII": (keep_body("a", entry="é"), "entry cannot be read"),
    "entry of nobody": (keep_body("a", entry="AAAA"), "no entry of this cache"),
    "entry cut": (keep_body("a", entry=base64.b64encode(ENCODED[:-1]).decode()), "not as long"),
    "entry of another version": (
        keep_body("a", entry=base64.b64encode(ENCODED.replace(b"\x01", b"\x09", 1)).decode()),
        "version 9",
    ),
    "keep_ms zero": (keep_body("a", keep_ms=0), "keep_ms is the number 0"),
    "keep_ms a truth": (keep_body("a", keep_ms=True), "keep_ms is true"),
    "keep_ms a fraction": (keep_body("a", keep_ms=1.5), "keep_ms"),
    "keep_ms for ever": (keep_body("a", keep_ms=10**30), "keep_ms"),
    "keep_ms of hundreds of digits": (keep_body("a", keep_ms=10**400), "keep_ms"),
    "text with half of a pair": (keep_body("a \udc00"), "half of a surrogate pair"),
    "too many members": (b"{" + b'"a":1,' * 10_000 + b'"b":1}', "commas and colons"),
    "missing": ({"partition": "p"}, "text is missing"),
}


@pytest.mark.parametrize("what", FINDS)
async def test_a_question_that_is_wrong_is_told_its_place_and_its_remedy(what: str) -> None:
    await refused("/v1/find", *FINDS[what])


@pytest.mark.parametrize("what", KEEPS)
async def test_an_answer_that_is_wrong_is_told_its_place_and_its_remedy(what: str) -> None:
    await refused("/v1/keep", *KEEPS[what])


async def refused(path: str, body: object, said: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reader = read_find if path == "/v1/find" else read_keep
    with pytest.raises(Problem) as caught:
        reader(data)
    response = caught.value.response()
    assert response.status == 400
    assert response.content_type == "application/problem+json"
    assert isinstance(response.body, bytes)
    problem = json.loads(response.body)
    assert said in problem["detail"]
    assert problem["remedy"].endswith(".")
    assert problem["type"] == "urn:waterclock:problem:bad-request"


@given(st.binary(max_size=100) | st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["partition", "text", "threshold", "entry", "keep_ms", "x"]), inner, max_size=5), max_leaves=8).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_whatever_arrives_is_read_or_refused(body: bytes) -> None:
    for reader in (read_find, read_keep):
        with suppress(Problem):
            reader(body)


async def test_what_is_wrong_with_the_request_itself_is_told() -> None:
    async with service() as client:
        status, said = await client.post("/v1/find", b"{}", Content_Type="text/plain")
        assert (status, said["remedy"]) == (415, "Send application/json.")
        assert (await client.post("/v1/other", b"{}"))[0] == 404
        status, text = await client.get("/v1/find")
        assert (status, json.loads(text)["remedy"]) == (
            405,
            "Send POST to /v1/find and /v1/keep, GET to the others.",
        )
        status, said = await client.post("/v1/find", find_body("x" * (MOST_CHARACTERS + 1)))
        assert (status, said["detail"]) == (413, f"text has {MOST_CHARACTERS + 1} characters.")
        status, said = await client.post("/v1/find", find_body("\ufdfa" * (MOST_CHARACTERS // 10)))
        assert status == 413, "each of these is eighteen characters in the form that is compared"
        assert (await client.post("/v1/find", find_body("Is it up?")))[0] == 200


def test_the_longest_text_fits_however_it_is_escaped() -> None:
    """Each character written as two escapes, or all of them commas."""
    for text in ("\U0001f600" * MOST_CHARACTERS, ",:" * (MOST_CHARACTERS // 2)):
        body = json.dumps(find_body(text, partition="p" * 256)).encode()
        assert len(body) <= MOST_FIND
        assert read_find(body).text == text


async def speak(port: int, data: bytes) -> bytes:
    """Say something to the service byte for byte, and return what it says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_body_too_long_or_without_a_length_is_not_read() -> None:
    head = b"POST /v1/keep HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    async with service() as client:
        port = client.server.port
        long = await speak(port, head + b"Content-Length: %d\r\n\r\n{" % (MOST_BODY + 1))
        assert b" 413 " in long
        assert b"cache.entry_bytes" in long
        find = head.replace(b"keep", b"find")
        long = await speak(port, find + b"Content-Length: %d\r\n\r\n{" % (MOST_FIND + 1))
        assert b" 413 " in long
        assert b"shorter text" in long
        assert b" 411 " in await speak(port, head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert b" 400 " in await speak(port, b"what is this\r\n\r\n")
        assert (await client.get("/healthz"))[0] == 200


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more bodies are awaited at once than there is room for."""
    monkeypatch.setattr(api, "BODY_SECONDS", 0.2)
    head = b"POST /v1/keep HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nConnection: close\r\n"
    slow = head + b"Content-Length: %d\r\n\r\n{" % MOST_BODY
    async with service() as client:
        port = client.server.port
        async with asyncio.TaskGroup() as group:
            said = [group.create_task(speak(port, slow)) for _ in range(MOST_AT_ONCE // MOST_BODY + 1)]
        statuses = sorted(task.result().split()[1] for task in said)
        assert statuses == [b"408"] * (MOST_AT_ONCE // MOST_BODY) + [b"503"]
        assert (await client.get("/healthz"))[0] == 200


async def test_more_connections_than_there_is_room_for_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    async with service() as client:
        kept = [await asyncio.open_connection("127.0.0.1", client.server.port) for _ in range(3)]
        for _, writer in kept:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        for reader, _ in kept:
            assert b"200" in await reader.readline()
        assert await speak(client.server.port, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n") == b""
        for _, writer in kept:
            writer.close()


async def test_an_answer_larger_than_may_be_kept_is_told_and_nothing_breaks() -> None:
    async with service(bounds=Bounds(30_000, 10, 10)) as client:
        status, said = await client.post("/v1/keep", keep_body("a question " * 100))
        assert (status, "larger than" in said["detail"]) == (413, True)
        assert await client.post("/v1/keep", keep_body("a question")) == (204, None)


async def test_without_embeddings_it_says_so() -> None:
    place = server.Place("http://127.0.0.1:1", "m", None, 100 * MILLISECOND)
    async with service(embeddings=place) as client:
        for path, body in (("/v1/find", find_body("a")), ("/v1/keep", keep_body("a"))):
            status, said = await client.post(path, body)
            assert status == 502
            assert "There are no embeddings" in said["detail"]
        _, text = await client.get("/metrics")
        assert 'waterclock_semantic_finds_total{reason="",result="failed"} 1.0' in text
        assert (await client.get("/readyz"))[0] == 200


async def test_a_fault_of_its_own_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("proxy.semantic.service.read", broken)
    async with service() as client:
        status, said = await client.post("/v1/find", find_body("a"))
        assert (status, said["detail"]) == (500, "A fault of the service's own.")
        assert (await client.get("/healthz"))[0] == 200


async def test_while_it_drains_it_answers_and_lets_go() -> None:
    async with service(drain=0.3) as client:
        client.server.stop()
        status, text = await client.get("/readyz")
        assert (status, json.loads(text)["reasons"]) == (503, ["The service is draining."])
        status, _ = await client.post("/v1/find", find_body("a"))
        assert status == 200
