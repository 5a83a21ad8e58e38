"""The text as a whole: what is no YAML, what is too much of it, and what is no file."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import yaml

from proxy.config import ConfigError, digest, document, load, parse, read
from proxy.core.policy import Mode, Policy
from tests.config.said import faults, places


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing\n", "---\n", "~", "{}", "\ufeff", "routes:\nfallback:\ntunnel: ~\n"]
)
def test_nothing_is_the_built_in_policy(text: str) -> None:
    """An empty file is a working sidecar, and so is one whose sections were all commented out."""
    assert parse(text) == Policy()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: [", "waterclock.yaml:1:8: this is not valid YAML: while parsing a flow node: did not find expected node content; correct it there"),
        ("a: b: c", "waterclock.yaml:1:5: this is not valid YAML: mapping values are not allowed in this context; correct it there"),
        ("a:\n\tb: 1", "waterclock.yaml:2:1: this is not valid YAML: while scanning for the next token: found character that cannot start any token; indent with spaces, and put quotes around a value that begins with @, % or `"),
        ("a:\n  host: *.internal", "waterclock.yaml:2:10: this is not valid YAML: while scanning an alias: did not find expected alphabetic or numeric character; put quotes around a value that begins with *"),
        ("mode: \x00", "waterclock.yaml:1:7: the character '\\x00' cannot stand in YAML; take it out"),
        ("a: 1\nmode: x\ud800", "waterclock.yaml:2:8: the character '\\ud800' cannot stand in YAML; take it out"),
        ("mode: enforce\n---\nmode: observe\n", "waterclock.yaml:2: a second document begins here; keep one document in the file"),
        ("- mode\n", "waterclock.yaml:1: a list stands where keys are expected; write keys with their values"),
        ("\nenforce\n", 'waterclock.yaml:2: "enforce" stands where keys are expected; write keys with their values'),
        ("!policy {}", 'waterclock.yaml:1: something with the tag "!policy" stands where keys are expected; write keys with their values'),
        ("mode: enforce\nmode: observe", "waterclock.yaml:2: mode: is given twice, first on line 1; keep one of the two"),
        ("[a]: 1", "waterclock.yaml:1: ?: a list stands where a key is expected; write a key"),
        ("&a [*a]", "waterclock.yaml:1: this alias stands within what it names; write its content out"),
        ("[" * 40, "waterclock.yaml:1: this is nested more than 32 deep; take levels out"),
        ("x" * 2**20 + "y", "waterclock.yaml: the file has more than 1048576 bytes; make it shorter"),
    ],
)  # fmt: skip
def test_no_document(text: str, said: str) -> None:
    """What cannot be read at all is one fault, with line and column where the parser knows them."""
    assert [str(fault) for fault in faults(text)] == [said]


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_a_few_lines_that_stand_for_millions() -> None:
    """Aliases are counted as what they stand for, without writing it out."""
    [fault] = faults(BOMB)
    assert (fault.line, fault.problem) == (5, "this makes more than 50000 values, aliases written out")


def test_a_long_text_that_stands_for_many() -> None:
    """It counts for several values, so that a few aliases do not fill the memory."""
    long = f"a: &a {'x' * 500_000}\n"
    [fault] = faults(f"{long}b: [{'*a, ' * 20}]")
    assert (fault.line, fault.problem) == (2, "this makes more than 50000 values, aliases written out")
    assert places(long) == [(1, "a")]


@pytest.mark.parametrize(
    "text", ["[" * 500_000, "- " * 250_000, "? " * 250_000, "{a: " * 250_000, "a: *b\n" * 50_000, BOMB]
)
@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
def test_no_text_is_too_much(text: str, loader: type) -> None:
    """Nesting and aliases end in faults, with either of PyYAML's parsers."""
    with mock.patch.object(document, "LOADER", loader):
        assert len(faults(text)) == 1


def test_aliases_are_read_where_they_stand() -> None:
    """An anchor saves typing, and nothing else."""
    policy = parse("tunnel: {idle: &span 7s}\nsubscription: {idle: *span}\nwrites: {linger: *span}")
    assert policy.tunnel.idle == policy.subscription_idle == policy.writes.linger == 7 * 10**9


def test_merge_keys_are_refused() -> None:
    """They are no part of YAML 1.2, and hide which key comes from where."""
    assert places("tunnel: &t {idle: 7s}\nsubscription: {<<: *t}") == [(2, "subscription.<<")]


def test_a_file(tmp_path: Path) -> None:
    """A policy comes from a file, whose path the faults name."""
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbfmode: observe\r\n")
    assert load(path).mode is Mode.OBSERVE
    assert load(str(path)).mode is Mode.OBSERVE
    path.write_text("\nmode: dream\n")
    with pytest.raises(ConfigError, match="dream") as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}:2: mode: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"mode: enforce\n# caf\xe9\n", ":2: byte 20 is not UTF-8; save the file as UTF-8"),
        ("mode: enforce".encode("utf-16"), ":1: byte 1 is not UTF-8; save the file as UTF-8"),
        (b"#" * (2**20 + 1), ": the file has more than 1048576 bytes; make it shorter"),
        ("é".encode() * 2**19 + b"\n", ": the file has more than 1048576 bytes; make it shorter"),
        ("#é".encode() * 2**19, ": the file has more than 1048576 bytes; make it shorter"),
    ],
)
def test_what_is_no_text(tmp_path: Path, content: bytes, said: str) -> None:
    """Other encodings and other sizes are told apart from faults within."""
    path = tmp_path / "policy.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert str(refused.value) == f"{path}{said}"


def test_what_is_no_file(tmp_path: Path) -> None:
    """A path that leads nowhere, or to a folder, is a fault like any other."""
    for path, reason in [(tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")]:
        with pytest.raises(ConfigError) as refused:
            load(path)
        assert (
            str(refused.value)
            == f"{path}: the file cannot be read: {reason}; check the path and its permissions"
        )
    with pytest.raises(ConfigError, match="this is not a path of a file"):
        load("a\0b")


def test_digest_is_that_of_the_file(tmp_path: Path) -> None:
    """The digest is what `sha256sum` says of the file, shortened."""
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"mode: enforce\n")
    assert digest(read(path)) == digest("mode: enforce\n") == "ac17ce3f2bec"
    assert digest("mode: observe\n") != digest("mode: enforce\n")
    assert len(digest("\ud800")) == 12


def test_faults_stand_in_the_order_of_their_lines() -> None:
    """Whatever the order in which they were found."""
    text = (
        "listen: {outbound: 127.0.0.1:10803}\nmode: no\nroutes:\n- {name: a}\n- {name: a, cap: 1}\nmode: x\n"
    )
    assert places(text) == [(1, "listen.outbound"), (2, "mode"), (5, "routes[1].cap"), (5, "routes[1].name"), (5, "routes[1]"), (6, "mode")]  # fmt: skip
