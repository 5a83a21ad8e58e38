"""The policy: YAML becomes a policy that can be shown, or faults with a place and a remedy; nothing else, and soon."""

from __future__ import annotations

import json
import re
from typing import Final

from proxy.admin.views import policy_view
from proxy.config import ConfigError, digest, parse
from proxy.config.remarks import remarks
from proxy.core.policy import Policy
from proxy.core.routing import Router
from trials.fuzz.target import Seen, Target, gist, hold

_SOURCE: Final = "waterclock.yaml"
_KEYS: Final = frozenset(re.findall(r"[a-z_]+", json.dumps(policy_view(Policy()))))


def check(data: bytes) -> Seen:
    """Read the text, and use what comes of it."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        policy = parse(text, _SOURCE, has_files=False)
    except ConfigError as error:
        return _faults(error, text)
    return _used(policy, text)


def _faults(error: ConfigError, text: str) -> set[str]:
    hold(error.faults, "an-error-has-faults")
    last = (
        text.count("\n")
        + text.count("\r")
        + text.count("\x85")
        + text.count("\u2028")
        + text.count("\u2029")
        + 1
    )
    for fault in error.faults:
        hold(fault.problem and fault.remedy, "a-fault-has-a-remedy", str(fault))
        hold(fault.line is not None and 1 <= fault.line <= last, "a-fault-has-a-line", str(fault), last)
        hold(str(fault).isprintable(), "a-fault-can-be-shown", str(fault))
    return {_shape(fault.key, fault.problem) for fault in error.faults[:4]}


def _shape(key: str, problem: str) -> str:
    last = key.rpartition(".")[2].partition("[")[0]
    return f"{last if last in _KEYS else '?'}: {gist(problem)}"


def _used(policy: Policy, text: str) -> set[str]:
    said = list(remarks(policy))
    hold(all(each.strip() for each in said), "a-remark-says-something", said)
    shown = json.dumps(policy_view(policy))
    json.loads(shown)
    Router(policy)
    hold(parse(text, _SOURCE, has_files=False) == policy, "the-same-text-is-the-same-policy")
    hold(len(digest(text)) == 12, "a-digest-has-12-digits")
    return {f"a policy, routes {min(len(policy.routes), 3)}, remarks {min(len(said), 3)}"}


TARGET: Final = Target(
    "config",
    "the policy: YAML becomes a policy, or faults with line and remedy, and nothing else; bounded in time and memory",
    check,
    tokens=(
        b"budget:\n",
        b"routes:\n",
        b"  - name: a\n",
        b"match: {host: a}\n",
        b"  total: 10s\n",
        b"10s",
        b"1h",
        b"-1s",
        b"0",
        b"1e3s",
        b"99999999999999999999h",
        b"50%",
        b"null",
        b"~",
        b"true",
        b"!!python/object:x {}",
        b"!!binary aGk=",
        b"!x ",
        b"&a ",
        b"*a",
        b"&a [*a, *a]",
        b"<<: *a",
        b"- " * 40,
        b"[" * 40,
        b"{a: " * 40,
        b"---\n",
        b"...\n",
        b"%YAML 1.1\n---\n",
        b"? a\n: b\n",
        b"|\n  text\n",
        b">-\n",
        b'"\\ud800"',
        b'"\\x00"',
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\t",
        b"#",
        b": ",
        b"http://user:pw@a:1/b?c#d",
        b"[::1]:80",
        b"10.0.0.0/8",
        b"*.example.com",
        b"$.a[0]",
        b"2026-11-30",
        b"0o17",
        b"1_000",
        b"0x10",
        b".inf",
        b".nan",
    ),
    largest=8192,
)
