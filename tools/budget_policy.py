"""What is made of the policy's tables and of docs/policy.md: the chart's CustomResourceDefinition, its policy's schema.

`python -m tools.budget_policy` writes the first; `tools/charts.py` writes both, among the rest of the chart.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from proxy.kube.policies.crd import custom_resource_definition
from proxy.kube.policies.schema import policy_schema

ROOT: Final = Path(__file__).parent.parent
DEFINITION: Final = ROOT / "charts/waterclock/files/budgetpolicy.yaml"
_REFERENCE: Final = ROOT / "docs/policy.md"
_HEAD: Final = "# Made of proxy/config and docs/policy.md by `make charts`.\n"

# The page describes keys; these are the groups of them.
_GROUPS: Final = {
    "": "The configuration, complete as it stands: keys that are not given have their built-in values.",
    "listen": "Where the sidecar listens. In pods this is fixed, and what stands here means nothing.",
    "listen.inbound": "The inbound side. In pods the annotation waterclock.dev/inbound-port says it.",
    "budget": "What holds for budgets that do not say otherwise.",
    "ledger": "How long, and how much, is known of budgets.",
    "routes": "Which calls are treated how. The first route that matches decides.",
    "routes[].match": "The calls that this route is for. All that is given must match.",
    "routes[].protocol": "What only reads, of a service that speaks JSON-RPC or MCP.",
    "routes[].idempotency": "The key that a write carries, and what the other side makes of it.",
    "routes[].queue": "Calls that wait for their turn.",
    "routes[].retries": "What the sidecar tries again by itself; without it, nothing.",
    "routes[].retries.backoff": "How long it waits before.",
    "routes[].retries.budget": "How many retries there may be, however many calls fail.",
    "routes[].verify": "A read that tells whether a write in doubt has happened.",
    "routes[].verify.applied": "What says that it has.",
    "routes[].ladder": "What to do with less time: rungs, the best first. The highest is taken whose needs fit what is left.",
    "routes[].ladder[].set": "What this rung changes of the request.",
    "routes[].ladder[].cache": "This rung answers from the cache.",
    "routes[].ladder[].answer": "This rung answers by itself.",
    "routes[].cache": "What the cache keeps of these answers, for whom, and for how long.",
    "fallback": "How calls are treated that no route matches.",
    "tunnel": "Opaque connections.",
    "egress": "Where no call may lead.",
    "subscription": "Standing streams without a budget.",
    "connections": "Connections to other sides.",
    "writes": "How writes are held, guarded and listened for.",
    "writes.hold_back": "How long, and how much of, the answer to a write is held back.",
    "journal": "The journal of writes. In pods its path is fixed.",
    "cache": "Where answers are kept, for the rungs and routes that ask for them.",
    "answers": "The status of each answer that the sidecar gives itself.",
    "pods": "What a pod may ask for by its annotations.",
    "shutdown": "How the sidecar stops.",
}


def meanings() -> dict[str, str]:
    """Return what each key of a policy means, as docs/policy.md has it, with its default."""
    rows = re.findall(
        r"^\| `([a-z_.\[\]]+)` \| (\S.*?) \| \S.*? \| (.*?) \|$", _REFERENCE.read_text(), re.MULTILINE
    )
    return _GROUPS | {
        key: _sentence(meaning) + ("" if default == "–" else f" Default: {default}.")
        for key, default, meaning in rows
    }


def _sentence(meaning: str) -> str:
    text = meaning[0].upper() + meaning[1:]
    return text if text.endswith(".") else f"{text}."


def values_schema() -> dict[str, Any]:
    """Return the schema of `policy` in the chart's values."""
    return policy_schema(strict=True, meanings=meanings())


def definition() -> str:
    """Return the text of the chart's file: the `spec` of the CustomResourceDefinition."""
    spec = custom_resource_definition(meanings())["spec"]
    return _HEAD + yaml.dump(spec, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


class _Plain(yaml.SafeDumper):
    """Writes everything out where it stands."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main() -> None:
    """Write the definition."""
    DEFINITION.write_text(definition())


if __name__ == "__main__":
    main()
