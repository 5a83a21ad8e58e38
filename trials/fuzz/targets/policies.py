"""BudgetPolicies: any spec becomes a text that sidecars read, or faults that its author sees; nothing stops the controller."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from proxy.config import ConfigError, parse
from proxy.kube.names import POLICY_FILE
from proxy.kube.policies.budget_policy import BudgetPolicy, is_intact, read_budget_policy
from proxy.kube.policies.compiled import compile_policies
from trials.fuzz.target import Seen, Target, gist, hold

_CHART: Final = "budget: {total: 5m}\n"


def check(data: bytes) -> Seen:
    """Read the JSON as the spec of an object that the API server has let in."""
    try:
        spec = json.loads(data, parse_constant=lambda text: text)
    except (ValueError, RecursionError):
        return {"no JSON"}
    if not isinstance(spec, dict):
        # The schema of the resource has this be an object.
        return {"no object"}
    try:
        json.dumps(spec, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no bytes, so that no API server has it.
        return {"no text"}
    policy = read_budget_policy({"metadata": {"name": "p", "uid": "u", "generation": 3}, "spec": spec})
    hold(is_intact(policy.text, "p"), "a-text-is-known-again", policy.text)
    hold(all(fault.strip() for fault in policy.faults), "a-fault-says-something", policy.faults)
    _means_the_same(policy, spec)
    compiled = compile_policies(_CHART, [policy], {policy.key: policy.text})
    hold(
        POLICY_FILE in compiled.data and len(compiled.verdicts) == 1, "each-has-a-verdict", compiled.verdicts
    )
    for text in compiled.data.values():
        text.encode()
    use = compiled.verdicts[0].use
    hold((use.value == "invalid") is bool(policy.faults), "faults-decide", use, policy.faults)
    words = {gist(fault) for fault in policy.faults[:4]}
    return {f"{use.value}, selector {policy.selector is not None}", *words}


def _means_the_same(policy: BudgetPolicy, spec: dict[str, Any]) -> None:
    """The text says in YAML what the spec says in JSON, and is what sidecars read where there is no fault."""
    try:
        parse(policy.text, has_files=False)
        good = True
    except ConfigError:
        good = False
    hold(good or policy.faults, "what-is-used-can-be-read", policy.text)
    if good:
        hold(
            _plain(yaml.safe_load(policy.text)) == _plain(spec.get("policy")),
            "the-text-says-the-same",
            policy.text,
        )


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


TARGET: Final = Target(
    "policies",
    "BudgetPolicies: any spec becomes a text that means the same and can be read, or faults; nothing raises",
    check,
    tokens=(
        b'{"policy":{"budget":{"total":"10s"}}}',
        b'"selector":{"matchLabels":{"a":"b"}}',
        b'"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]',
        b'"routes":[{"name":"a","match":{"host":"a"}}]',
        b'"on"',
        b'"1e3"',
        b'"0o7"',
        b'"2026-11-30"',
        b'"null"',
        b'"~"',
        b'"="',
        b'"<<"',
        b'"\\u0085"',
        b'"\\u2028"',
        b'"\\ud800"',
        b'"\\u0000"',
        b'"\\ufeff"',
        b'" a"',
        b'"a: b"',
        b'"- a"',
        b'"#a"',
        b"null",
        b"1e400",
        b"1.0",
        b"-0",
        b"{}",
        b"[]",
        b"true",
    ),
)
