"""The values of every header that is read: understood, or a clear refusal with the field's name, and never an exception.

An input is lines `Name: value`. What no parser would let through (a control character) is left out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Final

from proxy.core.budget import CallPhase
from proxy.core.degrading import CacheUse, RouteCache
from proxy.core.limits import Limits, MalformedLimit, read_limits
from proxy.core.policy import Route
from proxy.core.units import MILLISECOND
from proxy.dataplane.response import retry_after
from proxy.degrade.cache.asked import asked
from proxy.degrade.cache.directives import MOST_SECONDS, directives, seconds
from proxy.degrade.cache.entry import check as check_entry
from proxy.degrade.cache.entry import decode, encode
from proxy.degrade.cache.freshness import entry_of, usable
from proxy.degrade.endings.recognise import boundary_for, ending_for
from proxy.wire.events import Field, RequestHead, ResponseHead, WireFault
from proxy.wire.eventstream import read_as_it_comes
from proxy.wire.fields import dropped, has_passed, relayed_trailers
from proxy.wire.heads import build_request, build_response
from proxy.wire.parser import RequestParser
from proxy.wire.render import UnsafeLine, lines, request_head
from trials.fuzz.target import Seen, Target, hold

_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*\Z")
_ROUTE: Final = Route(name="any", cache=RouteCache(ttl=10**10, share=True, stale_if_error=10**9))
_MOST_DIGITS: Final = 10
_MOST_LINES: Final = 90  # with those that this hop adds, fewer than a head may have
_ONE: Final = re.compile(rb"[0-9]{1,10}\Z")


def check(data: bytes) -> Seen:
    """Read all fields as those of a request and of a response."""
    found = filter(None, map(_LINE.match, data.splitlines()[:_MOST_LINES]))
    fields: list[Field] = [(each[1].lower(), each[1], each[2]) for each in found]
    seen = _as_request(fields) | _as_response(fields)
    return seen | {f"trailers {len(relayed_trailers(fields)) < len(fields)}"}


def _as_request(fields: list[Field]) -> set[str]:
    host = [(b"host", b"Host", b"a")] if all(lower != b"host" for lower, _, _ in fields) else []
    head = build_request("POST", b"/", "1.1", [*host, *fields], leaves_http=True)
    if isinstance(head, WireFault):
        return {f"request {head.reason}"}
    seen = {
        f"has passed {has_passed(head, b'w')}",
        f"expects {head.expect_continue}",
        f"upgrade {bool(head.upgrade)}",
    }
    seen |= _limits(head.index)
    _rendered(head)
    found = asked(_ROUTE, "GET", "http://a/", head.index, b"", CacheUse())
    seen.add(
        "not asked" if found is None else f"asked, age {found.most_age is None}, fresh {found.min_fresh > 0}"
    )
    return seen


def _rendered(head: RequestHead) -> None:
    """What is sent on of a head reads back as one head, with no field more than it had."""
    kept = lines(head.fields, dropped(head))
    try:
        sent = request_head(
            "GET", "/", [b"Host: a\r\n", *(line for line in kept if not line.lower().startswith(b"host:"))]
        )
    except UnsafeLine as error:
        raise AssertionError(f"a field that was taken cannot be sent: {kept}") from error
    events = RequestParser().feed(sent)
    hold(bool(events) and isinstance(events[0], RequestHead), "what-is-sent-on-is-a-head", sent, events)
    names = {lower for lower, _, _ in events[0].fields} if isinstance(events[0], RequestHead) else set()
    hold(not names & {b"connection", b"te", b"upgrade", b"transfer-encoding"}, "nothing-of-this-hop", sent)
    hold(not any(name.startswith(b"budget-") for name in names), "no-budget-of-the-client", sent)


def _limits(index: Mapping[bytes, bytes]) -> set[str]:
    try:
        limits = read_limits(dict(index), by_trace=True)
    except MalformedLimit as problem:
        hold(problem.field and problem.problem, "a-refusal-explains-itself", str(problem))
        hold(
            problem.field.split(" ")[0].lower().encode() in index, "a-refusal-names-its-field", problem.field
        )
        return {f"{problem.field}: {problem.problem}"[:120]}
    _exact(limits, index)
    return {
        f"limits {name}"
        for name in Limits._fields
        if getattr(limits, name) not in (None, 0, False, CallPhase.WORK)
    }


def _exact(limits: Limits, index: Mapping[bytes, bytes]) -> None:
    """Compare what was read with what was said, by the contract's own words."""
    for name, value in (("budget-remaining-ms", limits.remaining), ("budget-reserve-ms", limits.reserve)):
        said = index.get(name.encode())
        if said is None:
            hold(value is None, "what-is-not-said-is-not-read", name, value)
            continue
        one = said.split(b", ")[0]
        hold(_ONE.match(one) and value == int(one) * MILLISECOND, "a-number-is-exact", name, said, value)
    for span in (
        limits.remaining,
        limits.reserve,
        limits.foreign,
        limits.client_timer,
        limits.proxy_remaining,
    ):
        hold(span is None or 0 <= span < 10**21, "a-span-is-bounded", span)
    if limits.key is not None:
        hold(limits.key.encode("ascii") == index[b"idempotency-key"], "a-key-is-as-it-was-said", limits.key)
    if limits.budget_id is not None:
        again = read_limits({b"budget-id": limits.budget_id.encode()})
        hold(
            again.budget_id == limits.budget_id and len(limits.budget_id) <= 128,
            "an-id-reads-back",
            limits.budget_id,
        )
    if limits.proxy_user is not None:
        password = b"" if limits.proxy_remaining is None else b"%d" % (limits.proxy_remaining // MILLISECOND)
        credentials = b"Basic " + base64.b64encode(limits.proxy_user.encode() + b":" + password)
        again = read_limits({b"proxy-authorization": credentials})
        same = (again.proxy_user, again.proxy_remaining) == (limits.proxy_user, limits.proxy_remaining)
        hold(same, "proxy-credentials-read-back", limits, again)
    hold(limits.attempts >= 0 and 0 <= limits.depth < 10**_MOST_DIGITS, "counts-are-bounded", limits)
    hold(limits.trace_id is None or len(limits.trace_id) == 32, "a-trace-has-32-digits", limits.trace_id)


def _as_response(fields: list[Field]) -> set[str]:
    head = build_response("GET", 200, b"OK", "1.1", fields)
    if isinstance(head, WireFault):
        return {f"response {head.reason}"}
    wait = retry_after(head)
    hold(wait is None or wait >= 0, "a-wait-is-none-or-some", wait)
    said = directives(head.get(b"cache-control"))
    for name, argument in said.items():
        hold(
            name == name.lower() and 0 <= seconds(argument) <= MOST_SECONDS,
            "directives-are-bounded",
            name,
            argument,
        )
    kind = head.get(b"content-type") or b""
    ending, boundary = ending_for(kind, "/"), boundary_for(kind)
    hold((ending is None) is (boundary is None), "what-is-followed-can-be-cut", kind)
    seen = {
        f"wait {wait is not None}",
        f"as it comes {read_as_it_comes(kind)}",
        f"ending {type(ending).__name__}",
    }
    seen |= {f"directive {name.decode()}" for name in said if name in _DIRECTIVES}
    return seen | _kept(head)


def _kept(head: ResponseHead) -> set[str]:
    """What is kept of an answer can be written, read back, and given."""
    request = asked(_ROUTE, "GET", "http://a/", {}, b"", CacheUse())
    if request is None:
        return set()
    rules = _ROUTE.cache or RouteCache()
    entry = entry_of(rules, "GET", request, head, b"x", whole=True, took=5)
    if entry is None:
        return {"not kept"}
    check_entry(entry)
    hold(decode(encode(entry)) == entry, "an-entry-reads-back", entry)
    found = usable(entry, 0, request, None)
    hold(found is None or found.age >= 0, "an-age-is-some", found)
    return {f"kept, given {found is not None}, stale {entry.stale is not None}, varies {bool(entry.varies)}"}


_DIRECTIVES: Final = frozenset(
    {b"max-age", b"s-maxage", b"no-store", b"no-cache", b"private", b"stale-if-error"}
)

TARGET: Final = Target(
    "headers",
    "the value of every header that is read: understood exactly, or a refusal that names its field; round trips",
    check,
    tokens=(
        b"Budget-Remaining-Ms: ",
        b"Budget-Id: ",
        b"Budget-Reserve-Ms: ",
        b"Budget-Stage: ",
        b"Budget-Phase: cleanup",
        b"Budget-Depth: ",
        b"Budget-Retry: confirmed",
        b"Idempotency-Key: ",
        b"grpc-timeout: ",
        b"Connect-Timeout-Ms: ",
        b"X-Envoy-Expected-Rq-Timeout-Ms: ",
        b"X-Stainless-Read-Timeout: ",
        b"X-Stainless-Timeout: ",
        b"X-Stainless-Retry-Count: ",
        b"X-Server-Timeout: ",
        b"amz-sdk-request: attempt=",
        b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"Proxy-Authorization: Basic ",
        b"Retry-After: ",
        b"Date: Mon, 30 Nov 2026 10:00:00 GMT",
        b"Mon, 30 Nov 0001 10:00:00 +2359",
        b"Expires: ",
        b"Age: ",
        b"Vary: ",
        b"Cache-Control: ",
        b"max-age=",
        b"stale-if-error=",
        b'no-cache="a, b"',
        b"s-maxage",
        b"Connection: ",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked",
        b"Content-Type: text/event-stream; charset=",
        b"Content-Type: application/x-ndjson",
        b"Budget-Verdict: complete; degraded=1",
        b"Via: 1.1 w, 1.0 x",
        b"Host: ",
        b"Expect: 100-continue",
        b"Upgrade: ",
        b", ",
        b"\n",
        b"\xff",
        b"\t",
        b"1S",
        b"99999999H",
    ),
)
