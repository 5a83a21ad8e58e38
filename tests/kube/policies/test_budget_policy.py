"""What a BudgetPolicy says becomes a text that sidecars read as the same policy, or faults with their places."""

from __future__ import annotations

from json import loads
from typing import Any

import pytest
import yaml
from hypothesis import given

from proxy.config import digest, parse
from proxy.core.calls import Outcome
from proxy.kube.names import POLICY_FILE
from proxy.kube.policies.budget_policy import is_intact
from proxy.kube.policies.crd import LONGEST_NAME
from tests.kube.policies.objects import read
from tests.kube.policies.written import as_json, collected, policies, written


@given(policy=policies)
def test_the_text_is_the_same_policy(policy: dict[str, Any]) -> None:
    """Whatever it says, and in whatever characters."""
    made = read("research", policy)
    assert made.faults == ()
    assert parse(made.text, has_files=False) == parse(written(policy), has_files=False)


def test_policies_of_the_readers_tests() -> None:
    """The same for all of these, from the text through JSON to the text."""
    for text in collected():
        if "name: on" not in text:
            made = read("research", as_json(text))
            assert parse(made.text, has_files=False) == parse(text, has_files=False)


def test_the_first_line_says_what_it_was_made_from() -> None:
    """Who looks into the ConfigMap knows what to edit instead."""
    made = read("research", {"mode": "observe"}, generation=3)
    first, rest = made.text.split("\n", 1)
    assert first == (
        f"# Made from BudgetPolicy research, generation 3. Edit that: this is kept as it is. ({digest(rest)})"
    )
    assert rest == "mode: observe\n"


def test_an_empty_policy_is_no_empty_file() -> None:
    """A sidecar does not believe a file that has become empty."""
    assert read("a", {}).text.endswith("\n{}\n")
    assert read("a", {}).faults == ()


@pytest.mark.parametrize("name", ["on", "true", "retry_on"])
def test_endings_by_any_name(name: str) -> None:
    """A plain `on` would be a truth value to some; it never stands there plainly."""
    text = read("a", {"fallback": {"retries": {name: ["connect_failed", 503]}}}).text
    retries = parse(text).fallback.retries
    assert retries is not None
    assert retries.outcomes == {Outcome.CONNECT_FAILED}
    assert retries.statuses == {503}
    assert yaml.safe_load(text) == {"fallback": {"retries": {name: ["connect_failed", 503]}}}


def test_texts_stay_texts() -> None:
    """What looks like something else is quoted."""
    policy = {"journal": {"path": "2030-01-01"}, "fallback": {"stage": "123"}, "routes": [{"name": "null"}]}
    made = read("a", policy)
    assert made.faults == ()
    assert parse(made.text).journal.path == "2030-01-01"


@pytest.mark.parametrize(
    "text",
    ["on", "no", "y", "010", "1e3", "0o17", "1_000", "08:00", ".inf", "~", "<<", "=", "5", "", "a: b", "# c"],
)
def test_texts_of_json_stay_texts(text: str) -> None:
    """What JSON says is a text is one to the sidecar, whatever some reader of YAML would make of it without quotes."""
    json = {"$.a": text, "$.b": [{text: text}]}
    answer = {"json": {text: [text]}, "headers": {"X-A": text or "-"}}
    ladder = [{"name": "a", "set": {"json": json, "query": {"q": text}}}, {"name": "b", "answer": answer}]
    made = read("a", {"fallback": {"effect": "read", "ladder": ladder}})
    assert made.faults == ()
    first, second = parse(made.text).fallback.ladder
    assert first.change is not None
    assert [loads(value) for _, value in first.change.json] == [text, [{text: text}]]
    assert first.change.query == (("q", text),)
    assert second.answer is not None
    assert loads(second.answer.body) == {text: [text]}


@pytest.mark.parametrize(
    "value", [None, True, False, 0, -1, 300, 0.2, 1e-7, 1e22, 2**53 - 1, [], {}, "2026-01-02"]
)
def test_values_of_json_stay_what_they_are(value: Any) -> None:
    """Numbers, truths and null too, through the text that is made of them."""
    ladder = [{"name": "a", "set": {"json": {"$.a": value}}}]
    made = read("a", {"fallback": {"effect": "read", "ladder": ladder}})
    assert made.faults == ()
    [rung] = parse(made.text).fallback.ladder
    assert rung.change is not None
    [(_, kept)] = rung.change.json
    assert loads(kept) == value
    assert type(loads(kept)) is type(value)


def test_a_number_that_json_cannot_keep() -> None:
    """It is refused here as in a file: the API server keeps 64 bits of it, and readers of JSON 53."""
    ladder = [{"name": "a", "set": {"json": {"$.a": 2**53}}}]
    [fault] = read("a", {"fallback": {"effect": "read", "ladder": ladder}}).faults
    assert fault.startswith(
        'spec.policy.fallback.ladder[0].set.json.$.a: "9007199254740992" is a number that not every'
    )


def test_every_fault_with_its_place() -> None:
    """Nobody has seen lines, so none are named."""
    made = read(
        "a",
        {"budget": {"default": "10", "reserve": "2h"}, "routes": [{"name": "a", "cap": 4}], "modus": 1},
        {"matchExpressions": [{"key": "a", "operator": "Is"}]},
    )
    assert sorted(made.faults) == [
        'spec.policy.budget.default: "10" has no unit; write 10s, 250ms, 5m or 1h',
        "spec.policy.modus: is not a key that is known here; did you mean pods?",
        'spec.policy.routes[0].cap: "4" has no unit; write 4s, 250ms, 5m or 1h',
        'spec.selector.matchExpressions[0].operator: "Is" is not known; write In, NotIn, Exists or DoesNotExist',
    ]


def test_contradictions_name_the_other_key() -> None:
    """And say that it was given."""
    assert read("a", {"budget": {"default": "10s", "reserve": "10s"}}).faults == (
        "spec.policy.budget.reserve: 10s is not less than budget.default, 10s (given); change one of the two",
    )


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (None, ()),
        ([], ("spec.policy: a list stands where keys are expected; write keys with their values",)),
        ("mode: observe", ('spec.policy: "mode: observe" stands where keys are expected; write keys with their values',)),
    ],
)  # fmt: skip
def test_what_is_no_mapping(policy: Any, said: tuple[str, ...]) -> None:
    """The schema refuses it; an object may be older than the schema."""
    assert read("a", policy).faults == said


def test_a_policy_that_is_too_large() -> None:
    """More than a sidecar reads, and a ConfigMap holds."""
    routes = [
        {"name": f"r{number}", "match": {"path": f"/{number}/{'x' * 1000}", "host": "h" * 63}}
        for number in range(1000)
    ]
    [fault] = read("a", {"routes": routes, "journal": {"path": "p" * 4000}}).faults
    assert fault == "spec.policy: the file has more than 1048576 bytes; make it shorter"


def test_a_name_that_makes_no_key() -> None:
    """It would be no key of a ConfigMap."""
    assert read("n" * LONGEST_NAME, {}).faults == ()
    [fault] = read("n" * (LONGEST_NAME + 1), {}).faults
    assert fault == f"metadata.name: has more than {LONGEST_NAME} characters; write a shorter one"


def test_where_it_belongs() -> None:
    """With a selector it has a key of its own; without one it is the namespace's policy."""
    assert read("a", {}).key == POLICY_FILE
    assert read("a", {}, {}).key == "a.budgetpolicy.yaml"


def test_intact() -> None:
    """A text that somebody has changed by hand is no longer the BudgetPolicy's."""
    text = read("a", {"mode": "observe"}).text
    assert is_intact(text, "a")
    assert not is_intact(text, "b")
    assert not is_intact(text.replace("observe", "enforce"), "a")
    assert not is_intact(text + "limit: 3\n", "a")
    assert not is_intact("mode: observe\n", "a")
    assert not is_intact("", "a")
