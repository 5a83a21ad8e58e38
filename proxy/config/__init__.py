"""The configuration reader: from the text of `waterclock.yaml` to a `core.policy.Policy`, or to every fault in it.

`document` makes one bounded tree of YAML nodes. `schema` holds the tables, one for each section: a key, what reads
it, the attribute it becomes; `ladder` holds those of what may be answered with less. `reading` is what makes a table read;
`scalars`, `globs`, `network` and `fields` read single values, `json_values` what is JSON, `stages` and `attempts` what is
said of shares, retries and the reads that verify; `shape` is what they look like from outside. `contradictions` looks at the
whole when it has been read, `route_contradictions` at each route, and `degrading_contradictions` and `ladder_contradictions`
at what it says of answers that are less; `orders` is what they compare amounts with. `faults` says what is wrong, with line
and remedy, and `remarks` what is only surprising.

A new key is a row in `schema`, a field in `core.policy` and a row in `docs/policy.md`.
"""

from __future__ import annotations

import hashlib
import os

from proxy.config.contradictions import find_contradictions
from proxy.config.document import compose, read
from proxy.config.faults import ConfigError, Fault
from proxy.config.reading import Report, Value
from proxy.config.schema import POLICY
from proxy.core.policy import Policy

__all__ = ["ConfigError", "Fault", "digest", "load", "parse", "read"]


def parse(
    text: str, source: str = "waterclock.yaml", *, has_lines: bool = True, has_files: bool = True
) -> Policy:
    """Return the policy that a YAML text states; an empty one is the built-in policy.

    `source` is the name of the text in faults. Files that the text names (`ca`) are looked at, relative to the
    working directory, unless `has_files` is False: they are then on another machine. `has_lines` False: the text was
    made from something else, and faults leave its lines out. Raises ConfigError with every fault at once.
    """
    root = compose(text, source)
    if root is None:
        return Policy()
    report = Report(source, has_lines=has_lines, has_files=has_files)
    policy: Policy = POLICY(Value(root, "", root.start_mark.line + 1, report))
    find_contradictions(policy, report)
    if report.faults:
        raise ConfigError(report.faults)
    return policy


def load(path: str | os.PathLike[str]) -> Policy:
    """Return the policy in a file (UTF-8, of 1 MiB at most). Raises ConfigError, also when it cannot be read."""
    return parse(read(path), os.fspath(path))


def digest(policy_text: str) -> str:
    """Return 12 hex digits that tell one policy's text from another's, for logs and metrics."""
    return hashlib.sha256(policy_text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
