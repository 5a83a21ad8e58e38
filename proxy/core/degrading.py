"""What a route may do with less time, as frozen values: its rungs, its cache, and what is said of an answer that is less.

A ladder's rungs stand in order, the best first. The first is what the call asks for; every rung below it is less, and an
answer that comes from there says so (`Degraded`). Spans are nanoseconds, sizes bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from proxy.core.json_path import JsonPath
from proxy.core.units import MILLISECOND, SECOND
from proxy.core.upstream import Upstream

_TOKEN: Final = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*\Z")  # RFC 9651 §3.3.4
_MEBIBYTE: Final = 1024 * 1024


class Why(StrEnum):
    """Why an answer is less than asked.

    `time`: the better rungs need more than was left. `failed`, `slow`: a better one was tried, and failed, or did not answer
    while a lower one still fitted. `busy`: admission had no place. `body`: the request could not be changed as a better rung
    says. `missed`: a better rung is the cache, and had nothing. `truncated`: a stream was closed before its end.
    `delegated`: the answer of another job, which says so itself.
    """

    TIME = "time"
    FAILED = "failed"
    SLOW = "slow"
    BUSY = "busy"
    BODY = "body"
    MISSED = "missed"
    TRUNCATED = "truncated"
    DELEGATED = "delegated"


class Degraded(NamedTuple):
    """By how much, and why, an answer is less than asked. `level`: how many rungs below the first, and never less than 1."""

    level: int
    rung: str
    why: str
    stage: str | None = None

    def field(self) -> str:
        """Return the value of `Budget-Degraded`: `level=2; rung=minimal; stage=llm; reason=time`."""
        stage = f"; stage={_value(self.stage)}" if self.stage is not None else ""
        return f"level={self.level}; rung={_value(self.rung)}{stage}; reason={_value(self.why)}"


def _value(text: str) -> str:
    """Return a name as a token, or as a string where it is none (RFC 9651 §3.3.3; names hold no quotes)."""
    return text if _TOKEN.match(text) else f'"{text}"'


@dataclass(frozen=True, slots=True)
class Change:
    """What a rung changes of the request. `json`: places in the body, and the JSON text that each becomes.

    The last name of a place may be new; all that leads to it must be there. `headers` and `query` replace what the request
    has under these names, and add what it has not. Header names are in lower case.
    """

    json: tuple[tuple[JsonPath, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How a rung answers from the cache: the same request, or one whose text, at `text`, means the same.

    `semantic`: the least cosine similarity, 0 to 1; None: only the same request.
    """

    exact: bool = True
    semantic: float | None = None
    text: JsonPath | None = None


@dataclass(frozen=True, slots=True)
class FixedAnswer:
    """A whole answer that stands in the policy. `headers`: names in lower case."""

    status: int = 200
    content_type: str = "application/json"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung of a ladder. At most one of `cache` and `answer` is given; with neither, the call goes to an upstream.

    `needs`: what must be left for it to be taken; None: its measured p95 and a margin (`needs: auto`). `credentials`: what
    the caller has sent to prove who it is goes to this rung's own `upstream` too; else it is left out there.
    """

    name: str
    needs: int | None = 0
    change: Change | None = None
    upstream: Upstream | None = None
    credentials: bool = False
    cache: CacheUse | None = None
    answer: FixedAnswer | None = None

    @property
    def local(self) -> bool:
        """Whether it asks no upstream, and takes no slot."""
        return self.cache is not None or self.answer is not None


@dataclass(frozen=True, slots=True)
class RouteCache:
    """What the cache keeps of a route's answers, for whom, and for how long.

    `ttl`: for answers that say nothing about it themselves. `first`: a fresh answer is given before anything else is tried;
    else only a rung asks the cache. `share`: the caller's credentials are no part of the key. `headers`: names of request
    headers, in lower case, that are. `ignore`: places of the body that are not. `stale_if_error`: how long past its
    freshness an answer may still serve where nothing better is to be had.
    """

    ttl: int = 3600 * SECOND
    first: bool = False
    share: bool = False
    headers: tuple[str, ...] = ()
    ignore: tuple[JsonPath, ...] = ()
    stale_if_error: int = 0


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Where answers are kept: in memory up to `bytes`, each up to `entry_bytes`.

    `store`: a Valkey or Redis that pods share, as its URL. `service`: where `waterclock cache` answers, for `semantic`.
    `timeout`: how long a question to either may take.
    """

    bytes: int = 32 * _MEBIBYTE
    entry_bytes: int = _MEBIBYTE
    store: str | None = None
    service: Upstream | None = None
    timeout: int = 50 * MILLISECOND


BUILT_IN_CACHE: Final = CachePolicy()
