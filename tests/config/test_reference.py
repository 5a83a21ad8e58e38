"""docs/policy.md says what the tables do: every key, its built-in value, its range and its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.config import parse
from proxy.config.scalars import SIZES, SPANS
from proxy.core.units import MILLISECOND
from tests.config.keys import ROWS, read_alone
from tests.config.said import faults

REFERENCE = (Path(__file__).parents[2] / "docs/policy.md").read_text()
TABLE = {
    key: (default.strip("`"), allowed)
    for key, default, allowed in re.findall(
        r"^\| `([a-z_.\[\]]+)` \| (\S.*?) \| (\S.*?) \| ", REFERENCE, re.MULTILINE
    )
}
RANGE = re.compile(r"`(\S+)` to `(\S+)`$")
WORDS = re.compile(r"`[A-Za-z]+`(, `[A-Za-z]+`)* or `")
BOTH = REFERENCE.partition("## Routes and fallback")[2].partition("\n## ")[0]


def test_every_key_is_documented_and_none_else() -> None:
    """A key is added to the tables and to the page, or to neither."""
    assert set(TABLE) == {key for key in ROWS if not key.startswith("fallback.")}


def test_keys_of_fallback_are_those_the_page_says() -> None:
    """The second table of routes is that of `fallback` too, and the first one is not."""
    of_both = set(re.findall(r"^\| `routes\[\]\.([a-z_.\[\]]+)`", BOTH, re.MULTILINE))
    assert {f"fallback.{key}" for key in of_both} == {key for key in ROWS if key.startswith("fallback.")}


@pytest.mark.parametrize("key", TABLE)
def test_default_is_the_built_in_value(key: str) -> None:
    """What the page calls the default is what an empty file gives."""
    default, _ = TABLE[key]
    reader, built_in, inline = ROWS[key]
    if default == "–":
        assert built_in in (None, False)
        return
    value, said = read_alone(reader, default)
    assert said == []
    assert value == ({name: getattr(built_in, name) for name in value} if inline else built_in)


def measure(text: str) -> tuple[Callable[[str], int], Callable[[int], str]]:
    """Return how amounts like this one are read, and how they are written to the last nanosecond or byte."""
    if text.isdigit():
        return int, str
    if text.endswith("B"):
        return SIZES.amount, "{}B".format
    return SPANS.amount, lambda span: f"{span // MILLISECOND}.{span % MILLISECOND:06}ms"


@pytest.mark.parametrize("key", [key for key, (_, allowed) in TABLE.items() if RANGE.match(allowed)])
def test_range_is_what_is_accepted(key: str) -> None:
    """Both ends of a range are taken, and the least step beyond them is not."""
    reader = ROWS[key].reader
    low, high = RANGE.findall(TABLE[key][1])[0]
    amount, written = measure(low)
    for end in (low, high):
        assert read_alone(reader, end)[1] == [], end
    beyond = [written(amount(high) + 1)]
    if amount(low) > 0:
        beyond.append(written(amount(low) - 1))
    for text in beyond:
        [said] = read_alone(reader, text)[1]
        assert said.endswith(f"write {low} to {high}"), text


@pytest.mark.parametrize("key", [key for key, (_, allowed) in TABLE.items() if WORDS.match(allowed)])
def test_words_are_what_is_accepted(key: str) -> None:
    """The page lists all of a key's words, as the fault does that refuses another one."""
    reader = ROWS[key].reader
    allowed = TABLE[key][1]
    for word in re.findall(r"`(\S+?)`", allowed):
        assert read_alone(reader, word)[1] == [], word
    [said] = read_alone(reader, "nonsense")[1]
    assert said.endswith(f"write {allowed.replace('`', '')}")


def test_faults_on_the_page_are_those_of_the_reader() -> None:
    """The page shows faults as they are said."""
    text = "\n" * 10 + "budget:\n  default: 10\n\n\n  depht: 4\n"
    shown = re.findall(r"^waterclock\.yaml:\d.*$", REFERENCE, re.MULTILINE)
    assert list(map(str, faults(text))) == shown


def test_ladder_on_the_page_is_one() -> None:
    """It can be copied as it stands."""
    shown = REFERENCE.partition("```yaml\n")[2].partition("```")[0]
    route = parse(shown).routes[0]
    assert [rung.name for rung in route.ladder] == ["full", "fast", "cached", "sorry"]


def test_statuses_that_do_not_fit_are_named() -> None:
    """The page lists what the reader refuses within the range."""
    reader = ROWS["answers.shed"].reader
    refused = {str(status) for status in range(400, 600) if read_alone(reader, str(status))[1]}
    sentence = REFERENCE.partition("Not all of these fit:")[2].partition("They are refused")[0]
    assert set(re.findall(r"\d{3}", sentence)) == refused
