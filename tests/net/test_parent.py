"""Who is reached through the parent proxy, and what is said to it."""

from __future__ import annotations

import base64

import pytest

from proxy.core.policy import Connections
from proxy.core.upstream import Upstream
from proxy.net.parent import authorization, uses_parent

PARENT = Upstream("http", "proxy.corp", 3128)


@pytest.mark.parametrize(
    ("no_proxy", "host", "port", "expected"),
    [
        ((), "api.example", 443, True),
        ((), "localhost", 80, False),
        ((), "x.localhost", 80, False),
        ((), "127.0.0.1", 80, False),
        ((), "127.1.2.3", 80, False),
        ((), "::1", 80, False),
        ((), "::ffff:127.0.0.1", 80, False),
        ((), "proxy.corp", 3128, False),
        ((), "proxy.corp", 80, True),
        (("*",), "api.example", 443, False),
        (("*:443",), "api.example", 443, False),
        (("*:443",), "api.example", 80, True),
        (("api.example",), "api.example", 443, False),
        (("API.example.",), "api.EXAMPLE", 443, False),
        (("api.example",), "an.api.example", 443, False),
        (("api.example",), "xapi.example", 443, True),
        ((".svc",), "orders.shop.svc", 80, False),
        (("*.svc",), "orders.shop.svc", 80, False),
        ((".svc",), "svc", 80, True),
        ((".svc",), "orders.shop.svc.example", 80, True),
        ((" .svc ", ""), "orders.shop.svc", 80, False),
        ((".svc:8080",), "orders.svc", 8080, False),
        ((".svc:8080",), "orders.svc", 80, True),
        (("10.1.2.3",), "10.1.2.3", 80, False),
        (("10.1.2.3",), "10.1.2.4", 80, True),
        (("10.1.2.3:80",), "10.1.2.3", 80, False),
        (("10.1.2.3:80",), "10.1.2.3", 81, True),
        (("10.0.0.0/8",), "10.200.3.4", 80, False),
        (("10.0.0.0/8",), "::ffff:10.200.3.4", 80, False),
        (("10.9.9.9/8",), "10.200.3.4", 80, False),
        (("10.0.0.0/8",), "11.0.0.1", 80, True),
        (("10.0.0.0/8",), "10.example", 80, True),
        (("10.0.0.0/8:80",), "10.0.0.1", 443, True),
        (("fd00::/8",), "fd12::1", 80, False),
        (("fd00::/8",), "10.0.0.1", 80, True),
        (("2001:db8::1",), "2001:db8::1", 80, False),
        (("2001:db8::1",), "2001:db8:0::1", 80, False),
        (("[2001:db8::1]:443",), "2001:db8::1", 443, False),
        (("[2001:db8::1]:443",), "2001:db8::1", 80, True),
    ],
)
def test_who_uses_the_parent(no_proxy: tuple[str, ...], host: str, port: int, expected: bool) -> None:
    assert uses_parent(Connections(proxy=PARENT, no_proxy=no_proxy), host, port) is expected


def test_without_a_parent_nobody_does() -> None:
    assert not uses_parent(Connections(), "api.example", 443)


def test_user_information_becomes_a_field_and_no_part_of_the_host() -> None:
    parent = Upstream("http", "proxy.corp", 3128, userinfo="me:p%40ss:word")
    assert authorization(parent) == "Basic " + base64.b64encode(b"me:p@ss:word").decode()
    assert authorization(PARENT) is None
