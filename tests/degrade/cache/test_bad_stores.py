"""A store that is slow, gone or mad costs a call no more than it has for it, and never an answer that is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.core.units import MILLISECOND, SECOND
from proxy.degrade.cache.entry import encode
from proxy.degrade.cache.redis_links import MOST_LINKS
from tests.degrade.cache.questions import chat, kept, known
from tests.degrade.cache.stores import ASKED, LONG, bulk, pretender, replies, shop
from tests.net.hosts import full_backlog, name_server, server, silence
from tests.support.ports import free_port

VALUE = bytes.fromhex(ASKED.key) + encode(kept())
GOOD = replies(bulk(VALUE))
SHORT = 30 * MILLISECOND


async def test_the_pretender_passes_for_a_store() -> None:
    async with server(pretender(GOOD)) as port, shop(f"redis://127.0.0.1:{port}") as pod:
        assert await pod.ask() == (kept(), SECOND)


MAD = {
    "never expires": replies(bulk(VALUE), b":-1\r\n"),
    "stays too long": replies(bulk(VALUE), b":60001\r\n"),
    "a text for a number": replies(bulk(VALUE), bulk(b"59000")),
    "one of three": b":59000\r\n",
    "a number for a text": replies(b":1\r\n"),
    "nil": replies(b"$-1\r\n"),
    "a list": replies(b"*1\r\n" + bulk(VALUE)),
    "another type": replies(b"-WRONGTYPE no string\r\n"),
    "no number at all": replies(bulk(VALUE), b"-ERR what\r\n"),
    "fine": b"+OK\r\n" * 3,
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "who are you": b"-NOAUTH Authentication required.\r\n",
    "not you": b"-NOPERM no permission\r\n" * 3,
    "elsewhere": b"-MOVED 1 192.0.2.1:6379\r\n",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an empty line": b"\r\n",
    "zeros": b"\0" * 100,
    "a line without end": b"+" + b"x" * 1_000_000,
    "a length beyond numbers": b"$" + b"9" * 40 + b"\r\n",
    "a length beyond the bound": b"$99999999\r\n",
    "a length below zero": b"$-5\r\n",
    "a list beyond numbers": b"*" + b"9" * 40 + b"\r\n" + b":1\r\n" * 10,
    "lists in lists": b"*1\r\n" * 5_000,
    "no number": b":x\r\n",
    "more than was asked for": replies(bulk(b"x" * 3_000_000)),
}


@pytest.mark.parametrize("reply", MAD.values(), ids=MAD)
@pytest.mark.parametrize("then", ["hangs", "closes"])
async def test_what_is_no_answer_of_a_store_is_none_for_a_call(reply: bytes, then: str) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        if then == "closes":
            writer.close()

    async with (
        server(pretender(answer)) as port,
        shop(f"redis://127.0.0.1:{port}", timeout=100 * MILLISECOND) as pod,
    ):
        assert await pod.ask(within=100 * MILLISECOND) is None
        assert pod.failures == 1


@pytest.mark.parametrize(
    ("reply", "held"),
    [
        (replies(bulk(VALUE), after=b":-2\r\n"), None),
        (replies(bulk(b""), after=b":-2\r\n"), None),
        (replies(bulk(b""), b":-2\r\n", b":59000\r\n"), None),
        (replies(bulk(VALUE), b":10000\r\n", b":60000\r\n"), 50),
        (replies(bulk(VALUE), b":90000\r\n", b":60000\r\n"), 0),
    ],
)
async def test_an_entry_that_goes_or_is_replaced_in_between_is_never_taken_for_younger_than_it_is(
    reply: bytes, held: int | None
) -> None:
    async with server(pretender(reply)) as port, shop(f"redis://127.0.0.1:{port}") as pod:
        assert await pod.ask() == (None if held is None else (kept(), held * SECOND))
    assert pod.failures == 0


@pytest.mark.parametrize("at", [0, 1, 10, len(GOOD) // 2, len(GOOD) - 1])
async def test_half_an_answer_is_none(at: int) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(GOOD[:at])
        writer.close()

    async with server(pretender(answer)) as port, shop(f"redis://127.0.0.1:{port}") as pod:
        assert await pod.ask() is None
        assert pod.failures == 1


async def test_an_endless_answer_does_not_hold_up_the_loop() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"*999999999\r\n" + b":1\r\n" * 500_000)

    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    async with (
        server(pretender(answer)) as port,
        shop(f"redis://127.0.0.1:{port}", timeout=10 * SECOND) as pod,
    ):
        heard = pod.ask()
        asyncio.get_running_loop().call_soon(turn)
        assert await heard is None
        assert pod.failures == 1
    assert turns > 1_000


async def test_an_answer_to_nobody_is_not_the_answer_to_the_next() -> None:
    other = bytes.fromhex(known(chat("other")).key) + encode(kept(b"of another"))

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(GOOD + replies(bulk(other)))

    async with server(pretender(answer)) as port, shop(f"redis://127.0.0.1:{port}") as pod:
        for _ in range(3):
            assert await pod.ask() == (kept(), SECOND)
            await asyncio.sleep(0.01)
        assert pod.store._links._total <= 1


@pytest.mark.parametrize(
    "greeting",
    [
        b"-ERR unknown command\r\n-ERR no\r\n",
        b"x\r\n",
        b"$99999999\r\n",
        b"*9999999\r\n" + b":1\r\n" * 40_000,
        b"+OK",
    ],
    ids=["an error", "no reply", "a long one", "an endless one", "half a one"],
)
async def test_a_strange_greeting_is_no_store(greeting: bytes) -> None:
    url = "redis://:password@127.0.0.1"
    async with (
        server(pretender(GOOD, greeting)) as port,
        shop(f"{url}:{port}/1", timeout=100 * MILLISECOND) as pod,
    ):
        assert await pod.ask(within=100 * MILLISECOND) is None
        assert pod.failures == 1


async def test_a_port_that_refuses_is_asked_once_a_while() -> None:
    async with shop(f"redis://127.0.0.1:{free_port()}") as pod:
        for pause in (0, 1, 2, 4, 8, 16, 30, 30):
            pod.now += pause * SECOND - 1
            assert await pod.ask() is None
            pod.now += 1
            assert await pod.ask() is None
        assert pod.failures == 8


async def test_a_port_that_swallows_what_is_sent_costs_one_call_its_time() -> None:
    with full_backlog() as port:
        async with shop(f"redis://127.0.0.1:{port}", timeout=SHORT) as pod:
            assert [await each for each in [pod.ask(within=SHORT) for _ in range(20)]] == [None] * 20
            assert pod.store._links._total <= MOST_LINKS
            failures = pod.failures
            assert await pod.ask(within=LONG) is None
            assert pod.failures == failures


@pytest.mark.parametrize("greets", [True, False])
async def test_a_server_that_says_nothing_costs_a_call_its_time_and_the_next_ones_nothing(
    greets: bool,
) -> None:
    async def nothing(writer: asyncio.StreamWriter) -> None:
        """Say nothing."""

    handler: Any = pretender(nothing) if greets else silence
    async with server(handler) as port, shop(f"redis://127.0.0.1:{port}", timeout=SHORT) as pod:
        for pause in (1, 2, 4):
            assert await pod.ask(within=SHORT) is None
            failures = pod.failures
            pod.now += pause * SECOND - 1
            assert await pod.ask(within=LONG) is None
            assert pod.failures == failures
            pod.now += 1


async def test_a_store_that_is_further_away_than_a_call_may_wait_is_there_for_the_next() -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        await pretender(GOOD)(reader, writer)

    async with server(late) as port, shop(f"redis://127.0.0.1:{port}", timeout=SHORT) as pod:
        assert await pod.ask(within=SHORT) is None
        await pod.quiet()
        assert await pod.ask(within=SHORT) == (kept(), SECOND)


async def test_a_name_server_that_hangs_holds_up_nobody_but_the_question() -> None:
    async with (
        name_server({}, {"store.test"}) as (asked, address),
        shop("redis://store.test", address, timeout=SHORT) as pod,
    ):
        assert await pod.ask(within=SHORT) is None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(10):
            assert await loop.run_in_executor(None, lambda: 7) == 7
        assert {name for name, _ in asked.asked} == {"store.test"}


async def test_what_cannot_be_written_is_not_kept_and_nobody_waits_for_it() -> None:
    async with server(silence) as port, shop(f"redis://127.0.0.1:{port}") as pod:
        for _ in range(1_000):
            pod.store.keep(ASKED, kept(b"x" * 100_000))
        assert len(pod.store._queue) <= 256
        assert pod.store._queued <= 8 * 1024 * 1024


async def test_nothing_is_said_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    async def dies(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with server(pretender(dies)) as port, shop(f"redis://127.0.0.1:{port}") as pod:
        for _ in range(3):
            assert await pod.ask() is None
            pod.store.keep(ASKED, kept())
            await pod.quiet()
            pod.now += 60 * SECOND
    assert capfd.readouterr().err == ""
