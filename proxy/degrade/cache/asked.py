"""What makes two requests the same one, and for whom.

The key of a request holds all that its answer may depend on: the route, the method, the URL, the body, the form in which
the answer is wanted, the headers that the route names, and everything that tells who is asking. So nobody is given what
was another's answer, unless the route shares its answers on purpose. A JSON body counts by what it says and not by its
spaces or the order of its members; any other, or one too long to be read while other calls wait, by its bytes.

For answers to what means the same, the `partition` is the same without one string of the body, the `text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from proxy.core import exact_json
from proxy.core.degrading import CacheUse, RouteCache
from proxy.core.json_path import ABSENT, JsonPath
from proxy.core.policy import Route
from proxy.core.units import SECOND
from proxy.degrade.cache.directives import directives, seconds
from proxy.degrade.callers import tells_caller, tells_nothing

MOST_JSON: Final = 131_072
"""Longer bodies count by their bytes: a chat of this length takes a millisecond and a half, and every other call waits."""

_KEY_BYTES: Final = 32
_PLACE_BYTES: Final = 16
_DEFAULTS: Final = RouteCache()
# Answers to these are not kept (RFC 9110 §9.3), or are nothing to be given twice.
_UNKEPT_METHODS: Final = frozenset({"HEAD", "OPTIONS", "TRACE", "CONNECT"})
# Whoever sends one of these wants a part of the answer, or to hear whether it has changed: that only the origin can say.
_CONDITIONS: Final = (
    b"range",
    b"if-range",
    b"if-match",
    b"if-none-match",
    b"if-modified-since",
    b"if-unmodified-since",
)
# The form in which an answer is wanted, and how the question is to be read. APIs that were never meant to be cached
# choose by these without saying so in Vary.
_MEANING: Final = frozenset(
    {
        b"accept",
        b"accept-charset",
        b"accept-encoding",
        b"accept-language",
        b"anthropic-beta",
        b"anthropic-version",
        b"content-encoding",
        b"content-language",
        b"content-type",
        b"openai-beta",
        b"prefer",
        b"soapaction",
        b"x-amz-target",
        b"x-goog-fieldmask",
        b"x-http-method",
        b"x-http-method-override",
        b"x-method-override",
    }
)
_LONG_LIST: Final = 1024  # longer values count as they are written
_JSON_START: Final = re.compile(rb'[ \t\r\n]*[\[{"]')
_TEXT_PART: Final = frozenset({"type", "text", "cache_control"})
_NOTHING: Final[Mapping[bytes, bytes]] = MappingProxyType({})


class Asked(NamedTuple):
    """One request, as the cache knows it.

    `key`: what it shares with the same request, and with no other (64 hex digits). `partition`: what it shares with all
    that differ in `text` alone; None, as `text` is, where it has none. `header`: its fields, which an answer may vary by.
    `place`: its URL alone (32 hex digits), None unless it is a GET. `most_age`: the caller wants nothing that is older
    (nanoseconds; -1: nothing kept at all), `min_fresh`: nor anything that will be stale so soon (RFC 9111 §5.2.1).
    """

    key: str
    partition: str | None = None
    text: str | None = None
    header: Mapping[bytes, bytes] = _NOTHING
    place: str | None = None
    most_age: int | None = None
    min_fresh: int = 0


def asked(
    route: Route, method: str, url: str, index: Mapping[bytes, bytes], body: bytes, use: CacheUse | None
) -> Asked | None:
    """Return what the cache knows a request by; None for one that it may neither answer nor keep the answer to.

    `url`: absolute, with its query. `index`: the request's fields, by lower-case name. `use`: how the route's ladder asks
    the cache, if it does; only for answers to what means the same does it make a difference.
    """
    if method in _UNKEPT_METHODS or any(name in index for name in _CONDITIONS):
        return None
    wishes = directives(index.get(b"cache-control"))
    if b"no-store" in wishes:
        return None
    rules = route.cache or _DEFAULTS
    start = _start(route, method, url, _telling(index, rules))
    # White space says something in a text, even in one that could be read as JSON.
    by_bytes = index.get(b"content-type", b"")[:5].lower() == b"text/"
    value = ABSENT if by_bytes else _loaded(body, rules.ignore)
    whole = _dumped(value)
    most_age, min_fresh = _terms(wishes, index)
    partition, text = _around(value, use, start) if whole is not None else (None, None)
    return Asked(
        key=_ended(start, b"bytes", body) if whole is None else _ended(start, b"json", whole),
        partition=partition,
        text=text,
        header=index,
        place=place_of(url) if method == "GET" else None,
        most_age=most_age,
        min_fresh=min_fresh,
    )


def place_of(url: str) -> str:
    """Return what the answers to GETs of this URL are known by (32 hex digits), whoever asks, however its host is written."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if mark:
        default = ":443" if scheme.lower() == "https" else ":80"
        url = f"{scheme.lower()}://{authority.lower().removesuffix(default)}{slash}{path}"
    return blake2b(url.encode("utf-8", "surrogatepass"), digest_size=_PLACE_BYTES).hexdigest()


def digest_of(value: bytes | None, size: int) -> bytes:
    """Return what a field's value is known by, where it may be a secret. None: there is no such field."""
    return blake2b(b"-" if value is None else b"+" + value, digest_size=size).digest()


# -- the header -----------------------------------------------------------------------------------------------------


def _telling(index: Mapping[bytes, bytes], rules: RouteCache) -> list[tuple[bytes, bytes]]:
    """Return the fields that are part of the key, in the order of their names: all that are not noise.

    Of a route that shares its answers, those that tell who is asking are left out, unless it names them.
    """
    named = {name.encode("latin-1", "replace") for name in rules.headers}
    telling = []
    for name, value in index.items():
        if name in named:
            telling.append((name, value))
        elif not tells_nothing(name) and not (rules.share and tells_caller(name)):
            telling.append((name, _plain(value) if name in _MEANING else value))
    return sorted(telling)


def _plain(value: bytes) -> bytes:
    """Return a list without the spaces around its commas and semicolons, which say nothing (RFC 9110 §5.6.1)."""
    if b'"' in value or len(value) > _LONG_LIST:
        return value
    return b",".join(b";".join(part.strip() for part in member.split(b";")) for member in value.split(b","))


def _terms(wishes: Mapping[bytes, bytes | None], index: Mapping[bytes, bytes]) -> tuple[int | None, int]:
    """Return what the caller wants of a kept answer: its greatest age, and the least freshness left."""
    if b"no-cache" in wishes:
        return -1, 0
    if b"cache-control" not in index and b"no-cache" in index.get(b"pragma", b"").lower():  # RFC 9111 §5.4
        return -1, 0
    most_age = seconds(wishes[b"max-age"]) if b"max-age" in wishes else None
    if most_age == 0:
        return -1, 0
    min_fresh = seconds(wishes.get(b"min-fresh")) * SECOND
    return None if most_age is None else most_age * SECOND, min_fresh


# -- the body -------------------------------------------------------------------------------------------------------


def _loaded(body: bytes, ignore: Iterable[JsonPath]) -> Any:
    """Return the value of a JSON body without the places that are ignored; ABSENT when it counts by its bytes."""
    if not _JSON_START.match(body) or len(body) > MOST_JSON:
        return ABSENT
    if exact_json.takes_long(body):
        return ABSENT
    try:
        value = exact_json.load(body, MOST_JSON)
    except ValueError:  # not JSON after all, or none that is sure
        return ABSENT
    for path in ignore:
        value = _without(value, path)
    return value


def _dumped(value: Any) -> bytes | None:
    if value is ABSENT:
        return None
    try:
        return exact_json.dump(value)
    except ValueError:  # half of a surrogate pair, which has no UTF-8
        return None


def _without(value: Any, path: JsonPath) -> Any:
    """Return a document without one place: a member is gone, an item, which others are counted by, or all of it is null."""
    if path.find(value) is ABSENT:
        return value
    if not path.steps:
        return None
    *way, last = path.steps
    holder = JsonPath(path.text, tuple(way)).find(value)
    if isinstance(holder, dict):
        del holder[last]
    else:
        holder[last] = None
    return value


def _around(value: Any, use: CacheUse | None, start: blake2b) -> tuple[str | None, str | None]:
    """Return the partition and the text of a body, both None when it has no text in that place. The value is used up."""
    if use is None or use.semantic is None or use.text is None:
        return None, None
    text = _text(use.text.find(value))
    if text is None:
        return None, None
    # The place is part of it: two ladders that look elsewhere leave different things out.
    rest = _dumped([use.text.text, _without(value, use.text)])
    return (None, None) if rest is None else (_ended(start, b"around", rest), text)


def _text(found: Any) -> str | None:
    """Return what somebody has said, as a string or in parts that are all text; None for anything else, and for nothing."""
    if isinstance(found, list):
        parts = [_part(part) for part in found]
        found = None if None in parts else "\n".join(part for part in parts if part is not None)
    if not isinstance(found, str) or "\0" in found:  # between two NULs stands a number
        return None
    return found if found.strip() else None


def _part(part: Any) -> str | None:
    if not isinstance(part, dict) or not _TEXT_PART.issuperset(part):
        return None
    if part.get("type") not in ("text", "input_text") or not isinstance(part.get("text"), str):
        return None
    return str(part["text"])


# -- the digest -----------------------------------------------------------------------------------------------------


def _start(route: Route, method: str, url: str, fields: list[tuple[bytes, bytes]]) -> blake2b:
    """Begin a digest with all but the body. Each part goes with its length, so that none can end in another's place."""
    digest = blake2b(digest_size=_KEY_BYTES)
    # Another policy, or the one before, may send the same call to another model.
    first = repr((route.ladder[0].change, route.ladder[0].upstream)) if route.ladder else ""
    parts = [text.encode("utf-8", "surrogatepass") for text in (route.name, method, url, first)]
    for part in (*parts, *(half for field in fields for half in field)):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    digest.update(b"\n")
    return digest


def _ended(start: blake2b, form: bytes, body: bytes) -> str:
    digest = start.copy()
    digest.update(form + b"\n")
    digest.update(body)
    return digest.hexdigest()
