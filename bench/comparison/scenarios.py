"""What the proxies are loaded with, one line each.

A scenario is one kind of request, how many connections it comes over, and whether they are kept. `full` and `short` say
how many rounds of how many seconds it is worth in the long form and in the short one; without `short` it has no
part in that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.upstream import LARGE, SMALL


@dataclass(frozen=True)
class Rounds:
    count: int
    seconds: int


@dataclass(frozen=True)
class Scenario:
    """`body_bytes`: of the JSON body, each one different; without it there is none. `keep`: connections are kept, where
    a new one is made for each request otherwise. `tls`: the proxy speaks TLS to the upstream, the client does not.
    `patience`: seconds after which an answer counts as none.
    """

    key: str
    title: str
    full: Rounds
    short: Rounds | None = None
    method: str = "GET"
    path: str = "/small"
    answer_bytes: int = len(SMALL)
    body_bytes: int = 0
    connections: int = 16
    keep: bool = True
    tls: bool = False
    patience: int = 5

    @property
    def what(self) -> str:
        """The title, with how it is sent."""
        kept = "" if self.keep else ", a new one for each request"
        return f"{self.title}, {self.connections:,} connections{kept}"


_THRICE: Final = Rounds(3, 1)

SMALL_GET: Final = Scenario("get", "GET, 100-byte answer", Rounds(5, 3), Rounds(2, 1))
SCENARIOS: Final = (
    SMALL_GET,
    Scenario("large", "GET, 64 KiB answer", _THRICE, path="/large", answer_bytes=LARGE),
    Scenario("post", "POST, 200-byte body", _THRICE, method="POST", path="/orders", body_bytes=200),
    Scenario("post-8k", "POST, 8 KiB body", _THRICE, method="POST", path="/orders", body_bytes=8 * 1024),
    Scenario("close", "GET, 100-byte answer", _THRICE, keep=False),
    Scenario("tls", "GET, 100-byte answer, TLS to the upstream", _THRICE, tls=True),
    Scenario("wide", "GET, 100-byte answer", Rounds(3, 2), connections=1_000),
)
