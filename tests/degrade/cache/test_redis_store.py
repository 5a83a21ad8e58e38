"""Pods share answers through a real redis-server, and do without it as soon as it is no help."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import trustme

from proxy.core.degrading import CacheUse
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from proxy.degrade.cache import redis_store
from proxy.degrade.cache.entry import encode
from tests.degrade.cache.questions import chat, header, kept, known
from tests.degrade.cache.stores import ASKED, LONG, NAME, Server, redis_server, shop
from tests.net.hosts import open_sockets
from tests.support.fixtures import ca
from tests.support.ports import free_port

__all__ = ["ca"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that do it no harm."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    """That server, with nothing in it."""
    with shared.client() as client:
        client.flushall()
    return shared


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, to be killed and held up."""
    with redis_server(tmp_path) as server:
        yield server


# -- shared ----------------------------------------------------------------------------------------------------------


async def test_what_one_pod_keeps_another_finds_with_the_time_it_has_been_there(server: Server) -> None:
    entry = kept(b"whole", age=SECOND, kept=HOUR)
    async with shop(server.url) as one, shop(server.url) as other:
        one.store.keep(ASKED, entry)
        await one.quiet()
        with server.client() as client:
            client.pexpire(NAME, 59 * 60 * 1000)  # a minute has gone by for it
        brought = await other.ask()
    assert brought is not None
    found, held = brought
    assert found == entry
    assert MINUTE <= held < 2 * MINUTE
    assert (one.failures, other.failures) == (0, 0)


async def test_what_is_not_there_is_no_failure(server: Server) -> None:
    async with shop(server.url) as pod:
        assert await pod.ask() is None
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        assert await pod.ask(known(chat("up?"), header(authorization="Bearer other"))) is None
    assert pod.failures == 0


async def test_it_stays_there_for_as_long_as_it_is_kept(server: Server) -> None:
    async with shop(server.url) as pod:
        pod.store.keep(ASKED, kept(kept=100 * SECOND))
        await pod.quiet()
        with server.client() as client:
            assert 90_000 < client.pttl(NAME) <= 100_000
        pod.store.keep(ASKED, kept(kept=1))
        await pod.quiet()
        await asyncio.sleep(0.01)
        assert await pod.ask() is None


async def test_the_last_one_kept_stands_and_what_is_forgotten_after_it_is_gone(server: Server) -> None:
    async with shop(server.url) as pod:
        for body in (b"1", b"2"):
            pod.store.keep(ASKED, kept(body))
        await pod.quiet()
        brought = await pod.ask()
        assert brought is not None
        assert brought[0].body == b"2"
        pod.store.keep(ASKED, kept(b"3"))
        pod.store.forget([ASKED.key])
        await pod.quiet()
        assert await pod.ask() is None


async def test_what_is_kept_while_the_writer_is_about_to_end_is_written_too(server: Server) -> None:
    asked = [known(chat(str(number))) for number in range(40)]
    async with shop(server.url) as pod:
        for turns, each in enumerate(asked):
            pod.store.keep(each, kept())
            for _ in range(turns):
                await asyncio.sleep(0)
        await pod.quiet()
        assert all([await pod.ask(each) for each in asked])


async def test_an_answer_as_large_as_the_bound_comes_back_and_a_larger_one_never_leaves(
    server: Server,
) -> None:
    entry = kept(b"\r\n" * 50_000)
    async with shop(server.url, entry_bytes=entry.size) as pod:
        pod.store.keep(ASKED, entry)
        await pod.quiet()
        brought = await pod.ask()
        assert brought is not None
        assert brought[0] == entry
        pod.store.forget([ASKED.key])
        pod.store.keep(ASKED, kept(b"x" * (entry.size + 1)))
        await pod.quiet()
        assert await pod.ask() is None


async def test_many_questions_at_a_time_share_a_few_connections(server: Server) -> None:
    async with shop(server.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        heard = [pod.ask() for _ in range(200)]
        assert all([await each for each in heard])
        with server.client() as client:
            assert len(client.client_list()) <= 1 + 8
    assert pod.failures == 0


async def test_more_questions_than_may_be_on_their_way_bring_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "MOST_PENDING", 2)
    async with shop(server.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        heard = [pod.ask() for _ in range(3)]
        assert [await each is not None for each in heard] == [True, True, False]
        assert await pod.ask() is not None


async def test_more_than_may_wait_to_be_written_is_not_kept_there(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "MOST_QUEUED", 2)
    asked = [known(chat(str(number))) for number in range(3)]
    async with shop(server.url) as pod:
        for each in asked:
            pod.store.keep(each, kept())
        await pod.quiet()
        assert [await pod.ask(each) is not None for each in asked] == [True, True, False]
        monkeypatch.setattr(redis_store, "MOST_QUEUED_BYTES", 100)
        pod.store.keep(asked[2], kept(b"x" * 100))
        await pod.quiet()
        assert await pod.ask(asked[2]) is None


async def test_only_the_same_request_is_its_business(server: Server) -> None:
    async with shop(server.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        assert await pod.ask(use=CacheUse(exact=False, semantic=0.9)) is None


# -- what somebody else has put there --------------------------------------------------------------------------------

GOOD = bytes.fromhex(ASKED.key) + encode(kept())


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        b'{"status": 200}',
        GOOD[32:],
        GOOD[:-1],
        GOOD + b"x",
        GOOD.replace(b"WCE\x01", b"WCE\x02"),
        bytes.fromhex(known(chat("other")).key) + encode(kept()),
        GOOD.replace(b"Content-Type", b"Set-Cookie\r\n"),
        b"x" * 5_000_000,
    ],
    ids=[
        "x",
        "json",
        "no key",
        "cut",
        "more",
        "foreign version",
        "under another key",
        "a line break",
        "huge",
    ],
)
async def test_a_poisoned_value_is_no_answer_and_is_written_over(server: Server, value: bytes) -> None:
    async with shop(server.url, entry_bytes=10_000) as pod:
        with server.client() as client:
            client.set(NAME, value, px=50_000)
        assert await pod.ask() is None
        assert pod.failures == 1
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        assert await pod.ask() is not None
        assert pod.failures == 1


@pytest.mark.parametrize("milliseconds", [None, 61_000, 10**12], ids=["for ever", "a second more", "years"])
async def test_a_value_that_stays_for_longer_than_it_is_kept_is_no_answer(
    server: Server, milliseconds: int | None
) -> None:
    async with shop(server.url) as pod:
        with server.client() as client:
            client.set(NAME, GOOD, px=milliseconds)
        assert await pod.ask() is None
    assert pod.failures == 1


async def test_a_value_of_another_type_is_no_answer_and_is_written_over(server: Server) -> None:
    async with shop(server.url) as pod:
        with server.client() as client:
            client.rpush(NAME, GOOD)
        assert await pod.ask() is None
        assert pod.failures == 1
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        assert await pod.ask() is not None


# -- who asks --------------------------------------------------------------------------------------------------------


async def test_a_password_a_user_and_a_database(tmp_path: Path) -> None:
    rules = [
        "--user",
        "cache",
        "on",
        ">p@ss:/word",
        "~waterclock:cache:*",
        "+getrange",
        "+pttl",
        "+set",
        "+unlink",
        "+select",
    ]
    with redis_server(tmp_path, "--requirepass", "secret", *rules) as server:
        at = f"127.0.0.1:{server.port}"
        async with (
            shop(f"redis://:secret@{at}/3") as one,
            shop(f"redis://cache:p%40ss%3A%2Fword@{at}/3") as two,
        ):
            one.store.keep(ASKED, kept())
            await one.quiet()
            assert await two.ask() is not None
            two.store.keep(ASKED, kept(b"two"))
            two.store.forget([ASKED.key])
            await two.quiet()
            assert await one.ask() is None
        async with shop(f"redis://:secret@{at}/4") as elsewhere:
            assert await elsewhere.ask() is None
        assert (one.failures, two.failures, elsewhere.failures) == (0, 0, 0)
        for url in (
            f"redis://{at}",
            f"redis://:wrong@{at}",
            f"redis://nobody:secret@{at}",
            f"redis://:secret@{at}/99",
        ):
            async with shop(url) as shut:
                assert await shut.ask() is None
                shut.store.keep(ASKED, kept())
                await shut.quiet()
            assert shut.failures >= 1


async def test_over_tls_its_certificate_has_to_be_for_its_name(
    tmp_path: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = ca.issue_cert("localhost")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("cert", "key", "ca")}
    certificate.cert_chain_pems[0].write_to_path(files["cert"])
    certificate.private_key_pem.write_to_path(files["key"])
    ca.cert_pem.write_to_path(files["ca"])
    tls = free_port()
    options = ["--tls-port", str(tls), "--tls-cert-file", files["cert"], "--tls-key-file", files["key"]]
    options += ["--tls-ca-cert-file", files["ca"], "--tls-auth-clients", "no"]
    monkeypatch.setenv("SSL_CERT_FILE", files["ca"])
    with redis_server(tmp_path, *options):
        async with shop(f"rediss://localhost:{tls}") as pod:
            pod.store.keep(ASKED, kept())
            await pod.quiet()
            assert await pod.ask() is not None
            assert pod.failures == 0
        async with shop(f"rediss://127.0.0.1:{tls}") as misnamed:
            assert await misnamed.ask() is None
            assert misnamed.failures == 1


# -- when it is gone -------------------------------------------------------------------------------------------------


async def test_a_server_that_dies_is_left_alone_and_asked_again_when_it_is_back(own: Server) -> None:
    async with shop(own.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        assert await pod.ask() is not None
        own.kill()
        await asyncio.sleep(0.05)
        assert await pod.ask() is None
        assert pod.failures == 1
        own.start()
        assert await pod.ask() is None  # it is left alone
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        pod.now += SECOND
        assert await pod.ask() is not None
        assert pod.failures == 1


async def test_a_server_that_restarts_between_two_questions_is_not_missed(own: Server) -> None:
    async with shop(own.url) as pod:
        assert await pod.ask() is None
        own.kill()
        own.start()
        await asyncio.sleep(0.05)
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        assert await pod.ask() is not None
    assert pod.failures == 0


async def test_a_server_that_hangs_takes_its_time_from_one_call_only(own: Server) -> None:
    async with shop(own.url, timeout=50 * MILLISECOND) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        own.signal(signal.SIGSTOP)
        heard = [pod.ask(within=50 * MILLISECOND) for _ in range(20)]
        assert [await each for each in heard] == [None] * 20
        assert not pod.store._tasks
        later = pod.ask(within=LONG)
        assert not pod.store._tasks  # nobody asks
        assert await later is None
        own.signal(signal.SIGCONT)
        pod.now += SECOND
        assert await pod.ask() is not None


async def test_a_call_that_has_no_time_says_nothing_of_the_store(own: Server) -> None:
    async with shop(own.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        own.signal(signal.SIGSTOP)
        assert await pod.ask(within=5 * MILLISECOND) is None
        assert await pod.ask(within=0) is None
        own.signal(signal.SIGCONT)
        assert await pod.ask() is not None
    assert pod.failures == 0


async def test_a_full_server_is_still_read(own: Server) -> None:
    async with shop(own.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        with own.client() as client:
            client.config_set("maxmemory", "1")
        other = known(chat("other"))
        pod.store.keep(other, kept())
        await pod.quiet()
        assert pod.failures == 1
        pod.store.keep(other, kept())  # left alone
        assert not pod.store._tasks
        assert await pod.ask() is not None
        with own.client() as client:
            client.config_set("maxmemory", "0")
        pod.now += SECOND
        pod.store.keep(other, kept())
        await pod.quiet()
        assert await pod.ask(other) is not None


async def test_a_withdrawn_question_is_not_answered_and_costs_no_connection(server: Server) -> None:
    heard: list[object] = []
    async with shop(server.url) as pod:
        await pod.ask()
        for _ in range(20):
            pod.store.find(ASKED, CacheUse(), LONG, heard.append)()
            await pod.quiet()
        with server.client() as client:
            assert client.info()["total_connections_received"] < 10_000
        assert len(pod.store._links._idle) == 1
    assert heard == []


async def test_closed_it_has_nothing_and_holds_nothing(server: Server) -> None:
    before = open_sockets()
    async with shop(server.url) as pod:
        pod.store.keep(ASKED, kept())
        await pod.quiet()
        asking = [pod.ask() for _ in range(20)]
        pod.store.keep(ASKED, kept())
        pod.store.close()
        pod.store.close()
        assert [await each for each in asking] == [None] * 20
        assert await pod.ask() is None
        pod.store.keep(ASKED, kept())
        await pod.quiet()
    assert open_sockets() <= before


async def test_a_new_connection_looks_nothing_up_on_the_disk(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other call would wait for that."""

    def looks(name: str) -> str:
        raise AssertionError(name)

    monkeypatch.setattr(metadata, "version", looks)
    async with shop(server.url) as pod:
        assert await pod.ask() is None
        assert pod.failures == 0
