"""Proxy variables: what is added to a container that has some of its own, so that each client still finds what it reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.kube.injection.environment import PROXY_URL, Merged, merge, no_proxy_of
from proxy.kube.injection.wishes import Wishes
from proxy.kube.settings import Settings

OURS = ("localhost", "127.0.0.1")
ALL_NAMES = [
    *("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
    *("NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY", "OTHER"),
]


def said(**values: str) -> list[dict[str, Any]]:
    """Variables with a value, in this order."""
    return [{"name": name, "value": value} for name, value in values.items()]


def referred(*names: str) -> list[dict[str, Any]]:
    """Variables that are taken from a ConfigMap."""
    return [{"name": name, "valueFrom": {"configMapKeyRef": {"name": "c", "key": name}}} for name in names]


def after(env: list[dict[str, Any]], merged: Merged) -> list[dict[str, Any]]:
    """The variables as they are then."""
    kept = [
        {**each, "value": merged.replaced[i]} if i in merged.replaced else each for i, each in enumerate(env)
    ]
    return kept + said(**merged.added)


def test_a_container_without_any_gets_both_cases_of_each() -> None:
    """curl reads http_proxy in small letters alone, Go and Java's launchers the large ones, Node none without being told."""
    merged = merge([], OURS)
    assert merged.added == {
        **dict.fromkeys(["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"], PROXY_URL),
        "NODE_USE_ENV_PROXY": "1",
        **dict.fromkeys(["NO_PROXY", "no_proxy"], "localhost,127.0.0.1"),
    }
    assert (merged.replaced, merged.warnings) == ({}, [])


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_a_proxy_of_its_own_is_left_alone_in_both_cases(name: str) -> None:
    """Clients that read the other case would else take another way than those that read this one."""
    merged = merge(said(**{name: "http://proxy.corp:3128"}), OURS)
    assert not {"HTTP_PROXY", "http_proxy"} & merged.added.keys()
    assert merged.added["HTTPS_PROXY"] == PROXY_URL
    assert merged.warnings == [f"its own {name} is left alone; calls through that go past the sidecar"]


@pytest.mark.parametrize("env", [said(HTTP_PROXY=""), referred("http_proxy")], ids=["empty", "referred"])
def test_an_empty_one_and_one_from_elsewhere_are_its_own_too(env: list[dict[str, Any]]) -> None:
    """Empty says: no proxy. What comes from elsewhere says something that nobody here can see."""
    merged = merge(env, OURS)
    assert not {"HTTP_PROXY", "http_proxy"} & merged.added.keys()
    assert len(merged.warnings) == 1


@pytest.mark.parametrize(
    "env",
    [
        said(ALL_PROXY="socks5://proxy.corp:1080"),
        said(all_proxy="socks5://proxy.corp:1080", no_proxy="a.example"),
        said(HTTP_PROXY="http://proxy.corp:3128", https_proxy="http://proxy.corp:3128"),
    ],
    ids=["for all", "for all, with exceptions", "for each"],
)
def test_a_container_with_its_own_proxies_is_not_touched(env: list[dict[str, Any]]) -> None:
    """Nor are the exceptions from its proxy, which is another one's."""
    merged = merge(env, OURS)
    assert (merged.added, merged.replaced) == ({}, {})
    assert merged.warnings


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:10800",
        "http://localhost:10800/",
        "http://run-42@127.0.0.1:10800",
        "http://r:1000@127.0.0.1:10800",
    ],
)
def test_the_sidecar_by_another_spelling(url: str) -> None:
    """A user name in it names the budget: the other case of the variable gets the same one."""
    merged = merge(said(http_proxy=url), OURS)
    assert merged.added["HTTP_PROXY"] == url
    assert merged.warnings == []


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:10801", "http://127.0.0.1:10800.example", "https://127.0.0.1:10800"]
)
def test_what_only_looks_like_the_sidecar(url: str) -> None:
    """Another port, another host, another scheme."""
    assert merge(said(http_proxy=url), OURS).warnings


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", "localhost,127.0.0.1"),
        ("a.example", "a.example,localhost,127.0.0.1"),
        ("a.example,", "a.example,localhost,127.0.0.1"),
        ("a.example b.example", "a.example b.example,localhost,127.0.0.1"),
        ("LocalHost, a.example", "LocalHost, a.example,127.0.0.1"),
        (" , ", "localhost,127.0.0.1"),
    ],
)
def test_exceptions_are_added_to_and_never_doubled(text: str, whole: str) -> None:
    """What the app has written stays as it is, in front; the other case of the name gets the same list."""
    merged = merge(said(NO_PROXY=text), OURS)
    assert merged.replaced == {0: whole}
    assert merged.added["no_proxy"] == whole


def test_exceptions_that_are_complete_stay_as_they_are() -> None:
    """Also in another order, or another case."""
    merged = merge(said(NO_PROXY="127.0.0.1 LOCALHOST"), OURS)
    assert merged.replaced == {}
    assert merged.added["no_proxy"] == "127.0.0.1 LOCALHOST"


def test_exceptions_from_elsewhere_are_referred_to() -> None:
    """Kubernetes puts in what a variable before it holds; the variable itself cannot be added to."""
    merged = merge(referred("no_proxy"), OURS)
    assert merged.added["NO_PROXY"] == "$(no_proxy),localhost,127.0.0.1"
    assert merged.warnings == [
        "no_proxy is taken from elsewhere; the names of the cluster are not added to it"
    ]


def test_no_proxy_for_anything_is_respected() -> None:
    """Somebody has switched proxies off here, and is told what that means."""
    merged = merge(said(no_proxy="*"), OURS)
    assert (merged.replaced, merged.added["NO_PROXY"]) == ({}, "*")
    assert merged.warnings == ["no_proxy is *; clients that read it go past the sidecar"]


def test_of_a_name_given_twice_the_last_one_counts() -> None:
    """As the kubelet has it."""
    env = [*said(NO_PROXY="first"), *said(NO_PROXY="second")]
    assert merge(env, OURS).replaced == {1: "second,localhost,127.0.0.1"}


def test_node_may_have_been_told_otherwise() -> None:
    """Its own word stays."""
    assert "NODE_USE_ENV_PROXY" not in merge(said(NODE_USE_ENV_PROXY="0"), OURS).added


ENTRIES = st.builds(
    lambda name, rest: {"name": name, **rest},
    st.sampled_from(ALL_NAMES),
    st.one_of(
        st.builds(dict),
        st.builds(
            lambda value: {"value": value},
            st.sampled_from(["", "*", "a,b", PROXY_URL, "localhost", "http://p:1"]),
        ),
        st.builds(lambda: {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
    ),
)


@given(
    st.lists(ENTRIES, max_size=8),
    st.lists(st.sampled_from(["localhost", "a", "10.0.0.0/8"]), unique=True, min_size=1),
)
def test_merged_twice_nothing_changes(env: list[dict[str, Any]], no_proxy: list[str]) -> None:
    """And no name is added that is there already, and no item of a list twice."""
    merged = merge(env, no_proxy)
    once = after(env, merged)
    again = merge(once, no_proxy)
    assert (again.added, again.replaced) == ({}, {})
    assert not merged.added.keys() & {each["name"] for each in env}
    lists = [merged.added.get(name, "*") for name in ("NO_PROXY", "no_proxy")]
    for items in (each.split(",") for each in [*lists, *merged.replaced.values()]):
        assert "*" in items or all(items.count(item) == 1 for item in no_proxy)


def test_what_is_reached_directly() -> None:
    """The pod itself, the API server by its names, the platform's names and networks, the pod's own; nothing twice."""
    settings = Settings(
        cluster_domain="corp.internal", cluster_ranges=("10.96.0.0/16",), no_proxy=(".svc", "localhost")
    )
    assert no_proxy_of(settings, Wishes(exclude_cidrs="192.0.2.0/24,10.96.0.0/16")) == (
        *("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        *("kubernetes.default.svc.corp.internal", "10.96.0.0/16", ".svc", "192.0.2.0/24"),
    )


def test_what_some_client_cannot_bear_is_left_out() -> None:
    """A network of IPv6 in NO_PROXY makes every call of httpx fail, whatever it leads to (tests/clients/test_environment.py)."""
    settings = Settings(cluster_ranges=("10.96.0.0/16", "fd00:96::/112"), no_proxy=("[fd00::7]", "fd00::7"))
    reached = no_proxy_of(settings, Wishes(exclude_cidrs="fd00:1::/64"))
    assert reached[-2:] == ("10.96.0.0/16", "fd00::7")
    assert not [item for item in reached if "fd00:" in item and item != "fd00::7"]
