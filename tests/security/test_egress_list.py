"""`egress.deny`: what it takes, what each entry stands for, and that no spelling of a denied place gets past it."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import main
from proxy.config import parse
from proxy.config.egress import METADATA_HOSTS, METADATA_NETWORKS
from proxy.config.remarks import remarks
from proxy.core.egress import Egress, literals
from proxy.core.policy import Policy
from proxy.core.target import Origin
from tests.config.said import faults


def denying(*entries: str) -> Egress:
    """The list with these entries."""
    return parse(f"egress: {{deny: [{', '.join(map(repr, entries))}]}}").egress


def said(text: str) -> list[str]:
    return [f"{fault.line}: {fault.key}: {fault.problem}; {fault.remedy}" for fault in faults(text)]


# -- what the list takes ---------------------------------------------------------------------------------------------------


def test_nothing_is_denied_by_default() -> None:
    assert Policy().egress == parse("").egress == parse("egress:").egress == Egress()
    assert Egress().denies(Origin("http", "169.254.169.254", 80)) == ""


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("10.0.0.1/8", '"10.0.0.1/8" is an address within a network; write 10.0.0.0/8'),
        ("fd00::1/8", '"fd00::1/8" is an address within a network; write fd00::/8'),
        ("''", '"" names nothing; write a host, an address, a network or metadata, or take the entry out'),
        ("'.'", '"." names nothing; write a host, an address, a network or metadata, or take the entry out'),
        ("'::ffff:10.1.2.3'", '"::ffff:10.1.2.3" is 10.1.2.3 in the form of IPv6; write 10.1.2.3, which holds for both'),
        ("'::ffff:10.0.0.0/104'", '"::ffff:10.0.0.0/104" is a network of IPv4 in the form of IPv6; write 10.0.0.0/8, which holds for both'),
        ("'fe80::1%eth0'", '"fe80::1%eth0" has a zone; write fe80::1: it is denied on every interface'),
        ("2852039166", '"2852039166" is not an address as it is usually written; write 169.254.169.254'),
        ("0xa9fea9fe", '"0xa9fea9fe" is not an address as it is usually written; write 169.254.169.254'),
        ("127.1", '"127.1" is not an address as it is usually written; write 127.0.0.1'),
        ("010.0.0.1", '"010.0.0.1" is not an address as it is usually written; write 8.0.0.1'),
        ("0.0.0.0", '"0.0.0.0" leads to this host itself; write 127.0.0.1, ::1, or 127.0.0.0/8 and ::1'),
        ("'::'", '"::" leads to this host itself; write 127.0.0.1, ::1, or 127.0.0.0/8 and ::1'),
        ("10.0.0.0/33", '"10.0.0.0/33" is not a network; write one like 10.0.0.0/8 or fd00::/8'),
        ("10.0.0.0/255.0.0.0", '"10.0.0.0/255.0.0.0" is not a network; write one like 10.0.0.0/8 or fd00::/8'),
        ("http://a.example", '"http://a.example" is not a network; write one like 10.0.0.0/8 or fd00::/8'),
        ("10.0.*", '"10.0.*" is not an address, and no host has such a name; write an address like 10.0.0.1 or a network like 10.0.0.0/8'),
        ("300.1.1.1", '"300.1.1.1" is not an address, and no host has such a name; write an address like 10.0.0.1 or a network like 10.0.0.0/8'),
        ("10.0.0.1:80", '"10.0.0.1:80" is not an address as it is usually written; write one like 10.0.0.1, 10.0.0.0/8 or fd00::1'),
        ("a b", '"a b" is not a host or a glob over hosts; write a name without scheme, port and path, like api.example.com or *.example.com'),
    ],
)  # fmt: skip
def test_what_could_be_misread_is_refused(entry: str, problem: str) -> None:
    """With its line, and what to write instead."""
    assert said(f"egress:\n  deny:\n  - a.example\n  - {entry}") == [f"4: egress.deny[1]: {problem}"]


@pytest.mark.parametrize(
    ("one", "same"),
    [("A.example.", "a.example"), ("10.1.2.3", "10.1.2.3/32"), ("[fd00::1]", "FD00::1"), ("metadata", "metadata")],
)  # fmt: skip
def test_an_entry_stands_in_the_list_once(one: str, same: str) -> None:
    """However it is written."""
    assert said(f"egress: {{deny: ['{one}', '{same}']}}") == [
        "1: egress.deny[1]: is in the list already, on line 1; keep one of the two"
    ]


@pytest.mark.parametrize(
    ("key", "policy"),
    [
        ("routes[0].upstream", "routes: [{name: a, prefix: /a, upstream: 'http://10.1.2.3:80'}]"),
        ("routes[0].upstream", "routes: [{name: a, prefix: /a, upstream: 'https://db.corp.example'}]"),
        ("fallback.ladder[1].upstream", "fallback: {effect: read, ladder: [{name: a}, {name: b, upstream: 'http://10.0.0.9'}]}"),
        ("cache.service", "cache: {service: 'http://10.9.9.9:10805'}"),
        ("cache.store", "cache: {store: 'redis://user:pass@cache.corp.example:6379/0'}"),
    ],
)  # fmt: skip
def test_a_policy_does_not_lead_to_where_it_lets_nobody_go(key: str, policy: str) -> None:
    """Two wishes of which one would be broken in silence."""
    [fault] = faults(f"{policy}\negress: {{deny: [10.0.0.0/8, '*.corp.example']}}")
    assert fault.key == key
    assert "which egress.deny denies" in fault.problem
    assert "pass" not in str(fault), "of a URL's credentials nothing is shown"


def test_what_a_parent_proxy_cannot_be_told_is_remarked() -> None:
    """And so is that the parent itself is reached all the same."""
    parent = "connections: {proxy: 'http://10.0.0.9:3128'}"
    assert [*remarks(parse(f"{parent}\negress: {{deny: [a.example]}}"))] == []
    looked_up, itself = remarks(parse(f"{parent}\negress: {{deny: [10.0.0.0/8]}}"))
    assert "looked up there" in looked_up
    assert "10.0.0.9" in itself


# -- names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "denied"),
    [
        ("secret.example", True),
        ("SECRET.example", True),
        ("secret.example.", True),
        ("secret%2eexample", True),
        ("%73ecret.example", True),
        ("ｓecret.example", True),
        ("a.b.corp.example", True),
        ("corp.example", False),
        ("secret.example.org", False),
        ("not-secret.example", False),
    ],
)
def test_a_glob_is_held_against_the_name(host: str, denied: bool) -> None:
    """Without case, with or without its last dot, and as the next one to read it may read it."""
    assert bool(denying("secret.example", "*.corp.example").denies_host(host)) is denied


# -- addresses -----------------------------------------------------------------------------------------------------------

SPELLINGS = [
    "169.254.169.254",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0XA9FEA9FE",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "025177524776",
    "169.254.43518",
    "169.16689662",
    "0251.254.0xa9fe",
    "00000251.00376.000251.0000376",
    "%31%36%39.254.169.254",
    "169%2e254%2E169%2e254",
    "１69.254.169.254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "0:0:0:0:0:ffff:a9fe:a9fe",
    "::ffff:169.254.169.254%eth0",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:00a9:fe:a9fe::",
    "64:ff9b:1:0:a9:fea9:fe00:0",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "fd00::5efe:169.254.169.254",
    "fd00::200:5efe:a9fe:a9fe",
]


@pytest.mark.parametrize("host", SPELLINGS)
@pytest.mark.parametrize("entry", ["metadata", "169.254.169.254", "169.254.0.0/16"])
def test_no_spelling_of_an_address_gets_past(host: str, entry: str) -> None:
    """Whatever getaddrinfo takes for it here, at a parent proxy, or behind a translator."""
    assert f"({entry})" in denying(entry).denies_host(host)


@pytest.mark.parametrize(
    "host", ["169.254.169.253", "2852039165", "::ffff:169.254.169.253", "64:ff9b::1.2.3.4", "1.169.254.169", "fd00::a9fe:a9fe"]
)  # fmt: skip
def test_another_address_does(host: str) -> None:
    assert denying("169.254.169.254").denies_host(host) == ""


def test_a_number_that_is_octal_to_some_is_read_both_ways() -> None:
    assert set(map(str, literals("010.0.0.1"))) == {"8.0.0.1", "10.0.0.1"}
    assert denying("10.0.0.0/8").denies_host("010.0.0.1")
    assert denying("8.0.0.0/8").denies_host("010.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::ffff:0.0.0.0", "0x0", "64:ff9b::"])
def test_the_unspecified_address_is_this_host(host: str) -> None:
    """The kernel takes it for the loopback."""
    assert denying("127.0.0.0/8").denies_host(host)


def test_a_zone_changes_nothing() -> None:
    """It says by which interface; the entry is for all of them."""
    egress = denying("fe80::/10")
    assert egress.denies_address("fe80::1%3")
    assert egress.denies(Origin("tcp", "fe80::1%eth0", 80, "fe80::1%eth0"))


def accepted_by_the_system(text: str) -> str | None:
    """The address that getaddrinfo's own reader takes a text for."""
    try:
        return socket.inet_ntoa(socket.inet_aton(text))
    except OSError:
        return None


NUMBERS = st.one_of(
    st.integers(0, 300).map(str),
    st.integers(0, 300).map(hex),
    st.integers(0, 300).map(lambda number: f"0{number:o}"),
    st.integers(0, 2**32 + 5).map(str),
    st.integers(0, 2**32 + 5).map(hex),
    st.sampled_from(["", "08", "0x", "1a", "-1", "+1", " 1", "00"]),
)


@given(st.lists(NUMBERS, min_size=1, max_size=5).map(".".join))
def test_whatever_the_system_reads_as_an_address_is_read_so_here(text: str) -> None:
    """`inet_aton` is what stands behind getaddrinfo, in this libc and most others."""
    known = accepted_by_the_system(text)
    if known is not None:
        assert ipaddress.IPv4Address(known) in literals(text)


@given(
    st.ip_addresses(v=4),
    st.sampled_from(["::ffff:{}", "64:ff9b::{}", "::{}", "::ffff:0:{}", "2001:db8::5efe:{}"]),
)
def test_an_address_within_an_address_is_denied_with_it(inner: ipaddress.IPv4Address, form: str) -> None:
    text = form.format(inner)
    if not inner.is_unspecified and int(inner) > 1:
        assert denying(f"{inner}").denies_host(text)


# -- the word ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [*METADATA_HOSTS, "METADATA.google.internal.", "169.254.170.2", "fe80::a9fe:a9fe", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"])  # fmt: skip
def test_metadata_stands_for_what_the_page_says(host: str) -> None:
    assert "(metadata)" in denying("metadata").denies_host(host)


@pytest.mark.parametrize(
    "host", ["metadata.example", "internal", "100.100.100.201", "fd00:ec2::1", "192.0.0.191", "10.0.0.1"]
)
def test_metadata_stands_for_nothing_else(host: str) -> None:
    assert denying("metadata").denies_host(host) == ""


def test_the_page_names_what_the_word_stands_for(page: str) -> None:
    """docs/policy.md is exact about it."""
    paragraph = page.partition("- **`metadata`** stands for")[2].partition("\n\n")[0]
    assert [each for each in (*METADATA_NETWORKS, *METADATA_HOSTS) if f"`{each}`" not in paragraph] == []


# -- what it is not about ------------------------------------------------------------------------------------------------


def test_the_pods_own_app_is_not_denied_to_entry_requests() -> None:
    """They come in; the list is about what goes out."""
    egress = denying("127.0.0.0/8")
    assert egress.denies(Origin("http", "127.0.0.1", 8080, "127.0.0.1"))
    assert egress.denies(Origin("http", "127.0.0.1", 8080, "127.0.0.1", inward=True)) == ""


# -- told beforehand -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "denied"),
    [
        (["GET", "http://2852039166/latest/"], True),
        (["CONNECT", "metadata.google.internal:443"], True),
        (["GET", "http://tool.example/"], False),
    ],
)
def test_explain_says_so(tmp_path: Path, words: list[str], denied: bool) -> None:
    """As far as a name tells: nothing is looked up for it."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text("egress: {deny: [metadata]}\n")
    told = CliRunner().invoke(main, ["explain", "-c", str(policy), *words])
    assert told.exit_code == denied
    assert ("refuse: egress_denied, answered 403" in told.output) is denied
