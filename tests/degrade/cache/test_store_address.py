"""The URL of a store is read as it is written everywhere, and is never shown with its password."""

from __future__ import annotations

import pytest

from proxy.degrade.cache.store_address import store_address


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "database", "user", "password"),
    [
        ("redis://store", "tcp", "store", 6379, 0, None, None),
        ("redis://store.ns.svc:7000/2", "tcp", "store.ns.svc", 7000, 2, None, None),
        ("rediss://store/", "https", "store", 6379, 0, None, None),
        ("REDIS://[fd00::1]:6379/0", "tcp", "fd00::1", 6379, 0, None, None),
        ("redis://:secret@store", "tcp", "store", 6379, 0, None, "secret"),
        ("redis://me:p%40%3A%2F@store/15", "tcp", "store", 6379, 15, "me", "p@:/"),
        ("redis://me@store", "tcp", "store", 6379, 0, "me", None),
        ("redis://me:a:b@store", "tcp", "store", 6379, 0, "me", "a:b"),
    ],
)
def test_what_is_read(
    url: str, scheme: str, host: str, port: int, database: int, user: str | None, password: str | None
) -> None:
    address = store_address(url)
    assert address.origin[:3] == (scheme, host, port)
    assert (address.database, address.user, address.password) == (database, user, password)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store:6379",
        "http://store",
        "redis://",
        "redis://store:0",
        "redis://store:x",
        "redis://store/x",
        "redis://store/-1",
        "redis://store/0/1",
        "redis://store?db=1",
        "redis://store#x",
        "redis://me@store:hidden@x",
        "redis://me:hidden@store:70000",
        "unix:///run/redis.sock",
        "redis://a b",
    ],
)
def test_what_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        store_address(url)
    assert "hidden" not in str(refused.value)


def test_a_password_is_not_shown() -> None:
    address = store_address("redis://me:secret@store:7000/1")
    assert "secret" not in repr(address) + str(address) + f"{address}"
    assert str(address) == "store:7000/1"
