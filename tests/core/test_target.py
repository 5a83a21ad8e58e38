"""Where a call goes: authorities and URLs taken apart, what is shown of them, and which hosts are of our own side."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.target import DEFAULT_PORTS, Origin, Target, hide_query, is_inside, split_authority, split_url


@pytest.mark.parametrize(
    ("authority", "host", "port"),
    [
        ("example.com", "example.com", 80),
        ("example.com:8080", "example.com", 8080),
        ("EXAMPLE.com:80", "example.com", 80),
        ("example.com.", "example.com", 80),
        ("example.com.:81", "example.com", 81),
        ("10.0.0.1:1", "10.0.0.1", 1),
        ("a:65535", "a", 65535),
        ("a:00080", "a", 80),
        ("[::1]", "::1", 80),
        ("[2001:DB8::1]:8443", "2001:db8::1", 8443),
        ("[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1", 80),
        ("my_service", "my_service", 80),
        ("xn--bcher-kva.example", "xn--bcher-kva.example", 80),
        ("a" * 255, "a" * 255, 80),
    ],
)
def test_an_authority_is_a_host_and_a_port(authority: str, host: str, port: int) -> None:
    """The host in lower case, without brackets and without the dot of the root."""
    assert split_authority(authority, 80) == (host, port)


@pytest.mark.parametrize(
    "authority",
    [
        *(
            "",
            ":80",
            ".",
            "..",
            ".:80",
            "a:",
            "a:b",
            "a:-1",
            "a:+1",
            "a:0",
            "a:65536",
            "a:99999",
            "a:123456",
            "a:8٠",
        ),
        *("a b", "a/b", "a?b", "a#b", "a\\b", "a\n", "a\0", "a@b", "user:pass@a", "user@a:80"),
        *(
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[::1]x",
            "[::1]:x",
            "[fe80::1%eth0]",
            "[v1.x]",
            "bücher.example",
            "a" * 256,
        ),
    ],
)
def test_what_is_no_authority(authority: str) -> None:
    """User information, bare IPv6, letters that no name has, a port that is none: refused with a sentence."""
    with pytest.raises(ValueError, match=r"is not a host|is out of range"):
        split_authority(authority, 80)


HOSTS = st.one_of(
    st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z0-9]{1,10}){0,3}\Z", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)


@given(HOSTS, st.integers(1, 65535), st.sampled_from(["http", "https"]))
def test_an_origin_is_read_as_it_is_written(host: str, port: int, scheme: str) -> None:
    """An origin written as a URL is the same origin again, IPv6 too."""
    read, authority, path = split_url(f"{Origin(scheme, host, port)}/x?y")
    assert (read, path) == (scheme, "/x?y")
    assert split_authority(authority, DEFAULT_PORTS[scheme]) == (host, port)


@given(st.text(max_size=30), st.text(max_size=30))
def test_nothing_but_a_value_error_is_raised(url: str, authority: str) -> None:
    """Promise 14: whatever stands in a target or a Host field."""
    for read in (
        lambda: split_url(f"http://{url}"),
        lambda: split_url(url),
        lambda: split_authority(authority, 80),
    ):
        try:
            read()
        except ValueError as problem:
            assert str(problem)  # noqa: PT017 - either outcome is fine, but no other one


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://a/b?c", ("http", "a", "/b?c")),
        ("HTTPS://A:443/b", ("https", "A:443", "/b")),
        ("http://a", ("http", "a", "/")),
        ("http://a?c", ("http", "a", "/?c")),
        ("http://a?c/d@e", ("http", "a", "/?c/d@e")),
        ("http://a/b@c:80/", ("http", "a", "/b@c:80/")),
        ("http://[::1]:80/", ("http", "[::1]:80", "/")),
        ("http://a//b", ("http", "a", "//b")),
        ("http:///b", ("http", "", "/b")),
    ],
)
def test_an_absolute_target_is_taken_apart(url: str, parts: tuple[str, str, str]) -> None:
    """Scheme, authority, and a path that is never empty; what the authority holds is looked at by itself."""
    assert split_url(url) == parts


def test_ports_that_need_not_be_written() -> None:
    """Those of the two schemes that go through here."""
    assert DEFAULT_PORTS == {"http": 80, "https": 443}


@pytest.mark.parametrize(
    "url", ["", "/", "http", "https", "a", "a:80", "*", "ftp://a/", "http:/a", "http:a", "://a", " http://a"]
)
def test_what_is_no_absolute_target(url: str) -> None:
    """Only `http` and `https` go through here."""
    with pytest.raises(ValueError, match="must be http:// or https://"):
        split_url(url)


@pytest.mark.parametrize("url", ["http://user@a/", "http://user:pass@a:80", "http://a@b@c/", "https://@a/"])
def test_user_information_is_refused(url: str) -> None:
    """`http://good.example@evil.example/` goes to another place than it seems to (RFC 9110 §4.2.4)."""
    with pytest.raises(ValueError, match="send Authorization instead"):
        split_url(url)


# -- what is shown -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a/b", "http://a/b"),
        ("http://a/b?", "http://a/b?"),
        ("http://a/b?token", "http://a/b?…"),
        ("http://a/b?x=1", "http://a/b?x=…"),
        ("http://a/b?x=1&y=2", "http://a/b?x=…&y=…"),
        ("http://a/b?x=1;secret&y=", "http://a/b?x=…&y=…"),
        ("http://a/b?x=1&secret", "http://a/b?x=…&…"),
        ("http://a/b?x=a=b", "http://a/b?x=…"),
        ("http://a/b?x=/c?d=e", "http://a/b?x=…"),
    ],
)
def test_values_of_a_query_are_hidden(url: str, shown: str) -> None:
    """They hold keys and personal data more often than not; what has no name is a value."""
    assert hide_query(url) == shown


@given(st.lists(st.tuples(st.text(string.ascii_lowercase), st.text("0123456789;/?:@!$'()*,=%", min_size=1))))
def test_no_value_is_ever_shown(items: list[tuple[str, str]]) -> None:
    """Names are letters here and values are not, so nothing but names may be left."""
    query = "&".join(f"{name}={value}" for name, value in items)
    shown = hide_query(f"http://a/b?{query}").removeprefix("http://a/b?")
    assert set(shown) <= {*string.ascii_lowercase, "=", "…", "&"}


def test_a_target_in_full_and_as_shown() -> None:
    """Units are told apart by the one, records carry the other."""
    target = Target(Origin("https", "api.example.com", 443), "api.example.com", "/v1?key=s3cret")
    assert target.url == "https://api.example.com/v1?key=s3cret"
    assert target.shown == "https://api.example.com/v1?key=…"


def test_a_place_that_is_asked_under_another_name() -> None:
    """It is another unit than the place under its own, and the record says both."""
    own = Target(Origin("http", "10.0.0.5", 80), "10.0.0.5", "/v1/@me?key=s3cret")
    other = own._replace(host="shop")
    assert other.url == "http://shop@10.0.0.5/v1/@me?key=s3cret" != own.url
    assert other.shown == "http://shop@10.0.0.5/v1/@me?key=…"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("http://me:hunter2@a:1/x", "http://http://…@a:1/x"),
        ("http://a@b@c/x", "http://http://…@c/x"),
        ("/users/@me", "http:///users/@me"),
        ("/x?to=//me@b", "http:///x?to=…"),
    ],
)
def test_user_information_is_hidden(path: str, shown: str) -> None:
    """A target that is refused for it is recorded, and the record must not keep a password."""
    assert Target(Origin("http", "", 0), "", path).shown == shown


# -- whose side --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *(
            "localhost",
            "orders",
            "orders.agents.svc",
            "orders.agents.svc.cluster.local",
            "db.internal",
            "nas.lan",
        ),
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.1.1",
            "100.64.0.1",
            "::1",
            "fd00::1",
        ),
        *("fe80::1", "::ffff:10.0.0.1", "::ffff:100.64.0.1"),
    ],
)
def test_our_own_side(host: str) -> None:
    """Private addresses, those that clusters give their pods from 100.64/10, and names that only a cluster resolves."""
    assert is_inside(host)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "example.com",
            "svc.example.com",
            "internal.example.com",
            "a.notlocal",
            "xlocal.com",
            "8.8.8.8",
            "100.128.0.1",
        ),
        *("172.32.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "10.0.0.1.example.com", "1.2.3"),
    ],
)
def test_the_rest_of_the_world(host: str) -> None:
    """A job's id is nobody else's business, not even in an IPv4 address that is written as IPv6."""
    assert not is_inside(host)
