"""What redirected connections, and tunnels, turn out to speak."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.sniff import FIRST_LINE, Sniffed, sniff, sniff_in_tunnel
from tests.wire.feeding import byte_by_byte

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

OPENINGS = [
    ("HTTP with a known method", b"GET ", Sniffed.HTTP1),
    ("HTTP with its whole line", b"POST /v1/x HTTP/1.1\r\nHost: a\r\n", Sniffed.HTTP1),
    ("HTTP/1.0", b"GET / HTTP/1.0\r\n", Sniffed.HTTP1),
    ("HTTP in absolute form", b"GET http://a/ HTTP/1.1\r\n", Sniffed.HTTP1),
    ("HTTP after an empty line", b"\r\nGET / HTTP/1.1\r\n", Sniffed.HTTP1),
    ("an unknown method", b"LIST /v1/secret HTTP/1.1\r\n", Sniffed.HTTP1),
    ("TLS 1.0 in the record of a ClientHello", b"\x16\x03\x01\x02\x00\x01", Sniffed.TLS),
    ("TLS 1.2", b"\x16\x03\x03", Sniffed.TLS),
    ("HTTP/2 by prior knowledge", PREFACE + b"\x00\x00\x12\x04", Sniffed.H2_PREFACE),
    ("nearly HTTP/2", b"PRI * HTTP/2.0\r\n\r\nXX", Sniffed.OTHER),
    ("nearly TLS", b"\x16\x04\x01", Sniffed.OTHER),
    ("HTTP/0.9", b"GET /\r\n", Sniffed.OTHER),
    ("HTTP of another version", b"GET / HTTP/3.0\r\n", Sniffed.OTHER),
    ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n", Sniffed.OTHER),
    ("SSH with a comment", b"SSH-2.0-OpenSSH_9.6 Debian-1\r\n", Sniffed.OTHER),
    ("PostgreSQL", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", Sniffed.OTHER),
    ("Redis", b"*1\r\n$4\r\nPING\r\n", Sniffed.OTHER),
    ("Redis by hand", b"PING\r\n", Sniffed.OTHER),
    ("Redis by hand, with an HTTP method", b"GET key\r\n", Sniffed.OTHER),
    ("memcached", b"get key\r\n", Sniffed.OTHER),
    ("NATS", b'CONNECT {"verbose":false}\r\n', Sniffed.OTHER),
    ("STOMP", b"CONNECT\naccept-version:1.2\n\n\x00", Sniffed.OTHER),
    ("SMTP", b"EHLO example.com\r\n", Sniffed.OTHER),
    ("RTSP", b"OPTIONS rtsp://a/ RTSP/1.0\r\n", Sniffed.OTHER),
    ("AMQP", b"AMQP\x00\x00\x09\x01", Sniffed.OTHER),
    ("MQTT", b"\x10\x0e\x00\x04MQTT", Sniffed.OTHER),
    ("MongoDB", b"\x3f\x00\x00\x00\x01\x00\x00\x00", Sniffed.OTHER),
    ("a control character behind a word", b"HELLO \x00", Sniffed.OTHER),
    ("a word without end", b"A" * 40, Sniffed.OTHER),
    ("a line without end", b"HELLO " + b"a" * FIRST_LINE, Sniffed.OTHER),
    ("empty lines without end", b"\r\n" * FIRST_LINE, Sniffed.OTHER),
    ("nothing", b"", Sniffed.NEED_MORE),
    ("a part of a method", b"PO", Sniffed.NEED_MORE),
    ("a method without its space", b"GET", Sniffed.NEED_MORE),
    ("a part of a line", b"LIST /v1/sec", Sniffed.NEED_MORE),
    ("a part of a TLS record", b"\x16\x03", Sniffed.NEED_MORE),
    ("a part of an HTTP/2 preface", PREFACE[:-1], Sniffed.NEED_MORE),
    ("an empty line", b"\r\n", Sniffed.NEED_MORE),
]


@pytest.mark.parametrize(("name", "data", "expected"), OPENINGS, ids=[name for name, _, _ in OPENINGS])
def test_openings(name: str, data: bytes, expected: Sniffed) -> None:
    """A table of first bytes."""
    assert sniff(data) is expected


@pytest.mark.parametrize(("name", "data", "expected"), OPENINGS, ids=[name for name, _, _ in OPENINGS])
def test_slow_openings(name: str, data: bytes, expected: Sniffed) -> None:
    """Byte by byte it comes out the same, but that HTTP is believed before the end of its line."""
    so_far = b""
    answers = [
        answer
        for octet in byte_by_byte(data)
        if (answer := sniff(so_far := so_far + octet)) is not Sniffed.NEED_MORE
    ]
    first = answers[0] if answers else Sniffed.NEED_MORE
    by_hand = data.startswith((b"GET ", b"CONNECT {", b"OPTIONS rtsp"))
    assert first is (Sniffed.HTTP1 if by_hand else expected)


@given(st.binary(max_size=64))
def test_never_raises_and_never_waits_without_end(data: bytes) -> None:
    """More bytes always bring a decision."""
    assert isinstance(sniff(data), Sniffed)
    assert sniff(data + b"x" * FIRST_LINE * 2) is not Sniffed.NEED_MORE


IN_A_TUNNEL = [
    ("a path", b"GET /", Sniffed.HTTP1),
    ("all of the tool", b"OPTIONS *", Sniffed.HTTP1),
    ("after an empty line", b"\r\nPOST /v1", Sniffed.HTTP1),
    ("an unknown method", b"LIST /v1/secret HTTP/1.1\r\n", Sniffed.HTTP1),
    ("a method and its space", b"GET ", Sniffed.NEED_MORE),
    ("a request to a proxy", b"GET http://a/ HTTP/1.1\r\n", Sniffed.OTHER),
    ("a tunnel asked of a proxy", b"CONNECT a:443 HTTP/1.1\r\n", Sniffed.OTHER),
    ("Redis by hand", b"GET k", Sniffed.OTHER),
    ("TLS", b"\x16\x03\x03", Sniffed.TLS),
    ("HTTP/2", PREFACE, Sniffed.H2_PREFACE),
    ("nothing", b"", Sniffed.NEED_MORE),
]


@pytest.mark.parametrize(("name", "data", "expected"), IN_A_TUNNEL, ids=[name for name, _, _ in IN_A_TUNNEL])
def test_openings_in_a_tunnel(name: str, data: bytes, expected: Sniffed) -> None:
    """HTTP is what can be meant for its other end; at once or byte by byte."""
    assert sniff_in_tunnel(data) is expected
    so_far = b""
    answers = [sniff_in_tunnel(so_far := so_far + octet) for octet in byte_by_byte(data)]
    first = next((answer for answer in answers if answer is not Sniffed.NEED_MORE), Sniffed.NEED_MORE)
    assert first is expected


@given(st.binary(max_size=64))
def test_a_tunnel_is_no_more_than_a_connection(data: bytes) -> None:
    """What is no HTTP on a connection is none in a tunnel, and more bytes always bring a decision there too."""
    outside, within = sniff(data), sniff_in_tunnel(data)
    assert within is outside or outside is Sniffed.HTTP1
    assert sniff_in_tunnel(data + b"x" * FIRST_LINE * 2) is not Sniffed.NEED_MORE
