"""One BudgetPolicy: what it says, as the text that sidecars read, and all that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from proxy.config import ConfigError, digest, parse
from proxy.config.json_values import is_text
from proxy.kube.cluster import Object
from proxy.kube.names import POLICY_FILE, policy_key
from proxy.kube.policies.crd import LONGEST_NAME
from proxy.kube.policies.selectors import selector_faults

_HEAD: Final = (
    "# Made from BudgetPolicy {name}, generation {generation}. Edit that: this is kept as it is. ({digest})\n"
)
_MADE_FROM: Final = re.compile(r"# Made from BudgetPolicy (\S+), [^(\n]*\(([0-9a-f]{12})\)\n")
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Sure(_DUMPER):  # type: ignore[misc, valid-type]
    """Puts quotes around each text that some reader of YAML would take for something else."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_text(text) else '"')


_Sure.add_representer(str, _text)
_WIDTH: Final = 110


@dataclass(frozen=True, slots=True)
class BudgetPolicy:
    """A BudgetPolicy as it was read. `selector` None: it is for all pods of the namespace that have no other.

    `text`: its policy as YAML, whatever it is worth. `faults`: a sentence each, with the place and the remedy; with none it
    can be used. `created` is RFC 3339, so that it sorts by time.
    """

    name: str
    uid: str
    generation: int
    created: str
    selector: Mapping[str, Any] | None
    text: str
    faults: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key of the ConfigMap that its text belongs under."""
        return POLICY_FILE if self.selector is None else policy_key(self.name)

    @property
    def age(self) -> tuple[str, str]:
        """What BudgetPolicies are put in order by: the oldest first, and of two equally old ones the first by name."""
        return self.created, self.name


def read_budget_policy(item: Object) -> BudgetPolicy:
    """Read an object as the API server has it. It takes as long as its policy is large: a second for a thousand routes."""
    metadata = item["metadata"]
    spec = item.get("spec") or {}
    name, generation = metadata["name"], metadata.get("generation", 0)
    body = yaml.dump(spec.get("policy"), Dumper=_Sure, sort_keys=False, allow_unicode=True, width=_WIDTH)
    text = _HEAD.format(name=name, generation=generation, digest=digest(body)) + body
    selector = spec.get("selector")
    faults = [] if selector is None else selector_faults(selector, "spec.selector")
    if len(name) > LONGEST_NAME:
        faults.append(f"metadata.name: has more than {LONGEST_NAME} characters; write a shorter one")
    return BudgetPolicy(
        name,
        metadata["uid"],
        generation,
        metadata.get("creationTimestamp", ""),
        selector,
        text,
        (*faults, *_policy_faults(text)),
    )


def _policy_faults(text: str) -> tuple[str, ...]:
    try:
        parse(text, has_lines=False, has_files=False)
    except ConfigError as error:
        return tuple(
            f"spec.policy{f'.{fault.key}' if fault.key else ''}: {fault.problem}; {fault.remedy}"
            for fault in error.faults
        )
    return ()


def is_intact(text: str, name: str) -> bool:
    """Say whether a text was made from the BudgetPolicy of this name, and nobody has changed it since."""
    made = _MADE_FROM.match(text)
    return made is not None and made[1] == name and made[2] == digest(text[made.end() :])
