"""Requests and answers as the tests of the cache make them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from proxy.core.degrading import CacheUse, RouteCache
from proxy.core.json_path import parse
from proxy.core.policy import Route
from proxy.core.units import SECOND
from proxy.degrade.cache.asked import Asked, asked
from proxy.degrade.cache.entry import Entry
from proxy.wire.events import Framing, ResponseHead

URL = "https://api.example.com/v1/chat/completions"
TEXT = "$.messages[-1].content"
SEMANTIC = CacheUse(semantic=0.92, text=parse(TEXT))


def header(**fields: str) -> dict[bytes, bytes]:
    """A request's fields by lower-case name; `_` stands for a hyphen."""
    return {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}


def chat(text: Any, **more: Any) -> bytes:
    """The body of a chat whose last message is `text`."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return json.dumps({"model": "large", "messages": messages} | more).encode()


def question(
    body: bytes = b"",
    fields: Mapping[bytes, bytes] | None = None,
    *,
    method: str = "POST",
    url: str = URL,
    route: str = "chat",
    use: CacheUse | None = None,
    **rules: Any,
) -> Asked | None:
    """What the cache knows such a request by. `rules`: those of the route's cache."""
    return asked(Route(route, cache=RouteCache(**rules)), method, url, fields or {}, body, use)


def known(*args: Any, **kwargs: Any) -> Asked:
    """The same, of a request that the cache may answer."""
    found = question(*args, **kwargs)
    assert found is not None
    return found


def answer(status: int = 200, *fields: tuple[str, str]) -> ResponseHead:
    """The head of a response."""
    lines = [(name.lower().encode(), name.encode(), value.encode("latin-1")) for name, value in fields]
    index: dict[bytes, bytes] = {}
    for lower, _, value in lines:
        index[lower] = index[lower] + b", " + value if lower in index else value
    options = frozenset(
        option.strip().lower() for option in index.get(b"connection", b"").split(b",") if option.strip()
    )
    return ResponseHead(status, "", 1, lines, index, Framing.LENGTH, 0, options, True)


def kept(body: bytes = b"{}", **more: Any) -> Entry:
    """An entry, fresh for a minute."""
    values: dict[str, Any] = {
        "status": 200,
        "fields": ((b"Content-Type", b"application/json"),),
        "body": body,
        "age": 0,
        "fresh": 60 * SECOND,
        "stale": 0,
        "kept": 60 * SECOND,
    }
    return Entry(**(values | more))
