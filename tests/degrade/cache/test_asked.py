"""Two requests are the same one when they ask for the same, in the same form, for the same caller."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.core.degrading import CacheUse
from proxy.core.exact_json import MOST_MARKS
from proxy.core.json_path import parse
from proxy.core.policy import Route
from proxy.degrade.cache.asked import MOST_JSON, Asked, asked, place_of
from tests.degrade.cache.questions import SEMANTIC, URL, chat, header, known, question

KEY = header(authorization="Bearer one")

NAME = st.sampled_from(["a", "b", "model", "messages"])
STRING = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), STRING
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAME, inner, max_size=3)),
    max_leaves=8,
)
DOCUMENT = st.dictionaries(NAME, VALUE, max_size=4)


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value, the members of its objects in another order."""
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if isinstance(value, dict):
        members = [(name, shuffled(item, chance)) for name, item in value.items()]
        chance.shuffle(members)
        return dict(members)
    return value


# -- the same ------------------------------------------------------------------------------------------------------


@given(DOCUMENT, st.randoms(use_true_random=False), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_one_value_has_one_key_however_it_is_written(
    value: Any, chance: random.Random, ascii_only: bool, indent: int | str | None
) -> None:
    assume("u0000" not in json.dumps(value))  # looks like an escaped NUL, and so is taken by its bytes
    again = json.dumps(shuffled(value, chance), ensure_ascii=ascii_only, indent=indent).encode()
    assert known(again, KEY).key == known(json.dumps(value).encode(), KEY).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (header(traceparent="00-1", x_request_id="1"), header(traceparent="00-2", x_request_id="2")),
        (header(user_agent="curl/8"), header(user_agent="python/3")),
        (header(idempotency_key="a"), header(idempotency_key="b")),
        (header(x_stainless_retry_count="0"), header(x_stainless_retry_count="1")),
        (header(x_stainless_package_version="1.0"), header(x_stainless_package_version="1.1")),
        (header(budget_id="run-1", budget_remaining_ms="10"), header(budget_id="run-2")),
        (header(proxy_authorization="Basic run-1"), header(proxy_authorization="Basic run-2")),
        (header(accept_encoding="gzip, deflate"), header(accept_encoding="gzip,deflate")),
    ],
    ids=["trace", "agent", "sending", "retry", "library", "budget", "our own name", "spaces"],
)
def test_what_names_one_sending_makes_no_difference(
    one: dict[bytes, bytes], other: dict[bytes, bytes]
) -> None:
    assert known(chat("x"), one).key == known(chat("x"), other).key


# -- not the same --------------------------------------------------------------------------------------------------


@given(DOCUMENT, DOCUMENT)
def test_another_value_has_another_key(one: Any, other: Any) -> None:
    written = [json.dumps(value, sort_keys=True) for value in (one, other)]
    assume(written[0] != written[1])
    assert known(written[0].encode(), KEY).key != known(written[1].encode(), KEY).key


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_another_body_that_is_no_json_has_another_key(one: bytes, other: bytes) -> None:
    assume(one != other)
    one, other = b"%" + one, b"%" + other
    assert known(one).key != known(other).key


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\u0000"}',
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a":1',
        b"\xff\xfe{}",
        b'{"a":"' + b"x" * MOST_JSON + b'"}',
        b"[" + b"0," * MOST_MARKS + b"0,0]",
        b"",
    ],
    ids=[
        "two of a name",
        "no number",
        "half a pair",
        "nul",
        "deep",
        "cut",
        "no utf-8",
        "long",
        "dense",
        "none",
    ],
)
def test_a_body_of_which_it_is_not_sure_what_it_says_counts_by_its_bytes(body: bytes) -> None:
    found = known(body, KEY, use=SEMANTIC)
    assert found.key == known(body, KEY).key
    assert found.key != known(body + b" ", KEY).key
    assert (found.partition, found.text) == (None, None)


CALLER = [
    "authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-goog-user-project",
    "ocp-apim-subscription-key",
    "openai-organization",
    "openai-project",
    "x-amz-security-token",
    "private-token",
    "x-vault-token",
    "x-forwarded-user",
    "x-forwarded-client-cert",
    "x-auth-request-email",
    "x-tenant-id",
    "x-session-id",
    "x-rh-identity",
    "x-impersonate-user",
]


@pytest.mark.parametrize("name", CALLER)
def test_two_callers_never_share_an_answer(name: str) -> None:
    one, other, none = ({name.encode(): value} for value in (b"one", b"other", b""))
    keys = {known(chat("x"), fields, use=SEMANTIC).key for fields in (one, other, none, {})}
    partitions = {known(chat("x"), fields, use=SEMANTIC).partition for fields in (one, other, none, {})}
    assert len(keys) == len(partitions) == 4


@given(st.dictionaries(st.sampled_from(CALLER), st.text("ab,;= ", max_size=4), max_size=3), st.data())
def test_no_two_headers_of_callers_run_into_one(fields: dict[str, str], data: st.DataObject) -> None:
    other = data.draw(st.dictionaries(st.sampled_from(CALLER), st.text("ab,;= ", max_size=4), max_size=3))

    def told(given: dict[str, str]) -> dict[bytes, bytes]:
        return {name.encode(): value.encode() for name, value in given.items()}

    assume(fields != other)
    assert known(b"{}", told(fields)).key != known(b"{}", told(other)).key


@pytest.mark.parametrize("name", CALLER)
def test_a_route_may_share_its_answers_on_purpose(name: str) -> None:
    one, other = {name.encode(): b"one"}, {name.encode(): b"other"}
    assert known(chat("x"), one, share=True).key == known(chat("x"), other, share=True).key


@pytest.mark.parametrize(
    "more",
    [
        {"method": "GET"},
        {"url": URL + "?a=1"},
        {"url": URL.replace("https", "http")},
        {"route": "other"},
        {"fields": header(accept="text/event-stream")},
        {"fields": header(accept_encoding="gzip")},
        {"fields": header(accept_language="de")},
        {"fields": header(content_type="text/plain")},
        {"fields": header(content_encoding="gzip")},
        {"fields": header(anthropic_version="2023-06-01")},
        {"fields": header(openai_beta="assistants=v2")},
        {"fields": header(x_github_api_version="2022-11-28")},
        {"fields": header(x_amz_target="Service.Get")},
        {"fields": header(x_http_method_override="DELETE")},
    ],
    ids=lambda more: str(next(iter(more.values()))),
)
def test_what_a_request_asks_for_is_part_of_its_key(more: dict[str, Any]) -> None:
    assert known(chat("x"), **more).key != known(chat("x")).key


def test_a_text_counts_by_its_bytes_whatever_it_looks_like() -> None:
    fields = header(content_type="Text/Plain")
    assert known(b'{"a": 1}', fields).key != known(b'{"a":1}', fields).key
    assert known(b'{"a": 1}', fields, use=SEMANTIC).text is None


def test_who_is_asking_is_taken_to_the_letter() -> None:
    one, other = header(x_api_key="a, b"), header(x_api_key="a,b")
    assert known(fields=one).key != known(fields=other).key


def test_a_list_with_quotes_is_taken_as_it_stands() -> None:
    one, other = (header(accept=f'text/plain;q="a{space},b"') for space in (" ", ""))
    assert known(fields=one).key != known(fields=other).key


@pytest.mark.parametrize(
    "name",
    [
        "x-flavour",
        "accept-profile",
        "x-vault-namespace",
        "x-forwarded-host",
        "x-userid",
        "authtoken",
        "x-jwt",
        "client-id",
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_every_header_is_part_of_the_key_that_is_not_noise(name: str, named: bool) -> None:
    """An answer may depend on names that nobody here has heard of."""
    headers = (name,) if named else ()
    one, other = {name.encode(): b"sweet"}, {name.encode(): b"sour"}
    assert known(fields=one, headers=headers).key != known(fields=other, headers=headers).key
    assert known(fields=one, headers=headers).key != known(fields={}, headers=headers).key


@pytest.mark.parametrize(
    "name", ["user-agent", "traceparent", "x-request-id", "x-stainless-retry-count", "x-b3-spanid"]
)
def test_noise_is_none_unless_the_route_names_it(name: str) -> None:
    one, other = {name.encode(): b"1"}, {name.encode(): b"2"}
    assert known(fields=one).key == known(fields=other).key
    assert known(fields=one, headers=(name,)).key != known(fields=other, headers=(name,)).key


@pytest.mark.parametrize("length", [1000, 60_000])
def test_no_header_takes_long_to_read(length: int) -> None:
    """Were it quadratic, this test would not come to its end."""
    for name, value in (
        ("cache-control", b"x," + b"," * length + b'"'),
        ("accept", b"a" + b" " * length + b"b"),
        ("cache-control", b"=" * length),
    ):
        assert known(fields={name.encode(): value}) is not None


# -- what is ignored -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("$.id", b'{"a":1,"id":1}', b'{"a":1,"id":2}'),
        ("$.id", b'{"a":1,"id":1}', b'{"a":1}'),
        ("$.m.t", b'{"m":{"t":1,"x":1}}', b'{"m":{"x":1}}'),
        ("$.l[1]", b'{"l":[1,2,3]}', b'{"l":[1,4,3]}'),
        ("$.l[-1].t", b'{"l":[1,{"t":1}]}', b'{"l":[1,{"t":2}]}'),
        ("$", b'{"a":1}', b'{"b":2}'),
    ],
)
def test_places_that_the_route_ignores_make_no_difference(path: str, one: bytes, other: bytes) -> None:
    ignore = (parse(path),)
    assert known(one, ignore=ignore).key == known(other, ignore=ignore).key
    assert known(one).key != known(other).key


@pytest.mark.parametrize("path", ["$.no", "$.a.b", "$.l[7]", "$[0]", "$.l.x"])
def test_a_place_that_matches_nothing_leaves_everything_as_it_is(path: str) -> None:
    body = b'{"a":1,"l":[1,2]}'
    assert known(body, ignore=(parse(path),)).key == known(body).key


# -- what means the same -------------------------------------------------------------------------------------------


def test_the_text_is_no_part_of_the_partition_and_all_else_is() -> None:
    one, other = known(chat("up?"), KEY, use=SEMANTIC), known(chat("is it up?"), KEY, use=SEMANTIC)
    assert (one.text, other.text) == ("up?", "is it up?")
    assert one.partition == other.partition is not None
    assert one.key != other.key
    for different in (
        known(chat("up?", model="small"), KEY, use=SEMANTIC),
        known(chat("up?").replace(b"Be brief.", b"Be long."), KEY, use=SEMANTIC),
        known(chat("up?"), KEY, use=SEMANTIC, route="other"),
        known(chat("up?"), header(authorization="Bearer two"), use=SEMANTIC),
        known(chat("up?"), KEY, use=SEMANTIC, url=URL + "?x"),
    ):
        assert different.partition not in (None, one.partition)


def test_the_key_is_the_same_whether_or_not_a_rung_looks_for_meaning() -> None:
    keys = {known(chat("x"), use=use).key for use in (None, CacheUse(), SEMANTIC)}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ([{"type": "text", "text": "is it"}, {"type": "text", "text": "up?"}], "is it\nup?"),
        ([{"type": "input_text", "text": "up?"}], "up?"),
        ([{"type": "text", "text": "up?", "cache_control": {"type": "ephemeral"}}], "up?"),
        ([{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": "x"}}], None),
        ([{"type": "text", "text": "up?", "annotations": [1]}], None),
        ([{"type": "text", "text": 7}], None),
        (["up?"], None),
        ([], None),
        ("", None),
        (" \n", None),
        (7, None),
        (1.5, None),
        (None, None),
        ({"text": "up?"}, None),
    ],
)
def test_only_what_is_all_text_has_a_text(said: Any, text: str | None) -> None:
    found = known(chat(said), use=SEMANTIC)
    assert found.text == text
    assert (found.partition is None) == (text is None)


@pytest.mark.parametrize("path", ["$.prompt", "$.messages[9].content", "$.messages", "$"])
def test_a_path_that_leads_to_no_text_leaves_the_exact_key_alone(path: str) -> None:
    found = known(chat("x"), use=CacheUse(semantic=0.9, text=parse(path)))
    assert (found.partition, found.text) == (None, None)
    assert found.key == known(chat("x")).key


def test_an_ignored_place_is_no_text() -> None:
    assert known(chat("x"), use=SEMANTIC, ignore=(parse("$.messages[-1]"),)).text is None


def test_two_places_for_the_text_are_two_partitions() -> None:
    body = b'{"a":"x","b":"x"}'
    uses = [CacheUse(semantic=0.9, text=parse(path)) for path in ("$.a", "$.b")]
    assert len({known(body, use=use).partition for use in uses}) == 2


# -- what the cache has no part in -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT"])
def test_some_methods_are_none_of_its_business(method: str) -> None:
    assert question(method=method) is None


@pytest.mark.parametrize(
    "fields",
    [
        header(cache_control="no-store"),
        header(cache_control="max-age=5, No-Store"),
        header(range="bytes=0-1"),
        header(if_none_match='"x"'),
        header(if_modified_since="Thu, 01 Jan 2026 00:00:00 GMT"),
        header(if_match="*"),
        header(if_unmodified_since="Thu, 01 Jan 2026 00:00:00 GMT"),
        header(if_range='"x"', range="bytes=0-1"),
    ],
    ids=lambda fields: str(sorted(fields.items())),
)
def test_some_requests_want_what_only_the_origin_can_say(fields: dict[bytes, bytes]) -> None:
    assert question(chat("x"), fields) is None


@pytest.mark.parametrize(
    ("fields", "most_age", "min_fresh"),
    [
        ({}, None, 0),
        (header(cache_control="no-cache"), -1, 0),
        (header(cache_control="max-age=0"), -1, 0),
        (header(cache_control="max-age=x"), -1, 0),
        (header(cache_control="max-age=10"), 10_000_000_000, 0),
        (header(cache_control="min-fresh=2"), None, 2_000_000_000),
        (header(pragma="no-cache"), -1, 0),
        (header(pragma="no-cache", cache_control="max-age=10"), 10_000_000_000, 0),
        (header(cache_control="only-if-cached"), None, 0),
    ],
)
def test_what_the_caller_wants_of_a_kept_answer(
    fields: dict[bytes, bytes], most_age: int | None, min_fresh: int
) -> None:
    found = known(fields=fields)
    assert (found.most_age, found.min_fresh) == (most_age, min_fresh)


def test_a_route_that_only_has_a_rung_for_it_has_the_built_in_rules() -> None:
    assert asked(Route("chat"), "POST", URL, KEY, chat("x"), None) == known(chat("x"), KEY)


def test_only_a_get_says_what_a_url_answers() -> None:
    assert known(method="GET").place == place_of(URL)
    assert known().place is None
    assert place_of(URL + "?x") != place_of(URL)
    assert place_of("HTTP://Tool:80/Me") == place_of("http://tool/Me") != place_of("http://tool/me")


@given(
    st.text(max_size=8),
    st.text(max_size=20),
    st.dictionaries(st.binary(max_size=12), st.binary(max_size=12), max_size=4),
    st.one_of(
        st.binary(max_size=60),
        st.from_regex(r'\A[\[{"][\[\]{}":,0-9a-z\\.-]{0,40}', fullmatch=True).map(str.encode),
    ),
    st.sampled_from(["$", "$.a", "$.a[0]", "$[-1]", "$['a']['b']"]),
)
def test_nothing_that_arrives_makes_it_fail(
    method: str, url: str, fields: dict[bytes, bytes], body: bytes, path: str
) -> None:
    use = CacheUse(semantic=0.9, text=parse(path))
    found = question(body, fields, method=method, url=url, use=use, ignore=(parse(path), parse("$.b")))
    assert found is None or isinstance(found, Asked)
