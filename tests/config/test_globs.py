"""Globs over hosts, paths and names: what they match, and that no input makes them slow."""

from __future__ import annotations

import itertools
import re
import time
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.faults import Refusal
from proxy.config.globs import host_regex, name_regex, path_regex


@cache
def within(glob: str, text: str) -> bool:
    """The meaning of `*`, said as plainly as can be."""
    if not glob:
        return not text
    if glob[0] == "*":
        return within(glob[1:], text) or (bool(text) and within(glob, text[1:]))
    return bool(text) and glob[0] == text[0] and within(glob[1:], text[1:])


@cache
def below(glob: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """The meaning of a path glob, segment by segment."""
    if not glob:
        return not path
    first, rest = glob[0], glob[1:]
    if first == "**":
        return bool(path) if not rest else any(below(rest, path[at:]) for at in range(len(path) + 1))
    return bool(path) and within(first, path[0]) and below(rest, path[1:])


segment_globs = st.one_of(st.just("**"), st.text("ab*", max_size=5).filter(lambda text: "**" not in text))
path_globs = st.lists(segment_globs, min_size=1, max_size=6).filter(
    lambda segments: ("**", "**") not in itertools.pairwise(segments)
)


@given(path_globs, st.lists(st.text("ab", max_size=4), min_size=1, max_size=8))
def test_path_glob_means_what_it_says(glob: list[str], path: list[str]) -> None:
    """Without going back over anything, a glob matches exactly what it should."""
    matched = path_regex("/" + "/".join(glob)).fullmatch("/" + "/".join(path)) is not None
    assert matched == below(tuple(glob), tuple(path))


@given(
    st.text("ab*", min_size=1, max_size=8).filter(lambda text: "**" not in text), st.text("ab", max_size=10)
)
def test_name_glob_means_what_it_says(glob: str, name: str) -> None:
    """The same for names, where a star stands for anything."""
    assert (name_regex(glob).fullmatch(name) is not None) == within(glob, name)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("search.internal", ["search.internal", "SEARCH.Internal"], ["xsearch.internal", "search.internal.x", "search-internal"]),
        ("Search.Internal.", ["search.internal"], ["search.internal."]),
        ("*.orders.internal", ["a.orders.internal", "a.b.orders.internal"], ["orders.internal", ".orders.internal"]),
        ("*", ["a", "a.b.c", "10.0.0.1"], [""]),
        ("api-*.example.com", ["api-.example.com", "api-1.example.com"], ["api-1.b.example.com", "api.example.com"]),
        ("a.*.c", ["a.b.c"], ["a.b.b.c", "a.c"]),
        ("10.0.*.1", ["10.0.7.1"], ["10.0.7.7.1"]),
        ("[::1]", ["::1"], ["[::1]", "::11"]),
        ("FD00::a", ["fd00::a", "fd00::A"], ["fd00::b"]),
    ],
)  # fmt: skip
def test_host_glob(glob: str, yes: list[str], no: list[str]) -> None:
    """Hosts are compared as `core.target` gives them: without port, brackets and final dot."""
    regex = host_regex(glob)
    assert [host for host in yes + no if regex.fullmatch(host)] == yes
    assert [host for host in yes + no if regex.match(host)] == yes


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("/v1/**", ["/v1/", "/v1/a", "/v1/a/b/"], ["/v1", "/v10/a", "/x/v1/a"]),
        ("/v1/*", ["/v1/", "/v1/a"], ["/v1", "/v1/a/b"]),
        ("/**/items", ["/items", "/a/items", "/a/b/items"], ["/aitems", "/items/a"]),
        ("/a/**/b/*/c", ["/a/b/x/c", "/a/b/b/x/c", "/a/q/b//c"], ["/a/b/c"]),
        ("/**", ["/", "/a/b"], [""]),
        ("/", ["/"], ["/a", ""]),
        ("/a.b", ["/a.b"], ["/axb", "/A.b"]),
        ("/files/*.json", ["/files/.json", "/files/a.json.json"], ["/files/a/b.json", "/files/a.jsonx"]),
    ],
)
def test_path_glob(glob: str, yes: list[str], no: list[str]) -> None:
    """`*` stays within a segment, `**` does not."""
    regex = path_regex(glob)
    assert [path for path in yes + no if regex.fullmatch(path)] == yes


@pytest.mark.parametrize(
    "glob",
    ["", "http://a", "a:80", "a/b", "a b", "a..b", ".a", "**.a", "*.*.**", "a\n", "ä.de", "a" * 64, "a." * 127 + "a", "[::g]"],
)  # fmt: skip
def test_refused_host_glob(glob: str) -> None:
    """A glob that could never match is a mistake."""
    with pytest.raises(Refusal):
        host_regex(glob)


@pytest.mark.parametrize(
    "glob", ["", "v1", "*", "/a?b", "/a#b", "/a b", "/{id}", "/[ab]", "/a**", "/**b", "/**/**", "/ä"]
)
def test_refused_path_glob(glob: str) -> None:
    """The same for paths, and for `**` where its meaning would be a guess."""
    with pytest.raises(Refusal):
        path_regex(glob)


@pytest.mark.parametrize("glob", ["", "a b", "get_**", "ä", "x" * 256])
def test_refused_name_glob(glob: str) -> None:
    """The same for names."""
    with pytest.raises(Refusal):
        name_regex(glob)


@pytest.mark.parametrize(
    ("regex", "text"),
    [
        (path_regex("/*a*a*a*a*b"), "/" + "a" * 100_000),
        (path_regex("/**/a/**/a/**/a/*/b"), "/a" * 50_000),
        (path_regex("/**/*/*/*/b"), "/" * 100_000),
        (path_regex("/**/x*y"), "/x" + "x" * 100_000),
        (host_regex("*.a.*.a.*a*a*b"), "a." * 50_000 + "a"),
        (host_regex("*.b"), "a" * 100_000),
        (name_regex("*a*a*a*a*b"), "a" * 100_000),
    ],
)
def test_no_input_is_slow(regex: re.Pattern[str], text: str) -> None:
    """What arrives is chosen by others: a match takes time in proportion to its length."""
    began = time.monotonic()
    assert regex.fullmatch(text) is None
    assert time.monotonic() - began < 1
