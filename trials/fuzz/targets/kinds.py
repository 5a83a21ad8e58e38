"""Whether a body only asks: GraphQL, JSON-RPC, MCP. What is taken for a read is one by any reading of the same bytes.

The first line of an input is the path, the rest is the body.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from proxy.core import exact_json, graphql
from proxy.core.calls import Kind
from proxy.core.fingerprint import canonical, fingerprint
from proxy.core.kinds import early_kind, late_kind
from proxy.core.policy import Route
from proxy.core.target import Origin
from proxy.core.target import Target as Aim
from trials.fuzz.target import Seen, Target, hold

_ROUTE: Final = Route(name="any")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READS: Final = frozenset(
    {"initialize", "ping", "tools/list", "resources/list", "resources/read", "prompts/get"}
)


def check(data: bytes) -> Seen:
    """Find the kind of a POST with this body."""
    first, _, body = data.partition(b"\n")
    path = "/" + "".join(chr(octet) for octet in first if 0x20 < octet < 0x7F).lstrip("/")
    target = Aim(Origin("http", "tool", 80), "tool", path)
    early = early_kind(_ROUTE, "POST", target)
    kind = late_kind(_ROUTE, target, body)
    hold(kind in (Kind.READ, Kind.WRITE), "a-read-or-a-write", kind)
    if kind is Kind.READ:
        _is_read(path, body)
    asks = False
    for text in _documents(body):
        asks = graphql.only_asks(text)
        hold(not asks or set(_begun(text)) <= {"query", "fragment", "{"}, "nothing-but-queries", text)
    hold(canonical(canonical(body)) == canonical(body), "one-text-for-all", body)
    hold(
        fingerprint("POST", path, body) == fingerprint("POST", path, canonical(body)),
        "one-fingerprint-for-all",
        body,
    )
    return {
        f"{early.value}, {kind.value}",
        f"graphql asks {asks}",
        f"canonical {canonical(body) != body}",
        _shape(body),
    }


def _is_read(path: str, body: bytes) -> None:
    """Judge by another reading: the last of two equal names, as most programs take it, and the first."""
    for hook in (dict, lambda members: dict(reversed(members))):
        value = json.loads(body, object_pairs_hook=hook)
        if path.partition("?")[0].rstrip("/").endswith("graphql"):
            hold(isinstance(value, dict) and isinstance(value.get("query"), str), "a-query-is-there", body)
            continue
        for message in value if isinstance(value, list) else [value]:
            method = message.get("method") if isinstance(message, dict) else "?"
            known = (
                method in _READS or method is None or str(method).startswith(("notifications/", "resources/"))
            )
            hold(known or method in ("prompts/list", "completion/complete"), "a-method-that-reads", method)


def _documents(body: bytes) -> list[str]:
    """Give the body as a document, and the query in it."""
    documents = [body.decode("utf-8", "replace")]
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return documents
    query = value.get("query") if isinstance(value, dict) else None
    return [*documents, query] if isinstance(query, str) else documents


def _begun(text: str) -> list[str]:
    """Give what begins each definition of a document, read character by character."""
    begun: list[str] = []
    depth, at, inside = 0, 0, False
    while at < len(text):
        end = _skipped(text, at)
        if end > at:
            at = end
            continue
        if text[at] in "([{":
            begun += [] if inside else [text[at]]
            depth, inside = depth + 1, True
        elif text[at] in ")]}":
            depth -= 1
            inside = inside and not (depth == 0 and text[at] == "}")
        elif not inside and (word := _WORD.match(text, at)) is not None:
            begun.append(word[0])
            inside, at = True, word.end() - 1
        at += 1
    return begun


def _skipped(text: str, at: int) -> int:
    """Give the end of the string or comment that begins here; `at` where there is none."""
    if text.startswith('"""', at):
        end = at + 3
        while end < len(text) and not text.startswith('"""', end):
            end += 4 if text.startswith('\\"""', end) else 1
        return end + 3
    if text[at] == '"':
        end = at + 1
        while end < len(text) and text[end] != '"':
            end += 2 if text[end] == "\\" else 1
        return end + 1
    end = at
    while text[at] == "#" and end < len(text) and text[end] not in "\r\n":
        end += 1
    return end


def _shape(body: bytes) -> str:
    try:
        value: Any = exact_json.load(body)
    except ValueError as error:
        return f"no JSON: {str(error).split(':')[0][:40]}"
    return f"JSON {type(value).__name__}"


TARGET: Final = Target(
    "kinds",
    "whether a body only asks (GraphQL, JSON-RPC, MCP): a read is one by any reading; one fingerprint for all spellings",
    check,
    tokens=(
        b"/graphql\n",
        b"/mcp\n",
        b'{"query":"{a}"}',
        b'{"query":"query Q { a }"}',
        b'{"query":"mutation { a }"}',
        b"mutation",
        b"subscription",
        b"query",
        b"fragment F on T",
        b"{",
        b"}",
        b"(",
        b")",
        b'"""',
        b'\\"""',
        b'\\"',
        b"#",
        b"\\n",
        b"\\u007b",
        b"\\u0000",
        b'"jsonrpc":"2.0"',
        b'"method":"tools/list"',
        b'"method":"tools/call"',
        b'"params":{"name":"x"}',
        b'"result":1',
        b'"\\u006dethod":"x"',
        b"[",
        b"]",
        b",",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"1e999",
        b"-0",
        b"NaN",
        b"0.10000000000000001",
        b"\xc2\xa0",
    ),
)
