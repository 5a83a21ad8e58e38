"""The cache as calls use it: memory at once, the store and then the service within a time, and nobody is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.core.json_path import parse
from proxy.core.units import HOUR, MILLISECOND, SECOND
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.cache import Cache
from proxy.degrade.cache.entry import Entry
from proxy.degrade.cache.found import Found, How
from proxy.degrade.cache.remote import Brought
from tests.degrade.cache.questions import SEMANTIC, TEXT, URL, chat, header, kept, known

EXACT = CacheUse()
ONLY_MEANING = CacheUse(exact=False, semantic=0.9, text=parse(TEXT))


class Place:
    """A place outside that says what a test wants it to say, when the test wants it."""

    def __init__(self) -> None:
        self.questions: list[tuple[Asked, int, Callable[[Brought], None]]] = []
        self.withdrawn = 0
        self.kept: list[tuple[Asked, Entry]] = []
        self.forgotten: list[str] = []
        self.closed = False

    def find(
        self, asked: Asked, use: CacheUse, within: int, done: Callable[[Brought], None]
    ) -> Callable[[], None]:
        self.questions.append((asked, within, done))

        def withdraw() -> None:
            self.withdrawn += 1

        return withdraw

    def answer(self, brought: Brought = None) -> None:
        """Answer the oldest question."""
        self.questions.pop(0)[2](brought)

    def keep(self, asked: Asked, entry: Entry) -> None:
        self.kept.append((asked, entry))

    def forget(self, keys: Iterable[str]) -> None:
        self.forgotten += keys

    def close(self) -> None:
        self.closed = True


class Setting:
    """A cache on the running loop, with a clock that stands still unless told."""

    def __init__(self, store: bool = False, service: bool = False, **policy: Any) -> None:
        self.now = 1000 * SECOND
        self.policy = CachePolicy(**policy)
        self.store = Place()
        self.service = Place()
        self.heard: list[Found | None] = []
        self.cache = Cache(
            asyncio.get_running_loop(),
            lambda: self.now,
            lambda: self.policy,
            self.store if store else None,
            self.service if service else None,
        )

    def find(self, asked: Asked, use: CacheUse, stale_for: int | None = 0, within: int = SECOND) -> Any:
        """Begin to look outside."""
        return self.cache.find(asked, use, stale_for, within, self.heard.append)

    @property
    def how(self) -> list[How | None]:
        """How what was heard was found."""
        return [found and found.how for found in self.heard]


ASKED = known(chat("up?"), use=SEMANTIC)


# -- at hand ---------------------------------------------------------------------------------------------------------


async def test_what_was_kept_is_at_hand_with_its_age() -> None:
    setting = Setting()
    setting.cache.keep(ASKED, kept(age=SECOND))
    setting.now += 5 * SECOND
    found = setting.cache.at_hand(ASKED, None)
    assert found == Found(kept(age=SECOND), 6 * SECOND, True, How.HIT)
    assert setting.cache.entries == 1
    assert setting.cache.bytes > 0
    assert setting.cache.at_hand(known(chat("down?")), None) is None


async def test_a_stale_answer_is_at_hand_only_for_who_has_nothing_better() -> None:
    setting = Setting()
    setting.cache.keep(ASKED, kept(kept=HOUR))
    setting.now += 100 * SECOND
    assert setting.cache.at_hand(ASKED, None) is None
    assert setting.cache.at_hand(ASKED, 30 * SECOND) is None
    found = setting.cache.at_hand(ASKED, HOUR)
    assert found is not None
    assert (found.how, found.ttl) == (How.STALE, -40)


async def test_two_callers_are_two_questions() -> None:
    setting = Setting()
    setting.cache.keep(known(chat("x"), header(authorization="Bearer one")), kept(b"for one"))
    assert setting.cache.at_hand(known(chat("x"), header(authorization="Bearer other")), None) is None
    assert setting.cache.at_hand(known(chat("x")), None) is None


async def test_an_answer_over_the_bound_is_kept_nowhere() -> None:
    setting = Setting(store=True, service=True, entry_bytes=100)
    setting.cache.keep(ASKED, kept(b"x" * 101))
    assert setting.cache.at_hand(ASKED, None) is None
    assert (setting.store.kept, setting.service.kept) == ([], [])


async def test_a_reload_makes_memory_smaller() -> None:
    setting = Setting()
    setting.cache.keep(ASKED, kept())
    setting.policy = replace(setting.policy, bytes=0)
    setting.cache.attend()
    assert setting.cache.entries == 0


async def test_time_alone_empties_memory() -> None:
    setting = Setting()
    setting.cache.keep(ASKED, kept())
    setting.now += HOUR
    setting.cache.attend()
    assert (setting.cache.entries, setting.cache.bytes) == (0, 0)


# -- elsewhere -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "service", "use", "asked", "asks"),
    [
        (False, False, SEMANTIC, ASKED, False),
        (True, False, EXACT, ASKED, True),
        (True, False, ONLY_MEANING, ASKED, False),
        (False, True, EXACT, ASKED, False),
        (False, True, SEMANTIC, ASKED, True),
        (False, True, SEMANTIC, known(b"no text"), False),
    ],
)
async def test_whether_there_is_anybody_to_ask(
    store: bool, service: bool, use: CacheUse, asked: Asked, asks: bool
) -> None:
    setting = Setting(store, service)
    assert setting.cache.asks(asked, use) == asks
    setting.find(asked, use)
    assert len(setting.store.questions) + len(setting.service.questions) == asks
    assert setting.heard == []
    if not asks:
        await asyncio.sleep(0)
        assert setting.heard == [None]


async def test_the_store_is_asked_first_and_what_it_has_is_remembered() -> None:
    setting = Setting(store=True, service=True)
    setting.find(ASKED, SEMANTIC)
    setting.store.answer((kept(age=SECOND), 9 * SECOND))
    assert setting.heard == [Found(kept(age=SECOND), 10 * SECOND, True, How.HIT)]
    assert setting.service.questions == []
    setting.now += SECOND
    found = setting.cache.at_hand(ASKED, None)
    assert found is not None
    assert found.age == 11 * SECOND


@pytest.mark.parametrize("brought", [None, (kept(), 61 * SECOND), (kept(varies=((b"x", b"d" * 16),)), 0)])
async def test_where_the_store_has_nothing_that_can_be_given_the_service_is_asked(brought: Brought) -> None:
    setting = Setting(store=True, service=True)
    setting.find(ASKED, SEMANTIC)
    setting.store.answer(brought)
    assert setting.heard == []
    setting.service.answer((kept(b"alike"), SECOND))
    assert setting.how == [How.SEMANTIC]


async def test_what_means_the_same_is_not_remembered_as_the_same() -> None:
    setting = Setting(service=True)
    setting.find(ASKED, SEMANTIC)
    setting.service.answer((kept(b"alike"), SECOND))
    assert setting.cache.at_hand(ASKED, None) is None


async def test_an_answer_of_the_service_has_to_be_fit_too() -> None:
    setting = Setting(service=True)
    setting.find(ASKED, SEMANTIC, stale_for=10 * SECOND)
    setting.service.answer((kept(), 71 * SECOND))
    assert setting.heard == [None]


async def test_each_is_asked_for_the_timeout_at_most_and_both_for_what_the_call_has() -> None:
    setting = Setting(store=True, service=True, timeout=50 * MILLISECOND)
    setting.find(ASKED, SEMANTIC, within=70 * MILLISECOND)
    assert setting.store.questions[0][1] == 50 * MILLISECOND
    setting.now += 50 * MILLISECOND
    setting.store.answer()
    assert setting.service.questions[0][1] == 20 * MILLISECOND


async def test_when_the_time_is_over_nobody_else_is_asked() -> None:
    setting = Setting(store=True, service=True)
    setting.find(ASKED, SEMANTIC, within=SECOND)
    setting.now += SECOND
    setting.store.answer()
    assert setting.heard == [None]
    assert setting.service.questions == []


@pytest.mark.parametrize("use", [EXACT, ONLY_MEANING, None])
async def test_nobody_hears_of_a_search_that_was_cancelled(use: CacheUse | None) -> None:
    setting = Setting(store=use is EXACT, service=use is ONLY_MEANING)
    search = setting.find(ASKED, use or EXACT)
    search.cancel()
    search.cancel()
    for place in (setting.store, setting.service):
        assert place.withdrawn == len(place.questions)
    await asyncio.sleep(0)
    assert setting.heard == []


async def test_a_search_that_has_ended_can_be_cancelled() -> None:
    setting = Setting(store=True)
    search = setting.find(ASKED, EXACT)
    setting.store.answer((kept(), 0))
    search.cancel()
    assert setting.store.withdrawn == 0
    assert setting.how == [How.HIT]


async def test_answers_are_kept_everywhere_and_without_a_text_not_by_meaning() -> None:
    setting = Setting(store=True, service=True)
    plain = known(b"no text")
    setting.cache.keep(ASKED, kept())
    setting.cache.keep(plain, kept())
    assert [asked for asked, _ in setting.store.kept] == [ASKED, plain]
    assert [asked for asked, _ in setting.service.kept] == [ASKED]


async def test_a_write_takes_away_what_was_known_of_its_url() -> None:
    setting = Setting(store=True)
    read, other, post = (
        known(method="GET", url=URL),
        known(method="GET", url=URL + "?other"),
        known(chat("x"), url=URL),
    )
    for asked in (read, other, post):
        setting.cache.keep(asked, kept())
    setting.cache.changed(URL)
    assert setting.cache.at_hand(read, None) is None
    assert setting.cache.at_hand(other, None) is not None
    assert setting.cache.at_hand(post, None) is not None
    assert setting.store.forgotten == [read.key]


async def test_other_places_may_take_their_place() -> None:
    setting = Setting(store=True, service=True)
    store = Place()
    setting.cache.adopt(store, setting.service)
    assert (setting.store.closed, setting.service.closed) == (True, False)
    setting.find(ASKED, EXACT)
    assert len(store.questions) == 1
    setting.cache.keep(ASKED, kept())
    setting.cache.close()
    assert (store.closed, setting.service.closed) == (True, True)
    assert setting.cache.entries == 0
    assert not setting.cache.asks(ASKED, SEMANTIC)
