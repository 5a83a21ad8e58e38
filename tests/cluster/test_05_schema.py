"""The API server takes the definition of BudgetPolicies, and what the reader takes; what its schema can see, it refuses.

The definition is made under a group of its own, which goes again: it needs no release, and leaves one alone.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.core.policy import SLACK
from proxy.kube.policies.crd import LONGEST_NAME, custom_resource_definition
from tests.cluster.harness.commands import attempt, kubectl
from tests.cluster.harness.waiting import eventually
from tests.kube.policies.test_schema import BEYOND, UNKNOWN, WRONG
from tests.kube.policies.written import as_json, collected, policies
from tools.budget_policy import meanings

EXAMPLE = (Path(__file__).parents[2] / "docs/examples/waterclock.yaml").read_text()
MAPPINGS_FOR_LISTS = ("fallback: {effect: read, ladder: {name: a}}",)
"""What kubectl takes for keys that nobody knows, since a list has none."""
GROUP = f"try-{uuid.uuid4().hex[:8]}.waterclock.dev"


@pytest.fixture(scope="module", autouse=True)
def _definition() -> Iterator[None]:
    made = custom_resource_definition(meanings())
    made["metadata"]["name"] = name = f"budgetpolicies.{GROUP}"
    made["spec"] |= {"group": GROUP}
    made["spec"]["names"] |= {"shortNames": [], "categories": []}
    kubectl("create", "--filename", "-", given=made)
    try:
        eventually(
            "it is discovered", lambda: attempt("kubectl", "get", f"budgetpolicies.{GROUP}").ok, within=60
        )
        yield
    finally:
        kubectl("delete", "customresourcedefinition", name, "--wait=true")


def budget_policy(policy: Any, name: str = "x", **spec: Any) -> dict[str, Any]:
    """An object of the definition under test."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "BudgetPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec | {"policy": policy},
    }


def said_of(*objects: Any) -> str:
    """What the API server has against some objects, which it is asked to create, and does not."""
    done = attempt("kubectl", "create", "--dry-run=server", "--filename", "-", given=list(objects))
    assert done.ok == (done.err == ""), done
    return done.err


def said_of_all(given: Sequence[Any]) -> str:
    """The same, for policies."""
    return said_of(*(budget_policy(policy, f"x{number}") for number, policy in enumerate(given)))


def test_the_example_and_every_policy_of_the_readers_tests() -> None:
    """As they are written, read as kubectl reads them."""
    readable = [as_json(text) for text in collected() if "name: on" not in text]
    assert said_of_all([as_json(EXAMPLE), *itertools.filterfalse(needs_order, readable)]) == ""


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(some=st.lists(policies, min_size=1, max_size=30))
def test_what_the_reader_takes_is_taken(some: list[Any]) -> None:
    """Any policy that can be drawn from the tables."""
    assert said_of_all(list(itertools.filterfalse(needs_order, some))) == ""


def needs_order(policy: Any) -> bool:
    """Whether a policy says something only as long as its keys stay in their order, which a file does, and Kubernetes not."""
    budget = policy.get("budget") or {}
    stages = set(budget.get("stages") or ()) - {SLACK}
    return budget.get("carry") is True and not budget.get("order") and len(stages) > 1


def test_what_depends_on_the_order_of_keys() -> None:
    """Has to give that order."""
    carrying = {"stages": {"a": "1s", "b": "1s"}, "carry": True}
    assert "add order" in said_of(budget_policy({"budget": carrying}))
    assert said_of(budget_policy({"budget": carrying | {"order": ["b", "a"]}})) == ""


@pytest.mark.parametrize(("text", "key"), [*WRONG, *BEYOND])
def test_mistakes_are_refused(text: str, key: str) -> None:
    """With the place, before anything is stored."""
    said = said_of(budget_policy(as_json(text)))
    if text in (*UNKNOWN, *MAPPINGS_FOR_LISTS):
        assert 'unknown field "spec.policy.' in said
    else:
        assert "is invalid" in said
    assert key in said


def test_what_yaml_makes_of_on() -> None:
    """kubectl hands the key `on` over as `true`, and both are taken."""
    text = yaml.safe_dump(budget_policy({"fallback": {"retries": {"PLACE": [503]}}})).replace("PLACE", "on")
    done = kubectl("create", "--dry-run=server", "--output", "json", "--filename", "-", given=text)
    assert json.loads(done)["spec"]["policy"] == {"fallback": {"retries": {"true": [503]}}}


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"app.kubernetes.io/name": "a", "b": ""}},
        {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "c", "operator": "Exists"},
            ]
        },
    ],
)
def test_selectors(selector: Any) -> None:
    """What selects pods elsewhere selects them here."""
    assert said_of(budget_policy({}, selector=selector)) == ""


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"a": "b c"}},
        {"matchLabels": ["a"]},
        {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchLabel": {"a": "b"}},
    ],
)
def test_wrong_selectors(selector: Any) -> None:
    """What selects nothing, or not what was meant."""
    assert "spec.selector" in said_of(budget_policy({}, selector=selector))


def test_a_name_that_makes_no_key() -> None:
    """The longest that does is taken."""
    assert said_of(budget_policy({}, "n" * LONGEST_NAME)) == ""
    assert "write a shorter one" in said_of(budget_policy({}, "n" * (LONGEST_NAME + 1)))


def test_a_policy_is_needed() -> None:
    """An empty one is the built-in policy; none is a mistake."""
    assert said_of(budget_policy({})) == ""
    nothing = budget_policy({})
    del nothing["spec"]["policy"]
    assert "spec.policy" in said_of(nothing)


def test_every_key_is_explained() -> None:
    """`kubectl explain` knows what docs/policy.md says."""
    said = kubectl("explain", "budgetpolicies.spec.policy.routes.retries", f"--api-version={GROUP}/v1alpha1")
    assert "How often the sidecar tries one call again. Default: `2`." in " ".join(said.split())
