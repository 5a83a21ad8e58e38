"""What is asked to find out whether a write happened, and what is taken from an answer."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core import json_path
from proxy.core.policy import Verify
from proxy.core.verification import (
    FIRST_WAIT,
    LONGEST_WAIT,
    MOST_BODY,
    Found,
    question,
    says,
    wait_before,
)
from proxy.core.writes import WriteRecord, WriteState

# What can stand in the header of a key, and in the id of a budget.
KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
HOSTILE = st.text(st.sampled_from("/?&#%=;.\\+ab"), min_size=1, max_size=12)
HARMLESS = re.compile(r"[A-Za-z0-9._~%/?&=-]*\Z")


def record(key: str | None = "k-1", *, budget_id: str = "run-42", id: str = "w-1") -> WriteRecord:
    """An uncertain write."""
    origin = "https://api.example.com:443"
    return WriteRecord(id, WriteState.UNCERTAIN, 0, origin, "POST", "/", "orders", budget_id, 1, key, "f1")


def asked(path: str, key: str | None = "k-1", *, budget_id: str = "run-42") -> str | None:
    return question(Verify(path), record(key, budget_id=budget_id))


# -- the question ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        ("/orders/latest", "/orders/latest"),
        ("/orders/{idempotency_key}", "/orders/k-1"),
        ("/orders?key={idempotency_key}", "/orders?key=k-1"),
        (
            "/jobs/{budget_id}/orders?key={idempotency_key}&by={record}",
            "/jobs/run-42/orders?key=k-1&by=w-1",
        ),
        ("/{record}/{record}", "/w-1/w-1"),
        ("/orders/a%2Fb/{record}", "/orders/a%2Fb/w-1"),
        ("/orders/{record}.json", "/orders/w-1.json"),
        ("/up/../orders/{record}", "/up/../orders/w-1"),
    ],
)
def test_the_holes_are_filled(path: str, asks: str) -> None:
    """And all else is left as the operator has written it."""
    assert asked(path) == asks


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        ("a/b", "a%2Fb"),
        ("a?b", "a%3Fb"),
        ("a&b=c", "a%26b%3Dc"),
        ("a#b", "a%23b"),
        ("a%b", "a%25b"),
        ("%2F", "%252F"),
        ("a+b;c", "a%2Bb%3Bc"),
        ("{record}", "%7Brecord%7D"),
        ("run:1~x", "run%3A1~x"),
    ],
)
def test_what_would_say_something_else_in_a_url_is_encoded(key: str, encoded: str) -> None:
    """In the path and in the query alike."""
    assert asked("/orders/{idempotency_key}", key) == f"/orders/{encoded}"
    assert asked("/orders?key={idempotency_key}", key) == f"/orders?key={encoded}"


@given(KEYS | HOSTILE)
def test_a_key_stays_within_its_segment(key: str) -> None:
    """It is read there as it was, and nothing that it says adds a segment, a query or a fragment."""
    asks = asked("/v1/orders/{idempotency_key}/state?x=1", key)
    if asks is None:
        assert {".", ".."} & set(re.split(r"[/\\]", key))
        return
    assert HARMLESS.match(asks)
    path, mark, query = asks.partition("?")
    assert (mark, query) == ("?", "x=1")
    segments = path.split("/")
    assert segments[:3] + segments[4:] == ["", "v1", "orders", "state"]
    assert unquote(segments[3]) == key


@given(KEYS | HOSTILE, KEYS | HOSTILE)
def test_a_key_stays_within_its_parameter(key: str, budget_id: str) -> None:
    """It adds no parameter and changes no other one, dots and all."""
    asks = asked("/orders?key={idempotency_key}&run={budget_id}&x=1", key, budget_id=budget_id)
    assert asks is not None
    assert HARMLESS.match(asks)
    path, _, query = asks.partition("?")
    assert path == "/orders"
    assert parse_qsl(query, strict_parsing=True) == [("key", key), ("run", budget_id), ("x", "1")]


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_there_is_no_question_about_it(key: str | None) -> None:
    """To ask for all orders, and to take the answer for a yes, would be worse."""
    assert asked("/orders?key={idempotency_key}", key) is None
    assert asked("/orders/{record}?key={idempotency_key}", key) is None
    assert asked("/orders/{record}", key) == "/orders/w-1"


def test_without_a_budget_there_is_no_question_about_it() -> None:
    """A call that passed without any has none."""
    assert asked("/jobs/{budget_id}/orders", budget_id="") is None


def test_an_unknown_hole_is_never_filled() -> None:
    """The policy refuses one; if it came this far, nothing would be asked."""
    assert asked("/orders/{customer}") is None


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/orders/{idempotency_key}", "."),
        ("/orders/{idempotency_key}", ".."),
        ("/orders/{idempotency_key}/state", ".."),
        ("/orders/.{idempotency_key}", "."),
        ("/orders/%2e{idempotency_key}", "."),
        ("/orders/{idempotency_key}", "../.."),
        ("/orders/{idempotency_key}", "a/../../b"),
        ("/orders/{idempotency_key}", "a\\.."),
    ],
)
def test_no_key_leads_out_of_its_place(path: str, key: str) -> None:
    """`/orders/..` is `/` to whoever reads it, encoded or not; so it is not asked for."""
    assert asked(path, key) is None
    assert asked(path.replace("idempotency_key", "budget_id"), budget_id=key) is None


@pytest.mark.parametrize("key", ["...", ".a", "a.", "a..b", "..a", "a/b", "a/.b"])
def test_dots_that_are_part_of_a_name_are_kept(key: str) -> None:
    """As in a file's name."""
    asks = asked("/orders/{idempotency_key}", key)
    assert asks is not None
    assert unquote(asks) == f"/orders/{key}"


# -- the answer --------------------------------------------------------------------------------------------------

ID = json_path.parse("$.items[0].id")
APPLIED, ABSENT, UNKNOWN = Found.APPLIED, Found.ABSENT, Found.UNKNOWN


@pytest.mark.parametrize(
    ("verify", "status", "found"),
    [
        (Verify("/"), 200, APPLIED),
        (Verify("/"), 404, ABSENT),
        *((Verify("/"), status, UNKNOWN) for status in (201, 204, 301, 304, 400, 401, 403, 409, 410, 429, 500, 503)),
        (Verify("/", status=204), 204, APPLIED),
        (Verify("/", status=204), 200, UNKNOWN),
        (Verify("/", status=204), 404, ABSENT),
        # a service that says 404 of what it has done, whatever for
        (Verify("/", status=404), 404, APPLIED),
        (Verify("/", status=404), 200, UNKNOWN),
        (Verify("/", status=410), 404, ABSENT),
        (Verify("/", status=410), 410, APPLIED),
    ],
)  # fmt: skip
def test_a_status_alone(verify: Verify, status: int, found: Found) -> None:
    """The one that says yes, a 404, and all others, which say nothing: not even a redirect or a refusal is a no."""
    for body in (b"", b"null", b'{"items": []}', b"\xff"):
        assert says(verify, status, body) is found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"items": [{"id": "o-7"}]}', APPLIED),
        (b'{"items": [{"id": 7.0}]}', APPLIED),
        # what is there and is not null is there, whatever it says
        *((b'{"items": [{"id": %b}]}' % value, APPLIED) for value in (b"false", b"0", b'""', b"[]", b"{}", b"-0.0")),
        (b'{"items": [{"id": null}]}', ABSENT),
        (b'{"items": [{}]}', ABSENT),
        (b'{"items": []}', ABSENT),
        (b'{"items": {"0": {"id": 7}}}', ABSENT),
        (b'{"items": "id"}', ABSENT),
        (b'{"items": null}', ABSENT),
        *((body, ABSENT) for body in (b"{}", b"[]", b"null", b"false", b"0", b'""', b" {} \n")),
        # what is no JSON says nothing; least of all that there is nothing
        *((body, UNKNOWN) for body in (b"", b" ", b"{", b'{"items": [', b"nil", b"<html></html>", b"{} {}", b"'a'")),
        (b'\xff{"items": []}', UNKNOWN),
        ('{"items": []}'.encode("utf-16"), UNKNOWN),
        (b'{"items": [NaN]}', UNKNOWN),
        # and neither does what two readers could take for two things
        (b'{"items": [{"id": 7, "id": null}]}', UNKNOWN),
        (b'{"items": [{"id": 7}], "items": []}', UNKNOWN),
    ],
)  # fmt: skip
def test_a_value_in_a_document(body: bytes, found: Found) -> None:
    """Besides its status an answer must hold a value there; without one, it is a no if it can be read at all."""
    assert says(Verify("/", json=ID), 200, body) is found
    assert says(Verify("/", json=ID, status=404), 404, body) is found
    assert says(Verify("/", json=ID), 404, body) is ABSENT
    assert says(Verify("/", json=ID), 500, body) is UNKNOWN


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 60_000, id="a list in a list, never closed"),
        pytest.param(b"[" * 30_000 + b"]" * 30_000, id="a list in a list, closed"),
        pytest.param(b'{"a":' * 12_000, id="an object in an object"),
        pytest.param(b"9" * 60_000, id="digits without end"),
        pytest.param(b'{"items": [{"id": 7}]}' + b" " * MOST_BODY, id="more than is read"),
    ],
)
def test_what_is_too_much_says_nothing(body: bytes) -> None:
    """And breaks nothing."""
    assert says(Verify("/", json=ID), 200, body) is UNKNOWN


@pytest.mark.parametrize("text", ["null", "false", "0", '""', "[]", "{}", "7", '"a"'])
def test_the_whole_document_can_be_the_value(text: str) -> None:
    """`$` is there unless it is null."""
    found = says(Verify("/", json=json_path.parse("$")), 200, text.encode())
    assert found is (ABSENT if text == "null" else APPLIED)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.integers(100, 599))
def test_no_answer_is_too_strange(body: bytes, status: int) -> None:
    """Whatever comes, it is one of three words; and bytes that are no JSON are never a yes or a no."""
    verify = Verify("/", json=ID)
    found = says(verify, status, body)
    try:
        json.loads(body)
    except ValueError:
        assert found is (ABSENT if status == 404 else UNKNOWN)


# -- the waits ---------------------------------------------------------------------------------------------------


def test_questions_become_rarer() -> None:
    """At first four a second, in the end one in half a minute, for as long as it takes."""
    waits = [wait_before(asked) for asked in range(2000)]
    assert waits[0] == FIRST_WAIT
    assert waits == sorted(waits)
    assert all(after <= 2 * before for before, after in pairwise(waits))
    assert set(waits[7:]) == {LONGEST_WAIT}
