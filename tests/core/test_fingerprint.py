"""The fingerprint of a unit of work: a repetition has the same one, other work has another."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core import exact_json
from proxy.core.fingerprint import canonical, fingerprint, start

URL = "https://api.example.com/v1/orders"


def sent(value: object, **form: Any) -> bytes:
    """A JSON body in one of the forms that a client may send it in."""
    return json.dumps(value, **form).encode()


def same(one: bytes, other: bytes) -> bool:
    """Whether two bodies of the same call are taken for the same work."""
    return fingerprint("POST", URL, one) == fingerprint("POST", URL, other)


# -- the same work -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
        (b'{"a":1}', b' {\n  "a" : 1\n}\r\n'),
        (b'{"a":"\\u00e9\\/"}', '{"a":"é/"}'.encode()),
        (b'[{"x":{"a":1.50,"b":2}}]', b'[{"x":{"b":2, "a":1.50}}]'),
        (b'{"a":-0}', b'{"a":0}'),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"pay","params":{"to":7}}',
            b'{"jsonrpc":"2.0","id":"b7","method":"pay","params":{"to":7}}',
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1,"x":1}}}',
            b'{"jsonrpc":"2.0","id":2,"method":"m","params":{"_meta":{"progressToken":2,"x":1}}}',
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"traceparent":"00-1","tracestate":"a"}}}',
            b'{"jsonrpc":"2.0","id":2,"method":"m","params":{"_meta":{"traceparent":"00-2","baggage":"b"}}}',
        ),
        (
            b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"n"}]',
            b'[{"jsonrpc":"2.0","id":3,"method":"m"},{"jsonrpc":"2.0","id":4,"method":"n"}]',
        ),
    ],
    ids=["order", "spaces", "escapes", "nested", "zero", "id", "progress token", "trace", "batch"],
)
def test_a_repetition_is_known_again(first: bytes, again: bytes) -> None:
    """An agent that plans anew does not repeat every byte: `replanned-duplicate`."""
    assert first != again
    assert same(first, again)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
NAME = st.one_of(st.sampled_from(["a", "b", "id", "_meta"]), TEXT)
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAME, inner, max_size=4)),
    max_leaves=12,
)
DOCUMENT = st.one_of(st.lists(VALUE, max_size=4), st.dictionaries(NAME, VALUE, max_size=4))


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value, the members of its objects in another order."""
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if isinstance(value, dict):
        members = [(name, shuffled(item, chance)) for name, item in value.items()]
        chance.shuffle(members)
        return dict(members)
    return value


@given(
    DOCUMENT,
    st.randoms(use_true_random=False),
    st.booleans(),
    st.sampled_from([None, 0, 1, "\t"]),
    st.sampled_from(["", " ", "\r\n"]),
)
def test_the_form_of_a_json_body_does_not_matter(
    value: Any, chance: random.Random, ascii_only: bool, indent: int | str | None, around: str
) -> None:
    """Order of members, spaces, escapes: one value, one fingerprint."""
    again = (
        around.encode()
        + sent(shuffled(value, chance), ensure_ascii=ascii_only, indent=indent)
        + around.encode()
    )
    assert same(sent(value), again)


# -- other work --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b'{"a":1,"a":2}', b'{"a":1}'),
        (b'{"a":1,"a":2}', b'{"a":2,"a":1}'),
        (b'{"a":2,"\\u0061":2}', b'{"a":2}'),
        (b'{"x":[{"a":1,"a":2}]}', b'{"x":[{"a":2}]}'),
        (b'{"a":12345678901234567.89}', b'{"a":12345678901234567.88}'),
        (b'{"a":0.1}', b'{"a":0.1000000000000000055}'),
        (b'{"a":1e400}', b'{"a":1e500}'),
        (b'{"a":1e-400}', b'{"a":0.0}'),
        (b'{"a":100000000000000000000000001}', b'{"a":100000000000000000000000002}'),
        (b'{"a":1}', b'{"a":1.0}'),
        (b'{"a":1}', b'{"a":true}'),
        (b'{"a":1}', b'{"a":"1"}'),
        (b'{"a":1.5}', b'{"a":"1.5"}'),
        (b'{"a":1.5}', b'{"a":"\\u00001.5\\u0000"}'),
        (b'{"a":1.5}', b'{"a":"\\u00001.5"}'),
        (b'{"a":NaN}', b'{"a":"NaN"}'),
        (b'{"a":null}', b"{}"),
        (b'{"a":"x"}', b'{"a":"X"}'),
        ('{"a":"é"}'.encode(), '{"a":"e\u0301"}'.encode()),
        (b"[1,2]", b"[2,1]"),
        (b"{}", b"[]"),
        (b"{}", b""),
    ],
)
def test_other_work_is_not_taken_for_a_repetition(one: bytes, other: bytes) -> None:
    """Above all not where only a reader's kindness would make one of two: the second would be refused for the first.

    Of two members of one name some servers take the first and some the last, so such a body is only like itself.
    """
    assert not same(one, other)
    assert same(one, one)
    assert same(other, other)


SMALL = st.recursive(
    st.sampled_from([0, 1, 1.0, True, None, "", "1", "a"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b"]), SMALL), st.dictionaries(st.sampled_from(["a", "b"]), SMALL)
)
def test_two_values_share_a_fingerprint_only_when_they_are_equal(one: Any, other: Any) -> None:
    """Equal as JSON has it: 1, 1.0, true and "1" are four values."""
    assert same(sent(one), sent(other)) == (sent(one, sort_keys=True) == sent(other, sort_keys=True))


def test_the_id_of_an_answer_is_part_of_it() -> None:
    """It says which question is answered: `yes` to one is not `yes` to another."""
    assert not same(b'{"jsonrpc":"2.0","id":1,"result":"yes"}', b'{"jsonrpc":"2.0","id":2,"result":"yes"}')


def test_an_id_is_only_forgotten_where_json_rpc_has_it() -> None:
    """In any other body it names a thing: an order, a customer."""
    assert not same(b'{"id":1,"method":"m"}', b'{"id":2,"method":"m"}')
    assert not same(
        b'{"jsonrpc":"2.0","method":"m","params":{"id":1}}',
        b'{"jsonrpc":"2.0","method":"m","params":{"id":2}}',
    )


@pytest.mark.parametrize(
    ("method", "target"),
    [("PATCH", URL), ("POST", f"{URL}?x=1"), ("POST", URL.upper()), ("POST", "/v1/orders")],
)
def test_method_and_target_are_part_of_the_work(method: str, target: str) -> None:
    """The same body sent elsewhere is other work."""
    assert fingerprint("POST", URL, b"{}") != fingerprint(method, target, b"{}")


def test_a_fingerprint_is_32_hex_digits() -> None:
    """It is written down in the journal and in records, and stays what it is from one version to the next."""
    assert fingerprint("POST", URL, b'{"a": 1}') == "4490c42b5203c5fe1cdb38e44d87471a"


# -- bodies of every kind ----------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=20), max_size=6))
@example([b"a=1&b=2"])
def test_in_pieces_or_whole(pieces: list[bytes]) -> None:
    """A body that is too large to be held is taken as it passes; for one that is no JSON it comes to the same."""
    body = b"--border\r\n" + b"".join(pieces)
    digest = start("POST", URL)
    digest.update(b"--border\r\n")
    for piece in pieces:
        digest.update(piece)
    assert digest.hexdigest() == fingerprint("POST", URL, body)


STRANGE = {
    "empty": b"",
    "form": b"a=1&b=2",
    "scalar": b'"text"',
    "only looks like JSON": b"{a: 1}",
    "cut": b'{"a": ',
    "two values": b'{"a":1}{"a":1}',
    "not UTF-8": b'{"a": "\xff"}',
    "a lone surrogate": b'{"a": "\\ud800"}',
    "an encoded surrogate": b'{"a": "\xed\xa0\x80"}',
    "UTF-16": '{"a": 1}'.encode("utf-16-le"),
    "byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "NaN": b'{"a": NaN}',
    "infinite": b'{"a": -Infinity}',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a number of 5,000 digits": b'{"a": ' + b"9" * 5_000 + b"}",
    "a control character": b'{"a": "\x01"}',
    "an escaped NUL": b'{"a": "\\u0000"}',
}


@pytest.mark.parametrize("body", STRANGE.values(), ids=STRANGE)
def test_what_is_no_sure_json_is_taken_as_it_stands(body: bytes) -> None:
    """Promise 14: it is neither read wrongly nor an error; it is like itself and like nothing else."""
    assert canonical(body) == body


PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"a"',
    b":",
    b",",
    b"1",
    b"1.50",
    b'"jsonrpc"',
    b'"method"',
    b'"params"',
    b'"_meta"',
]
BODIES = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([*PIECES, b"\\u0000", b" ", b"\xff"]), max_size=24).map(b"".join),
    DOCUMENT.map(sent),
)


@given(BODIES)
def test_the_one_form_is_its_own_form(body: bytes) -> None:
    """Of no body an error comes, and what `canonical` returns it leaves alone; so no body is mistaken for another's form."""
    assert canonical(canonical(body)) == canonical(body)


@given(DOCUMENT)
def test_the_one_form_says_the_same(value: Any) -> None:
    """It is JSON still, numbers and all."""
    assert json.loads(exact_json.dump(exact_json.load(sent(value)))) == value


@pytest.mark.parametrize("target", ["/naïve", "/имя", "/\ud800", "/a b\n"])
def test_no_target_is_too_strange(target: str) -> None:
    """Promise 14: a target that no header could carry has a fingerprint all the same."""
    assert fingerprint("POST", target, b"") != fingerprint("POST", "/", b"")
