"""Which fields end at this hop, and who may say so."""

from __future__ import annotations

import pytest

from proxy.wire.events import RequestHead
from proxy.wire.fields import HOP_BY_HOP, dropped, has_passed, relayed_trailers
from proxy.wire.render import via
from tests.wire.feeding import read_requests


def head(*lines: bytes, version: bytes = b"HTTP/1.1") -> RequestHead:
    wire = b"GET / " + version + b"\r\nHost: a\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    first = read_requests([wire])[0]
    assert isinstance(first, RequestHead)
    return first


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b"Connection: keep-alive"],
        [b"Connection: close"],
        [b"Connection: Upgrade, HTTP2-Settings"],
        [b"Connection: TE, Keep-Alive"],
    ],
)
def test_usual_connection_costs_nothing(lines: list[bytes]) -> None:
    """The set is made once, and given again for every head that adds nothing to it."""
    always = HOP_BY_HOP | {b"budget-id"}
    assert dropped(head(*lines), always) is always
    assert dropped(head(*lines)) is HOP_BY_HOP


def test_fields_that_connection_names_end_here() -> None:
    """RFC 9110 §7.6.1, in any spelling, over several lines."""
    names = dropped(head(b"Connection: X-Hop, close ,,", b"connection: x-hop-2", b"X-Hop: 1"))
    assert {b"x-hop", b"x-hop-2"} <= names
    assert names >= HOP_BY_HOP


@pytest.mark.parametrize(
    "name",
    [
        b"Host",
        b"Authorization",
        b"Cookie",
        b"Content-Length",
        b"Content-Type",
        b"Cache-Control",
        b"Idempotency-Key",
        b"Budget-Remaining-Ms",
        b"Traceparent",
        b"Via",
        b"X-Forwarded-For",
    ],
)
def test_end_to_end_fields_cannot_be_named_away(name: bytes) -> None:
    """Connection is the sender's, and a sender must not have the proxy take away what the server relies on."""
    assert name.lower() not in dropped(head(b"Connection: x-hop, " + name))


def test_the_proxy_itself_may_drop_any_field() -> None:
    """`always` is the program's own word, and stands above the list."""
    assert b"host" in dropped(head(b"Connection: x-hop"), HOP_BY_HOP | {b"host"})


def test_via_tells_the_version_that_came_in() -> None:
    """RFC 9110 §7.6.3."""
    assert via(head(), b"waterclock") == b"Via: 1.1 waterclock\r\n"
    assert via(head(version=b"HTTP/1.0"), b"waterclock") == b"Via: 1.0 waterclock\r\n"


@pytest.mark.parametrize(
    ("lines", "passed"),
    [
        ([], False),
        ([b"Via: 1.1 here"], True),
        ([b"Via: 1.0 fred, HTTP/1.1 here (waterclock),1.1 there"], True),
        ([b"Via: 1.1 there", b"via:1.1   here"], True),
        ([b"Via: 1.1 here2, 1.1 nowhere, 1.1 (here), here"], False),
        ([b"Via: ,, ,1.1"], False),
    ],
)
def test_which_hops_a_message_has_passed(lines: list[bytes], passed: bool) -> None:
    """RFC 9110 §7.6.3: a list of versions and names, with comments."""
    assert has_passed(head(*lines), b"here") is passed


def test_trailers_that_may_be_passed_on() -> None:
    """RFC 9110 §6.5.1: nothing that frames, routes, authenticates or describes the content."""
    names = [
        b"content-digest",
        b"content-length",
        b"host",
        b"grpc-status",
        b"transfer-encoding",
        b"budget-id",
        b"server-timing",
    ]
    relayed = relayed_trailers([(name, name.title(), b"1") for name in names])
    assert [name for name, _, _ in relayed] == [b"content-digest", b"grpc-status", b"server-timing"]
