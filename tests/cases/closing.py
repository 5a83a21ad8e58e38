"""A sidecar that closes streams, before a service that says so much of one and then nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.degrade.sdk.served import Shelf
from tests.degrade.transcript import MARK, Transcript
from tests.support.callers import Answer, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

CAP_MS = 1500
CLOSED = "[response truncated]"
RULES: dict[str, Any] = {"effect": "read", "cap": f"{CAP_MS}ms", "on_cut": "truncate"}
LADDER = [
    {"name": "full", "needs": "1400ms"},
    {"name": "fast", "needs": "100ms", "set": {"json": {"$.model": "small"}}},
]


def routes(upstream: str) -> list[dict[str, Any]]:
    """A route for each way of closing."""
    own: dict[str, dict[str, Any]] = {
        "plain": {},
        "marked": {"truncate_mark": MARK},
        "early": {"cap": "4s", "truncate_margin": "2s"},
        "laddered": {"ladder": LADDER, "stage": "llm"},
        "kept": {"cache": {"first": True, "ttl": "1h"}},
        "broken": {"on_cut": "error"},
    }
    led = [
        {"name": name, "prefix": f"/{name}", "upstream": upstream} | RULES | more
        for name, more in own.items()
    ]
    return [*led, {"name": "proxied", "match": {"host": "127.0.0.1"}} | RULES]


class Place(NamedTuple):
    """A sidecar, and what it leads to."""

    sidecar: Sidecar
    upstream: Upstream
    shelf: Shelf

    def ask(
        self,
        transcript: Transcript,
        passed: int,
        last: bytes = b"",
        *,
        route: str = "plain",
        then: Any = "stall",
        **more: Any,
    ) -> Answer:
        """Ask for a stream that stalls when so much has passed."""
        name = self.shelf.put(transcript, passed, last, then=then)
        return self.get(f"/{route}/{name}{transcript.path}", **more)

    def get(self, path: str, **headers: Any) -> Answer:
        """Ask for whatever the upstream does."""
        stated = {name.replace("_", "-"): value for name, value in headers.items()}
        return call(self.sidecar, "POST", path, headers=stated, body=b'{"model": "large"}')


@contextmanager
def standing_place() -> Iterator[Place]:
    """One, until the block is left."""
    shelf = Shelf()
    with Upstream(shelf.behave) as upstream, Sidecar({"routes": routes(upstream.url(""))}) as sidecar:
        yield Place(sidecar, upstream, shelf)


def trailers(answer: Answer) -> dict[str, str]:
    """What stands behind the body."""
    return dict(answer.trailers)
