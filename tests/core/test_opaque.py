"""When an opaque connection is in use: bursts, found from nothing but who spoke and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.opaque import Bursts

QUIET = 250
CLIENT, SERVER, LOOK = "client", "server", "look"

STORIES = {
    "nothing happens": ([(0, LOOK)], []),
    "a question and its answer": ([(10, CLIENT), (60, SERVER), (309, LOOK)], [10]),
    "the answer takes long": ([(10, CLIENT), (9_000, SERVER)], [10]),
    "the answer never comes": ([(10, CLIENT), (99_000, LOOK), (99_001, CLIENT)], [10]),
    "a question in pieces": ([(0, CLIENT), (400, CLIENT), (800, CLIENT)], [0]),
    "the next question at once": ([(0, CLIENT), (50, SERVER), (299, CLIENT)], [0]),
    "the next question after a quiet spell": ([(0, CLIENT), (50, SERVER), (300, CLIENT)], [0, 300]),
    "the answer in pieces": ([(0, CLIENT), (50, SERVER), (299, SERVER), (548, CLIENT)], [0]),
    "the server speaks first": ([(0, SERVER), (10, CLIENT)], [10]),
    "the server speaks last": ([(0, CLIENT), (50, SERVER), (900, SERVER), (1_000, CLIENT)], [0, 1_000]),
    "at time zero": ([(0, CLIENT), (0, SERVER), (0, CLIENT)], [0]),
}


def hear(words: list[tuple[int, str]]) -> tuple[Bursts, list[int]]:
    """A connection on which these words fell, and when its bursts began."""
    bursts, begun = Bursts(QUIET), []
    for now, who in words:
        if who == CLIENT and bursts.client_spoke(now):
            begun.append(now)
        elif who == SERVER:
            bursts.server_spoke(now, 1)
        elif who == LOOK:
            bursts.active(now)
    return bursts, begun


@pytest.mark.parametrize(("words", "begun"), STORIES.values(), ids=STORIES)
def test_when_bursts_begin(words: list[tuple[int, str]], begun: list[int]) -> None:
    """With the first byte that the client sends after a quiet spell."""
    bursts, heard = hear(words)
    assert heard == begun
    assert bursts.count == len(begun)


@pytest.mark.parametrize(
    ("words", "now", "active"),
    [
        ([], 0, False),
        ([(0, CLIENT)], 10**12, True),
        ([(0, CLIENT), (50, SERVER)], 299, True),
        ([(0, CLIENT), (50, SERVER)], 300, False),
        ([(0, CLIENT), (50, SERVER), (60, CLIENT)], 10**12, True),
        ([(0, SERVER)], 10, False),
        ([(0, CLIENT), (50, SERVER), (900, SERVER)], 901, False),
    ],
)
def test_when_a_burst_is_over(words: list[tuple[int, str]], now: int, active: bool) -> None:
    """When the other side has spoken last and nothing passed for a while. While an answer is due there is no quiet, and
    what the server says of its own accord revives nothing.
    """
    bursts, _ = hear(words)
    assert bursts.active(now) is active
    assert (bursts.started is not None) is active


def test_a_burst_keeps_its_beginning() -> None:
    """It is timed from its first byte, however often the client speaks in it."""
    bursts, _ = hear([(7, CLIENT), (50, SERVER), (100, CLIENT), (150, SERVER)])
    assert bursts.started == 7


def begins(words: list[tuple[int, str]]) -> list[int]:
    """The rule as it would be told: look back at all that was said."""
    begun: list[int] = []
    in_burst, last, last_who = False, 0, SERVER
    for now, who in words:
        if last_who == SERVER and now - last >= QUIET:
            in_burst = False
        if who == CLIENT and not in_burst:
            begun.append(now)
            in_burst = True
        last, last_who = now, who
    return begun


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 249, 250, 251, 5_000]), st.sampled_from([CLIENT, SERVER])),
        max_size=30,
    ),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_bursts_are_what_a_look_back_would_find(gaps: list[tuple[int, str]], looks: list[bool]) -> None:
    """However the words fall, and however often somebody looks in between: looking changes nothing."""
    now, words, watched = 0, [], []
    for (gap, who), look in zip(gaps, looks, strict=False):
        now += gap
        if look:
            watched.append((now, LOOK))
        words.append((now, who))
        watched.append((now, who))
    assert hear(words)[1] == begins(words)
    assert hear(watched)[1] == begins(words)


def test_session_tickets_are_no_answer() -> None:
    """In the first burst of a TLS connection the server speaks without answering; the client still waits."""
    bursts = Bursts(QUIET)
    bursts.preamble = 640
    bursts.client_spoke(0)
    bursts.server_spoke(1, 3_000)  # the server's part of the handshake
    bursts.client_spoke(2)  # the client's, with its first request
    bursts.server_spoke(3, 255)
    bursts.server_spoke(3, 255)
    assert bursts.active(3 + 100 * QUIET)
    bursts.server_spoke(4, 200)  # the answer
    assert not bursts.active(4 + QUIET)
    bursts.client_spoke(10_000)
    bursts.server_spoke(10_001, 1)  # later on, any word is one
    assert not bursts.active(10_001 + QUIET)
