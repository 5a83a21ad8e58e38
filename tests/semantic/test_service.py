"""A question finds the nearest answer that agrees, in its partition, and says why not otherwise."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.units import MINUTE, SECOND
from proxy.semantic import worker as workers
from proxy.semantic.agreement import Verdict, agree
from proxy.semantic.embeddings import EmbeddingsFailed
from proxy.semantic.embeddings.local import LocalEmbeddings
from proxy.semantic.reading.facts import Facts
from proxy.semantic.service import BELOW, NO_MEANING, NOTHING_KEPT, Found, Missed
from proxy.semantic.worker import Busy, Worker
from tests.semantic.shelves import Clock, Shop, Stub, serving


async def test_a_question_finds_the_answer_to_another_wording(local: LocalEmbeddings, worker: Worker) -> None:
    clock = Clock()
    service = serving(local, worker, clock=clock)
    assert await service.keep("p", "Book a table for two at Luigi's", b"booked", MINUTE)
    clock.now = SECOND
    found = await service.find("p", "Please reserve a table for 2 at Luigi's", 0.7)
    assert isinstance(found, Found)
    assert (found.entry, found.age, found.text) == (b"booked", SECOND, "Book a table for two at Luigi's")
    assert 0.7 <= found.similarity <= 1


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("Book a table for three at Luigi's", "numbers differ"),
        ("Do not book a table for two at Luigi's", "negations differ"),
        ("Book a table for two at Mario's", "names differ"),
        ("Book a table for two at Luigi's tomorrow", "days or times differ"),
        ("Cancel a table for two at Luigi's", "opposites"),
        ("Book a chair for two at Luigi's", "words differ"),
        ("Book a table for two at Luigi's outside", "words differ"),
    ],
)
async def test_one_that_differs_finds_nothing_and_says_why(
    local: LocalEmbeddings, worker: Worker, asked: str, why: str
) -> None:
    service = serving(local, worker)
    await service.keep("p", "Book a table for two at Luigi's", b"booked", MINUTE)
    missed = await service.find("p", asked, 0.5)
    assert isinstance(missed, Missed)
    assert missed.why == why
    assert missed.nearest is not None


async def test_why_nothing_is_there(worker: Worker) -> None:
    stub = Stub(here=0, there=30)
    service = serving(stub, worker)
    assert await service.find("p", "here", 0.9) == Missed(None, NOTHING_KEPT)
    await service.keep("p", "here", b"entry", MINUTE)
    missed = await service.find("p", "there", 0.9)
    assert (missed.why, missed.nearest) == (BELOW, pytest.approx(0.866, abs=1e-3))  # type: ignore[union-attr]
    assert await service.find("p", "...", 0) == Missed(None, NO_MEANING)
    assert not await service.keep("p", "...", b"entry", MINUTE)


async def test_the_nearest_that_agrees_is_taken(local: LocalEmbeddings, worker: Worker) -> None:
    """Though many are nearer that ask for another number."""
    service = serving(local, worker)
    for number in (2, 3, 4, 5, 6, 8):
        await service.keep("p", f"Reserve a table for {number} people tonight", b"%d" % number, MINUTE)
    await service.keep("p", "Book me a table for seven people tonight please", b"7", MINUTE)
    found = await service.find("p", "Reserve a table for 7 people tonight", 0.6)
    assert isinstance(found, Found)
    assert found.entry == b"7"


async def test_words_that_differ_have_to_mean_the_same(worker: Worker) -> None:
    """That is asked of the embeddings, once for all that are in doubt, and not where nothing is."""
    stub = Stub(the_doctor_waits=0, the_nurse_waits=5, the_medic_waits=8, doctor=0, nurse=80, medic=20)
    service = serving(stub, worker)
    await service.keep("p", "the nurse waits", b"nurse", MINUTE)
    await service.keep("p", "the medic waits", b"medic", MINUTE)
    stub.asked.clear()
    found = await service.find("p", "the doctor waits", 0.9)
    assert isinstance(found, Found)
    assert found.entry == b"medic"
    assert stub.asked == [["the doctor waits", "doctor wait"], ["doctor", "nurse", "doctor", "medic"]]
    await service.keep("p", "the doctor waits", b"doctor", MINUTE)
    stub.asked.clear()
    found = await service.find("p", "the doctor waits", 0.9)
    assert isinstance(found, Found)
    assert found.entry == b"doctor"
    assert stub.asked == [["the doctor waits", "doctor wait"]]


async def test_a_text_points_half_where_its_matter_does(worker: Worker) -> None:
    """So that politeness does not turn it away. What has no matter points where it stands."""
    stub = Stub(could_you_please_open_it=60, open_it=0, open=0, please=40)
    service = serving(stub, worker)
    await service.keep("p", "open it", b"opened", MINUTE)
    found = await service.find("p", "could you please open it", 0.85)
    assert isinstance(found, Found)
    assert found.similarity == pytest.approx(0.866, abs=1e-3)
    missed = await service.find("p", "please", 0.85)
    assert isinstance(missed, Missed)
    assert missed.nearest == pytest.approx(0.766, abs=1e-3)
    assert missed.why == BELOW


async def test_what_is_found_is_used_and_stays(worker: Worker) -> None:
    shop = Shop()
    service = serving(Stub(alpha=0, beta=0), worker, shop)
    await service.keep("p", "alpha", b"1", MINUTE)
    await service.keep("p", "beta", b"2", MINUTE)
    await service.find("p", "alpha", 0.5)
    assert [kept.text for kept in shop.shelf._all.values()] == ["beta", "alpha"]


async def test_without_embeddings_nothing_is_found_or_kept(worker: Worker) -> None:
    stub = Stub(a=0)
    stub.fails = True
    service = serving(stub, worker)
    with pytest.raises(EmbeddingsFailed):
        await service.find("p", "a", 0.5)
    with pytest.raises(EmbeddingsFailed):
        await service.keep("p", "a", b"", MINUTE)


PARTITIONS = st.sampled_from(["p", "q"])
TEXTS = st.sampled_from(["alpha", "beta", "gamma"])


@given(st.lists(st.tuples(PARTITIONS, TEXTS), max_size=8), PARTITIONS, TEXTS)
def test_nobody_is_given_what_was_kept_for_another(
    kept: list[tuple[str, str]], partition: str, text: str
) -> None:
    """All texts mean the same here: only the partition keeps them apart."""

    async def play() -> None:
        service = serving(Stub(alpha=0, beta=0, gamma=0), Worker())
        for name, said in kept:
            await service.keep(name, said, f"{name} {said}".encode(), MINUTE)
        found = await service.find(partition, text, 0.9)
        assert isinstance(found, Found) == any(name == partition for name, _ in kept)
        if isinstance(found, Found):
            assert found.entry.startswith(partition.encode())

    asyncio.run(play())


# -- the thread ------------------------------------------------------------------------------------------------------


async def test_long_texts_are_read_in_the_thread(local: LocalEmbeddings, worker: Worker) -> None:
    """With the same result as if they were short."""
    service = serving(local, worker)
    long = "Please summarise what the committee said about gardens. " * 30
    await service.keep("p", long, b"entry", MINUTE)
    assert isinstance(await service.find("p", long, 0.99), Found)


async def test_long_texts_are_compared_in_the_thread(
    local: LocalEmbeddings, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it the one that is asked or the one that is kept. Short ones need no thread."""
    where: list[bool] = []

    def compare(asked: Facts, kept: Facts) -> Verdict:
        where.append(threading.current_thread() is threading.main_thread())
        return agree(asked, kept)

    monkeypatch.setattr("proxy.semantic.service.agree", compare)
    service = serving(local, worker)
    short, long = "What did they say about gardens?", "What did they say about gardens? " * 20
    for asked, kept in ((short, short), (long, short), (short, long)):
        await service.keep(asked + kept, kept, b"entry", MINUTE)
        await service.find(asked + kept, asked, 0.1)
    assert where == [True, False, False]


async def test_more_than_can_be_worked_off_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_WAITING", 2)
    held, worker = threading.Event(), Worker()
    try:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(worker.run(held.wait)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(Busy):
                await worker.run(held.wait)
            held.set()
        assert [task.result() for task in waiting] == [True, True]
        assert await worker.run(held.is_set)
    finally:
        held.set()
        worker.close()


async def test_who_leaves_makes_no_room_before_the_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_WAITING", 1)
    held, worker = threading.Event(), Worker()
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await worker.run(held.wait)
        with pytest.raises(Busy):
            await worker.run(held.wait)
        held.set()
        while True:
            try:
                await worker.run(held.is_set)
            except Busy:
                await asyncio.sleep(0.001)
            else:
                break
    finally:
        held.set()
        worker.close()
