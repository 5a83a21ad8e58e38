"""What may be kept, how long it is fresh, and when it may be given: RFC 9111, RFC 5861."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.degrading import RouteCache
from proxy.core.units import HOUR, SECOND
from proxy.degrade.cache.entry import MOST_SPAN, Entry, decode, encode
from proxy.degrade.cache.found import How
from proxy.degrade.cache.freshness import entry_of, usable
from tests.degrade.cache.questions import answer, header, kept, known

DATE = ("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
TTL = 3600
PRIVATE, SHARED = RouteCache(), RouteCache(share=True)


def entry(
    *fields: tuple[str, str],
    status: int = 200,
    method: str = "GET",
    rules: RouteCache = PRIVATE,
    body: bytes = b"{}",
    whole: bool = True,
    took: int = 0,
    request: dict[bytes, bytes] | None = None,
) -> Entry | None:
    """What is kept of such an answer."""
    asked = known(method=method, fields=request or {}, share=rules.share)
    return entry_of(rules, method, asked, answer(status, *fields), body, whole=whole, took=took)


def cc(value: str) -> tuple[str, str]:
    """A Cache-Control field."""
    return ("Cache-Control", value)


# -- whether it is kept (§3) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 203, 204])
def test_whole_answers_are_kept(status: int) -> None:
    assert entry(status=status, body=b"" if status == 204 else b"{}") is not None


@pytest.mark.parametrize(
    "status", [101, 201, 202, 205, 206, 207, 226, 301, 302, 304, 400, 404, 429, 500, 503]
)
def test_other_answers_are_not(status: int) -> None:
    assert entry(cc("max-age=60"), status=status) is None


@pytest.mark.parametrize(
    ("fields", "private", "shared"),
    [
        ([], True, True),
        ([cc("no-store")], False, False),
        ([cc("no-store, must-understand")], False, False),
        ([cc("max-age=60, NO-STORE")], False, False),
        ([cc("max-age=60"), cc("no-store")], False, False),
        ([cc("no-cache")], False, False),
        ([cc('no-cache="set-cookie"')], False, False),
        ([cc("private")], True, False),
        ([cc('private="x"')], True, False),
        ([cc("public")], True, True),
        ([("Vary", "*")], False, False),
        ([("Vary", "accept, *")], False, False),
        ([("Vary", ",".join(f"x-{number}" for number in range(17)))], False, False),
        ([("Content-Range", "bytes 0-1/2")], False, False),
        ([("Budget-Degraded", "level=1; rung=small; reason=time")], False, False),
        ([("Budget-Verdict", "incomplete; on_time")], False, False),
        ([("Budget-Verdict", "complete; on_time")], True, True),
        ([("X-Long", "x" * 70_000)], False, False),
        ([(f"X-{number}", "") for number in range(300)], False, False),
    ],
)
def test_what_an_answer_says_of_its_keeping(
    fields: list[tuple[str, str]], private: bool, shared: bool
) -> None:
    assert (entry(*fields) is not None) == private
    assert (entry(*fields, rules=SHARED) is not None) == shared


def test_an_answer_that_did_not_come_to_its_end_is_not_kept() -> None:
    assert entry(whole=False) is None


def test_what_belongs_to_the_moment_or_to_this_hop_is_not_kept() -> None:
    found = entry(
        ("Content-Type", "application/json"),
        ("Content-Length", "2"),
        ("Set-Cookie", "a=b"),
        ("set-cookie", "c=d"),
        ("Connection", "close, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Transfer-Encoding", "chunked"),
        ("Age", "1"),
        ("Budget-Id", "run-1"),
        ("Proxy-Status", "other"),
        ("X-RateLimit-Remaining", "7"),
        ("Via", "1.1 other"),
        ("X-Request-Id", "r"),
        DATE,
    )
    assert found is not None
    assert [name for name, _ in found.fields] == [b"Content-Type", b"Via", b"X-Request-Id", b"Date"]


# -- how long it is fresh (§4.2.1) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "private", "shared"),
    [
        ([], TTL, TTL),
        ([cc("max-age=60")], 60, 60),
        ([cc("max-age=60, max-age=30")], 30, 30),
        ([cc("max-age=60"), cc("max-age=30")], 30, 30),
        ([cc("max-age=60, s-maxage=10")], 60, 10),
        ([cc("s-maxage=10")], TTL, 10),
        ([cc("max-age=60"), ("Expires", "0")], 60, 60),
        ([("Expires", "Thu, 01 Jan 2026 00:02:00 GMT"), DATE], 120, 120),
        ([("Expires", "Thursday, 01-Jan-26 00:02:00 GMT"), DATE], 120, 120),
        ([("Expires", "Thu Jan  1 00:02:00 2026"), DATE], 120, 120),
        ([cc("max-age=99999999999999999999")], MOST_SPAN // SECOND, MOST_SPAN // SECOND),
        ([("Expires", "Thu, 01 Jan 2999 00:00:00 GMT"), DATE], MOST_SPAN // SECOND, MOST_SPAN // SECOND),
    ],
)
def test_how_long_an_answer_is_fresh(fields: list[tuple[str, str]], private: int, shared: int) -> None:
    for rules, expected in ((PRIVATE, private), (SHARED, shared)):
        found = entry(*fields, rules=rules)
        assert found is not None
        assert found.fresh == expected * SECOND
        assert found.kept == found.fresh - found.age


@pytest.mark.parametrize(
    "fields",
    [
        [cc("max-age=0")],
        [cc("max-age=x")],
        [cc("max-age=-1")],
        [cc("max-age")],
        [("Expires", "0"), DATE],
        [("Expires", "-1"), DATE],
        [("Expires", "Thu, 01 Jan 2026 00:00:00 GMT"), DATE],
        [("Expires", "Wed, 31 Dec 2025 00:00:00 GMT"), DATE],
        [("Expires", "Thu, 01 Jan 2026 00:02:00 GMT")],
        [("Expires", "Thu, 01 Jan 2026 00:02:00 GMT"), ("Date", "today")],
        [cc("max-age=60"), ("Age", "60")],
        [cc("max-age=60"), ("Age", "61, 2")],
    ],
)
def test_an_answer_that_is_stale_already_is_kept_for_errors_only(fields: list[tuple[str, str]]) -> None:
    assert entry(*fields) is None
    found = entry(*fields, rules=RouteCache(stale_if_error=HOUR))
    assert found is not None
    assert usable(found, 0, known(), None) is None
    late = usable(found, 0, known(), HOUR)
    assert late is not None
    assert late.how is How.STALE


def test_how_old_an_answer_is_when_it_comes() -> None:
    found = entry(cc("max-age=60"), ("Age", "20"), took=3 * SECOND)
    assert found is not None
    assert (found.age, found.kept) == (23 * SECOND, 37 * SECOND)


@pytest.mark.parametrize("value", ["x", "-1", "1.5", ""])
def test_an_age_that_cannot_be_read_is_none(value: str) -> None:
    found = entry(cc("max-age=60"), ("Age", value))
    assert found is not None
    assert found.age == 0


@pytest.mark.parametrize(
    "fields", [[], [cc("max-age=0, private, must-revalidate")], [("Expires", "0")], [cc("max-age=9")]]
)
def test_how_long_the_answer_to_another_method_is_good_for_the_route_says(
    fields: list[tuple[str, str]],
) -> None:
    found = entry(*fields, method="POST", rules=RouteCache(ttl=7 * SECOND))
    assert found is not None
    assert found.fresh == 7 * SECOND
    assert entry(cc("no-store"), method="POST") is None


# -- in place of an error (§4.2.4, RFC 5861) -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "route", "beyond"),
    [
        ("max-age=60", 0, 0),
        ("max-age=60", 30, 30),
        ("max-age=60, stale-if-error=90", 0, 90),
        ("max-age=60, stale-if-error=90", 30, 90),
        ("max-age=60, stale-if-error=10", 30, 30),
        ("max-age=60, stale-if-error=x", 30, 30),
        ("max-age=60, stale-if-error=90, must-revalidate", 30, 0),
        ("max-age=60, stale-if-error=90, proxy-revalidate", 30, 90),
    ],
)
def test_how_long_an_answer_serves_in_place_of_an_error(said: str, route: int, beyond: int) -> None:
    found = entry(cc(said), rules=RouteCache(stale_if_error=route * SECOND))
    assert found is not None
    assert found.kept == (60 + beyond) * SECOND
    assert usable(found, 60 * SECOND, known(), None) is None
    last, after = (usable(found, (60 + beyond) * SECOND + more, known(), route * SECOND) for more in (0, 1))
    assert (last is not None) == ("must-revalidate" not in said)
    assert after is None


@pytest.mark.parametrize("said", ["proxy-revalidate", "s-maxage=60"])
def test_a_shared_answer_may_forbid_it_for_shared_ones(said: str) -> None:
    found = entry(
        cc("max-age=60, stale-if-error=90, " + said), rules=RouteCache(share=True, stale_if_error=HOUR)
    )
    assert found is not None
    assert found.kept == 60 * SECOND
    assert usable(found, 60 * SECOND, known(), HOUR) is None


# -- whether it may be given now -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "given"),
    [(0, How.HIT), (60 * SECOND - 1, How.HIT), (60 * SECOND, None), (61 * SECOND, None)],
)
def test_an_answer_is_given_first_only_while_it_is_fresh(held: int, given: How | None) -> None:
    found = usable(kept(), held, known(), None)
    assert (found and found.how) == given


@pytest.mark.parametrize(
    ("said", "held", "given"),
    [
        ("no-cache", 0, False),
        ("max-age=0", 0, False),
        ("max-age=10", 10, True),
        ("max-age=10", 11, False),
        ("min-fresh=10", 50, True),
        ("min-fresh=10", 51, False),
    ],
)
def test_what_the_request_wants_holds_for_what_is_given_first(said: str, held: int, given: bool) -> None:
    asked = known(fields=header(cache_control=said))
    assert (usable(kept(), held * SECOND, asked, None) is not None) == given
    assert usable(kept(), held * SECOND, asked, 0) is not None  # a rung may still


def test_an_answer_varies_by_what_it_says_and_nothing_else() -> None:
    request = header(x_mood="good", x_other="1")
    found = entry(("Vary", "X-Mood, , x-mood"), request=request)
    assert found is not None
    assert [name for name, _ in found.varies] == [b"x-mood"]
    assert b"good" not in b"".join(digest for _, digest in found.varies)

    def given(fields: dict[bytes, bytes]) -> bool:
        return usable(found, 0, known(fields=fields), None) is not None

    assert given(header(x_mood="good", x_other="2"))
    assert not given(header(x_mood="bad"))
    assert not given(header(x_mood=""))
    assert not given({})


def test_a_field_that_is_not_there_is_another_than_an_empty_one() -> None:
    found = entry(("Vary", "x-mood"))
    assert found is not None
    assert usable(found, 0, known(), None) is not None
    assert usable(found, 0, known(fields=header(x_mood="")), None) is None


def test_an_answer_to_what_means_the_same_says_so_fresh_or_not() -> None:
    for held in (0, 61 * SECOND):
        found = usable(kept(), held, known(), HOUR, semantic=True)
        assert found is not None
        assert (found.how, found.fresh) == (How.SEMANTIC, held == 0)


# -- all of it -------------------------------------------------------------------------------------------------------

WORDS = [
    "max-age=60",
    "max-age=0",
    "s-maxage=5",
    "private",
    "public",
    "stale-if-error=5",
    "must-revalidate",
    "x",
    "no-store",
]
FIELD = st.one_of(
    st.tuples(st.just("Cache-Control"), st.lists(st.sampled_from(WORDS), max_size=3).map(", ".join)),
    st.tuples(
        st.sampled_from(["Age", "Expires", "Date", "Vary"]), st.text("Thu, 01Jan26:GMT-+*x", max_size=30)
    ),
    st.tuples(
        st.sampled_from(["Expires", "Date"]),
        st.from_regex(
            r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,5} [0-9:.]{1,12} [A-Z0-9+-]{0,5}",
            fullmatch=True,
        ),
    ),
    st.tuples(st.just("X-Any"), st.text("abc\r\n\0\x7f", max_size=8)),
)


@given(
    st.lists(FIELD, max_size=5),
    st.sampled_from(["GET", "POST"]),
    st.builds(RouteCache, ttl=st.integers(0, HOUR), share=st.booleans(), stale_if_error=st.integers(0, HOUR)),
    st.integers(0, HOUR),
    st.integers(0, 3 * HOUR),
)
def test_an_entry_is_always_one_that_can_be_kept_anywhere_and_is_of_use_no_longer_than_it_is_kept(
    fields: list[tuple[str, str]], method: str, rules: RouteCache, took: int, held: int
) -> None:
    found = entry(*fields, method=method, rules=rules, took=took)
    if found is None:
        return
    assert decode(encode(found)) == found
    given: Any = usable(found, held, known(), rules.stale_if_error)
    if given is not None:
        assert held <= found.kept
        assert given.age >= held + took
        assert given.fresh == (given.age < found.fresh)
    first = usable(found, held, known(), None)
    assert first is None or first.fresh
