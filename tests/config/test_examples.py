"""The example in the documentation is a policy, and whatever is done to it, the reader answers with faults only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import ConfigError, document, load, parse
from proxy.core.policy import Policy
from tests.config.keys import ROWS
from tests.config.said import faults

EXAMPLE = (Path(__file__).parents[2] / "docs/examples/waterclock.yaml").read_text()
AUTHORITY = str(Path(__file__).with_name("authority.pem"))
LINES = EXAMPLE.splitlines(keepends=True)


def test_example_is_a_policy() -> None:
    """But for the one file that it names, it can be used as it is."""
    [fault] = faults(EXAMPLE)
    assert (fault.key, fault.problem) == ("routes[5].ca", 'there is no file "/etc/waterclock/ca/ledger.pem"')
    policy = parse(EXAMPLE.replace("/etc/waterclock/ca/ledger.pem", AUTHORITY))
    names = [route.name for route in policy.routes]
    assert names == ["openai", "chat", "handbook", "search", "orders", "ledger", "crm"]


def test_example_gives_every_key() -> None:
    """A reader who looks for a key finds it in use."""

    def keys(value: Any, path: str) -> set[str]:
        if isinstance(value, dict) and path not in ROWS:
            return set().union(*(keys(item, f"{path}.{name}".lstrip(".")) for name, item in value.items()))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return set().union(*(keys(item, f"{path}[]") for item in value))
        return {path}

    used = keys(yaml.load(EXAMPLE, Loader=yaml.BaseLoader), "")  # which leaves `on` a word
    assert {key for key in ROWS if not key.startswith("fallback.")} <= used <= set(ROWS)


def test_example_gives_the_built_in_answers() -> None:
    """A section that is only there to be shown changes nothing."""
    assert parse(EXAMPLE[EXAMPLE.index("answers:") :]) == Policy()


FRAGMENTS = [
    *"[]{}:,#&*!|>'\"%@`-?~\t \n\0\x85\ufeff",
    "<<: ", "&a ", "*a", "- ", "? ", "!!", "---\n", "...\n", "\r\n", "'\\ud800'", '"\\UFFFFFFFF"', '"\\0"',
    "true", "null", "-1", "1e9", "0", "9" * 5000, "5s", "1MiB", "name: a\n", "match: {}\n", "stage: x\n", "é", "*.a",
]  # fmt: skip


def edit(lines: list[str], at: int, other: int, column: int, fragment: str, kind: int) -> list[str]:
    """Return the lines with one thing done to them: a fragment put in, a line moved, doubled, dropped or shifted."""
    at, other = at % len(lines), other % len(lines)
    line = lines[at]
    column %= len(line) + 1
    kinds: list[Callable[[], list[str]]] = [
        lambda: [line[:column] + fragment + line[column:]],
        lambda: [line[:column] + fragment],
        lambda: [line[:column] + line[column + 1 :]],
        lambda: [line, line],
        lambda: [lines[other]],
        lambda: ["  " + line],
        lambda: [line.removeprefix("  ")],
        list,
    ]
    return [*lines[:at], *kinds[kind % len(kinds)](), *lines[at + 1 :]] or [""]


numbers = st.integers(0, 10_000)
edits = st.lists(
    st.tuples(numbers, numbers, numbers, st.sampled_from(FRAGMENTS), numbers), min_size=1, max_size=6
)


@pytest.mark.timeout(300)  # the thorough profile tries it 5,000 times
@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
@given(changes=edits)
def test_broken_examples(loader: type, changes: list[tuple[int, int, int, str, int]]) -> None:
    """A policy that was edited badly is a policy or a list of faults, with either of PyYAML's parsers."""
    lines = LINES
    for change in changes:
        lines = edit(lines, *change)
    judge("".join(lines), loader)


@pytest.mark.timeout(300)  # the thorough profile tries it 5,000 times
@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
@given(text=st.one_of(st.text(), st.lists(st.sampled_from([*FRAGMENTS, *LINES])).map("".join)))
def test_any_text(loader: type, text: str) -> None:
    """The same for any text at all."""
    judge(text, loader)


def judge(text: str, loader: type) -> None:
    """Read a text and look at what is said of it."""
    with mock.patch.object(document, "LOADER", loader):
        said = faults(text)
    for fault in said:
        assert fault.problem
        assert fault.remedy
        assert str(fault).isprintable()
        assert len(str(fault)) < 500
    assert said == sorted(said, key=lambda fault: (fault.line or 0, fault.column or 0))


@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """The same for a file of any bytes."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    with contextlib.suppress(ConfigError):
        load(path)
