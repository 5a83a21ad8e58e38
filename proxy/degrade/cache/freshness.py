"""Whether an answer may be kept, how long it is fresh, and whether a kept one may be given now: RFC 9111, without a clock.

Everything is reckoned in spans. How old an answer was when it came is what its `Age` says and what its exchange took;
how old it is now, that and the time it has been kept since. `Expires` is read against the answer's own `Date`. The time
of day of this machine is never compared with that of another (§4.2.3 would: `apparent_age`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from proxy.core.degrading import RouteCache
from proxy.core.units import SECOND
from proxy.degrade.cache.asked import Asked, digest_of
from proxy.degrade.cache.directives import MOST_SECONDS, directives, seconds
from proxy.degrade.cache.entry import (
    DIGEST_BYTES,
    KEPT_STATUSES,
    MOST_SPAN,
    MOST_VARIES,
    Entry,
    check,
    is_kept,
)
from proxy.degrade.cache.found import Found, How
from proxy.degrade.callers import tells_caller
from proxy.wire.events import ResponseHead
from proxy.wire.fields import dropped


def entry_of(
    rules: RouteCache,
    method: str,
    asked: Asked,
    head: ResponseHead,
    body: bytes,
    *,
    whole: bool,
    took: int,
) -> Entry | None:
    """Return what is kept of an answer; None when it may not be, or would be of no use to anybody (RFC 9111 §3).

    `whole`: all of it has arrived, it has not said itself that it failed or is less than asked, and a stream has come to
    its own end. `took`: from the sending of the request until now (nanoseconds).
    """
    said = directives(head.get(b"cache-control"))
    if not whole or head.status not in KEPT_STATUSES or _is_withheld(head, method, said, rules):
        return None
    varies = _varies(head.get(b"vary"), asked.header)
    if varies is None:
        return None
    age = min(_stated_age(head) * SECOND + max(took, 0), MOST_SPAN)
    fresh = min(_lifetime(rules, method, head, said), MOST_SPAN)
    stale = _stale_on_error(rules, said)
    kept = fresh - age + (0 if stale is None else max(stale, rules.stale_if_error))
    if kept <= 0:
        return None
    drop = dropped(head)
    entry = Entry(
        status=head.status,
        fields=tuple(
            (name, value)
            for lower, name, value in head.fields
            if lower not in drop and is_kept(lower) and not (rules.share and tells_caller(lower))
        ),
        body=body,
        age=age,
        fresh=fresh,
        stale=stale,
        kept=min(kept, MOST_SPAN),
        varies=varies,
    )
    try:
        check(entry)
    except ValueError:  # more, or longer, fields than an answer that is worth keeping has
        return None
    return entry


def usable(
    entry: Entry, held: int, asked: Asked, stale_for: int | None, *, semantic: bool = False
) -> Found | None:
    """Return a kept answer as it may be given now; None when it may not.

    `held`: how long it has been kept (nanoseconds). `stale_for`: None for a caller who can have a better one, and gets this
    only while it is fresh, and as fresh as the request wants it; else how long past its freshness it may serve, and the
    answer's own word where that is longer.
    """
    age = entry.age + held
    fresh = age < entry.fresh
    if not _same_variant(entry, asked.header):
        return None
    if stale_for is None:
        if not fresh or entry.fresh - age < asked.min_fresh:
            return None
        if asked.most_age is not None and age > asked.most_age:
            return None
    elif not fresh and (entry.stale is None or age - entry.fresh > max(entry.stale, stale_for)):
        return None
    return Found(entry, age, fresh, How.SEMANTIC if semantic else How.HIT if fresh else How.STALE)


# -- whether it is kept -----------------------------------------------------------------------------------------------


def _is_withheld(
    head: ResponseHead, method: str, said: Mapping[bytes, bytes | None], rules: RouteCache
) -> bool:
    """Say whether an answer is not to be given again, or to nobody else where it would be.

    `no-cache` is never given without asking the origin, and that is never done here. What answers no GET says nothing of its
    repetition by that: it stands on most event streams, and the route has said that they may be kept. An answer with its own
    `Budget-Degraded`, or to a job that is incomplete, is less than what somebody who asks again may get.
    """
    if (
        b"no-store" in said
        or (b"no-cache" in said and method == "GET")
        or (rules.share and b"private" in said)
    ):
        return True
    if b"content-range" in head.index or b"budget-degraded" in head.index:
        return True
    return says_less(head.index.get(b"budget-verdict", b""))


def says_less(verdict: bytes) -> bool:
    """Say whether a `Budget-Verdict` is that of a job which did less than it was asked for."""
    return verdict.startswith(b"incomplete") or b"degraded=" in verdict


def _varies(vary: bytes | None, header: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...] | None:
    """Return what the answer depends on; None for too much, or for what no request shows (`*`, RFC 9111 §4.1).

    A digest of each value is kept: a field that an answer varies by is often one that proves who is asking.
    """
    names = sorted({name.strip().lower() for name in (vary or b"").split(b",")} - {b""})
    if b"*" in names or len(names) > MOST_VARIES:
        return None
    return tuple((name, digest_of(header.get(name), DIGEST_BYTES)) for name in names)


def _same_variant(entry: Entry, header: Mapping[bytes, bytes]) -> bool:
    return all(digest_of(header.get(name), DIGEST_BYTES) == digest for name, digest in entry.varies)


# -- for how long -----------------------------------------------------------------------------------------------------


def _stated_age(head: ResponseHead) -> int:
    """Return the seconds of `Age`, the first where there are several; 0 for none that can be read (RFC 9111 §5.1)."""
    return seconds(head.index.get(b"age", b"0").partition(b",")[0].strip())


def _lifetime(rules: RouteCache, method: str, head: ResponseHead, said: Mapping[bytes, bytes | None]) -> int:
    """Return up to which age an answer is fresh (nanoseconds): the first of RFC 9111 §4.2.1 that is there, else `ttl`.

    What an answer says of its freshness is said of its URL, and so for a GET (RFC 9110 §9.3.3): how long the answer to
    another method is good for, the route says. No heuristic is used (§4.2.2): the operator's span stands for it.
    """
    if method != "GET":
        return rules.ttl
    if rules.share and b"s-maxage" in said:
        return seconds(said[b"s-maxage"]) * SECOND
    if b"max-age" in said:
        return seconds(said[b"max-age"]) * SECOND
    expires = head.get(b"expires")
    if expires is not None:
        return _between(head.get(b"date"), expires) * SECOND
    return rules.ttl


def _between(date: bytes | None, expires: bytes) -> int:
    """Return the seconds from an answer's `Date` to its `Expires`; 0 where one cannot be read: it has expired (§5.3)."""
    sent, end = _date(date), _date(expires)
    if sent is None or end is None:
        return 0
    return max(0, min(int(end - sent), MOST_SECONDS))


def _date(value: bytes | None) -> float | None:
    """Return an HTTP date (RFC 9110 §5.6.7) as Unix seconds of whoever wrote it."""
    try:
        date = parsedate_to_datetime((value or b"").decode("latin-1"))
    except (ValueError, OverflowError):
        return None
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()


def _stale_on_error(rules: RouteCache, said: Mapping[bytes, bytes | None]) -> int | None:
    """Return how long past its freshness an answer says itself that it may serve; None: never (RFC 9111 §4.2.4)."""
    if b"must-revalidate" in said or (rules.share and (b"proxy-revalidate" in said or b"s-maxage" in said)):
        return None
    return min(seconds(said.get(b"stale-if-error")) * SECOND, MOST_SPAN)
