"""What is tried again, the read that verifies a write, and stages: what is read of them, and what is advised instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import parse
from proxy.core.calls import Outcome
from proxy.core.policy import OnMissing, Share
from proxy.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from tests.config.said import faults

ENDINGS = [Outcome.CONNECT_FAILED, Outcome.UPSTREAM_FAILED, Outcome.DEADLINE_EXCEEDED]


def said(text: str) -> str:
    """The one fault of a text, without its place."""
    [fault] = faults(text)
    return f"{fault.problem}; {fault.remedy}"


@given(
    st.lists(st.one_of(st.sampled_from(ENDINGS), st.integers(400, 599)), min_size=1, max_size=9, unique=True)
)
def test_endings_are_sorted_out(endings: list[Outcome | int]) -> None:
    """Words and numbers stand in one list, in any order, and none is lost."""
    retries = parse(f"fallback: {{retries: {{on: [{', '.join(map(str, endings))}]}}}}").fallback.retries
    assert retries is not None
    assert retries.outcomes | retries.statuses == set(endings)
    assert retries.outcomes <= set(ENDINGS)
    assert all(type(status) is int for status in retries.statuses)


@pytest.mark.parametrize(
    ("endings", "expected"),
    [
        ("[]", "has 0 entries; write 1 to 1000 of them"),
        ("503", '"503" stands where a list is expected; write [503]'),
        ("[399]", '"399" is less than 400; write 400 to 599'),
        ("[600]", '"600" is more than 599; write 400 to 599'),
        ("['503']", '"503" is a text, because of its quotes; write it without quotes'),
        ("[refused]", '"refused" is not an ending that can be tried again; write connect_failed, upstream_failed, deadline_exceeded or a status from 400 to 599'),
        ("[5xx]", '"5xx" is not an ending that can be tried again; write connect_failed, upstream_failed, deadline_exceeded or a status from 400 to 599'),
        ("[503, 503]", "is in the list already, on line 1; keep one of the two"),
        ("[connect_failed, connect_failed]", "is in the list already, on line 1; keep one of the two"),
    ],
)  # fmt: skip
def test_refused_endings(endings: str, expected: str) -> None:
    """What cannot be tried again is named, with what can."""
    assert said(f"fallback: {{retries: {{on: {endings}}}}}") == expected


@pytest.mark.parametrize("name", ["on", "'on'", "retry_on", "true", "'true'"])
def test_names_of_the_endings(name: str) -> None:
    """YAML 1.1 takes `on` for a truth value, which comes here as the word `true`."""
    retries = parse(f"fallback: {{retries: {{{name}: [503]}}}}").fallback.retries
    assert retries is not None
    assert retries.statuses == {503}


@pytest.mark.parametrize(
    "names", [("on", "true"), ("retry_on", "on"), ("true", "retry_on")], ids=" and ".join
)
def test_one_name_of_the_endings(names: tuple[str, str]) -> None:
    """Nobody guesses which of two lists was meant."""
    first, second = names
    [fault] = faults(f"fallback:\n  retries:\n    {first}: [503]\n    {second}: [504]\n")
    assert (fault.line, fault.key, fault.remedy) == (4, "fallback.retries.on", "keep one of the two")
    assert fault.problem == "is given twice, first on line 3 (on, retry_on and true are one key)"


def test_contradictions_know_the_other_name() -> None:
    """It is one key, whatever it is called."""
    text = "fallback: {effect: write, retries: {retry_on: [503]}}"
    assert [fault.key for fault in faults(text)] == ["fallback.retries.on"]


@pytest.mark.parametrize(
    "path",
    ["/", "/a/{record}", "/{budget_id}/{idempotency_key}?a=b&c={record}", "/a%20b?filter%5Bid%5D=1", "/~a;v=1,2/@:!$'()*+", "/a?b?c//d"],
)  # fmt: skip
def test_question(path: str) -> None:
    """A path, perhaps with a query, and holes anywhere in both."""
    verify = parse(f'fallback: {{verify: {{path: "{path}"}}}}').fallback.verify
    assert verify is not None
    assert verify.path == path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a?k={key}", '"{key}" is not a hole that can be filled; write {idempotency_key}, {budget_id} or {record}'),
        ("/a?k={}", '"{}" is not a hole that can be filled; write {idempotency_key}, {budget_id} or {record}'),
        ("/a?k={Record}", '"{Record}" is not a hole that can be filled; write {idempotency_key}, {budget_id} or {record}'),
        ("/a?k={record", '"/a?k={record" has a { that is no part of a hole; take it out, or write %7B for it'),
        ("/a?k=record}", '"/a?k=record}" has a } that is no part of a hole; take it out, or write %7D for it'),
        ("/{{record}}", '"/{{record}}" has a { that is no part of a hole; take it out, or write %7B for it'),
    ],
)  # fmt: skip
def test_refused_hole(path: str, expected: str) -> None:
    """A hole that nobody fills would be sent as it stands."""
    assert said(f'fallback: {{verify: {{path: "{path}"}}}}') == expected


@pytest.mark.parametrize(
    "path", ["", "a", "{record}", "//a/b", "https://a/b", "/a b", "/ä", "/a#b", "/a%2", "/a\\tb", "/" + "a" * 2048]
)  # fmt: skip
def test_refused_question(path: str) -> None:
    """What no request line could carry, or what would lead elsewhere."""
    sentence = said(f'fallback: {{verify: {{path: "{path}"}}}}')
    assert "is not a path with an optional query; begin with a single /" in sentence
    assert "/orders?key={idempotency_key}" in sentence


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("items[0]", '"items[0]" is not a place in a JSON document; one begins with $, as in $.items[0]'),
        ("$.items[*]", "\"$.items[*]\" cannot be read from '[*]' on; names and indexes only, as in $.items[0] or $['a name']"),
        ("$..id", "\"$..id\" cannot be read from '..id' on; names and indexes only, as in $.items[0] or $['a name']"),
        ("$.a; b", "\"$.a; b\" cannot be read from '; b' on; names and indexes only, as in $.items[0] or $['a name']"),
        ("$" + ".a" * 1024, f'"$.{"a." * 29}…" is too long; write at most 2048 characters'),
    ],
)  # fmt: skip
def test_refused_place(place: str, expected: str) -> None:
    """A place in a document is one value, and the fault says what is wrong and what is right."""
    assert said(f'fallback: {{verify: {{path: /, applied: {{json: "{place}"}}}}}}') == expected


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ("[a]", "a list stands where keys are expected; write keys with their values"),
        ("{a b: 1s}", '"a b" is not the name of a stage; write 1 to 64 characters of A-Z a-z 0-9 . _ -'),
        ("{'': 1s}", '"" is not the name of a stage; write 1 to 64 characters of A-Z a-z 0-9 . _ -'),
        ("{a: 0s}", '"0s" is less than 1ms; write 1ms to 2400h'),
        ("{a: 5}", '"5" has no unit; write 5s, 250ms, 5m or 1h'),
        ("{a: 1s, a: 1s}", "is given twice, first on line 1; keep one of the two"),
        ("{slack: -1s}", '"-1s" is negative; write one like 250ms, 5m or 1h'),
        ("{" + "".join(f"s{n}: 1ms, " for n in range(1001)) + "}", "has 1001 entries; write at most 1000 of them"),
    ],
)  # fmt: skip
def test_refused_shares(stages: str, expected: str) -> None:
    """Names that a header could state, and spans that are some time; only the slack may be none."""
    assert said(f"budget: {{stages: {stages}}}") == expected


def test_slack_is_nobodys_stage() -> None:
    """With shares or without: the name is kept for what is left."""
    sentence = '"slack" is the share that no call may claim; write the name of another stage'
    assert said("fallback: {stage: slack}") == sentence
    assert said("budget: {stages: {slack: 1s}}\nfallback: {stage: slack}") == sentence
    assert said("fallback: {stage: a b}").startswith('"a b" is not the name of a stage')


def test_shares_keep_the_order_of_the_file() -> None:
    """They are shown as they were written."""
    shares = parse("budget: {stages: {z: 1s, slack: 0s, a: 2ms}}").budget.stages
    assert shares == (Share("z", SECOND), Share("slack", 0), Share("a", 2 * MILLISECOND))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("stages: {a: 1s}", 5 * MINUTE),
        ("stages: {a: 1s}, on_missing: refuse", HOUR),
        ("stages: {a: 1s}, on_missing: pass, max: 1m", MINUTE),
        ("stages: {a: 1s}, on_missing: refuse, default: 10s", 10 * SECOND),
        ("on_missing: refuse", 5 * MINUTE),
    ],
)
def test_whole_that_is_shared(text: str, whole: int) -> None:
    """Where no budget ever gets the default, shares are those of the longest budget, as they are checked against it."""
    budget = parse(f"budget: {{{text}}}").budget
    assert budget.default == whole
    assert (budget.on_missing is OnMissing.DEFAULT) == ("on_missing" not in text)
