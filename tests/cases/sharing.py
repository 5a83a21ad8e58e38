"""Sidecars that share answers through a real Redis, before a service that counts how often it is asked."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.degrade.cache.stores import Server, redis_server
from tests.support.behaviours import answer
from tests.support.callers import Answer, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

_FAILURES = 'waterclock_cache_failures_total{part="store"}'
_KEYS = "waterclock:cache:1:*"
BUDGET_MS = 5000
BODY = b'{"said": "' + b"tea " * 50 + b'"}'
JSON = ("Content-Type", "application/json")
LADDER = [
    {"name": "full", "needs": "1500ms"},
    {"name": "cached", "needs": "10ms", "cache": {"exact": True}},
    {"name": "sorry", "answer": {"status": 503, "text": "sorry"}},
]
_numbers = itertools.count(1)


def policy(upstream: str, store: str | None, timeout: str = "2s") -> dict[str, Any]:
    """Routes that look into the cache first, share what they find, or have a rung for it."""
    reads = {"upstream": upstream, "effect": "read", "cap": f"{BUDGET_MS}ms"}
    first = {"first": True, "ttl": "10m"}
    routes = [
        {"name": "chat", "prefix": "/chat", "cache": first} | reads,
        {"name": "common", "prefix": "/common", "cache": first | {"share": True}} | reads,
        {"name": "less", "prefix": "/less", "ladder": LADDER} | reads,
    ]
    cache = {"entry_bytes": "64KiB", "timeout": timeout} | ({"store": store} if store else {})
    return {"routes": routes, "cache": cache}


class Pod(NamedTuple):
    """One sidecar, and the service that it leads to."""

    sidecar: Sidecar
    service: Upstream

    def ask(self, path: str, body: bytes = b"{}", *, key: str = "Bearer alice", **more: Any) -> Answer:
        """Ask what one of the routes leads to."""
        stated = {name.replace("_", "-"): value for name, value in more.items()}
        headers = {"Authorization": key, "Content-Type": "application/json"} | stated
        return call(self.sidecar, "POST", path, headers=headers, body=body)

    def failures(self) -> float:
        """How often the store has failed this sidecar."""
        return self.sidecar.samples().get(_FAILURES, 0.0)

    def asked(self) -> int:
        """How often the service was asked, by anybody."""
        return len(self.service.requests)


class Pods(NamedTuple):
    """Two sidecars, the store between them, and the one service behind both."""

    one: Pod
    other: Pod
    store: Server

    def kept(self) -> set[bytes]:
        """What stands in the store."""
        with self.store.client() as client:
            return set(client.keys(_KEYS))

    def keep(self, path: str, body: bytes = b"{}", **more: Any) -> bytes:
        """Let one of them ask, and return the name of what stands in the store then."""
        before = self.kept()
        asked = self.one.asked()
        assert self.one.ask(path, body, **more).body == BODY
        assert self.one.asked() == asked + 1
        (name,) = eventually(lambda: self.kept() - before, what="an entry in the store")
        return name


def question() -> bytes:
    """What nobody has asked yet."""
    return json.dumps({"q": next(_numbers)}).encode()


@contextlib.contextmanager
def pods(folder: Path, timeout: str = "2s") -> Iterator[Pods]:
    """Two of them, at a store of their own."""
    serves = answer(BODY, headers=[JSON, ("Age", "7")])
    with redis_server(folder) as store, Upstream(serves) as service:
        document = policy(service.url(""), store.url, timeout)
        with Sidecar(document) as one, Sidecar(document) as other:
            yield Pods(Pod(one, service), Pod(other, service), store)
