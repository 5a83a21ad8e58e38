"""The request as a rung sends it: another body, other fields, another query, another upstream. Nothing is sent here.

What cannot be changed exactly as the rung says is not changed at all: a body that is no JSON or leaves two readings open, a
place that leads nowhere. Then the rung cannot be taken, and the next one is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_plus

from proxy.core import exact_json
from proxy.core.degrading import Change, Rung
from proxy.core.json_path import ABSENT, JsonPath
from proxy.core.policy import Route
from proxy.core.target import DEFAULT_PORTS, Origin, Target
from proxy.core.upstream import Upstream
from proxy.degrade.callers import parameter_tells_caller, tells_caller
from proxy.wire.render import line

MOST_BODY: Final = 1024 * 1024
"""The longest body that is changed (bytes)."""

_OF_THE_BODY: Final = frozenset(
    {b"content-digest", b"content-length", b"content-md5", b"digest", b"expect", b"repr-digest"}
)
"""What a head says of a body, and of no other (RFC 9110 §8.6, §10.1.1; RFC 9530)."""


class Unchangeable(ValueError):
    """A request that cannot be changed as a rung says, and why."""


class Changed(NamedTuple):
    """What differs from the request as it came. `body` None: it goes as it is. `dropped`: names of fields, in lower case."""

    target: Target
    body: bytes | None
    dropped: frozenset[bytes]
    lines: tuple[bytes, ...]


def changed(rung: Rung, route: Route, target: Target, index: Iterable[bytes], body: bytes | None) -> Changed:
    """Return a request as a rung sends it. Raises Unchangeable.

    `index`: the names of the request's fields, in lower case. `body` None: it is not known whole.
    """
    change = rung.change or Change()
    dropped: set[bytes] = set()
    lines: list[bytes] = []
    new_body = None
    if change.json:
        new_body = _body(change.json, body)
        dropped |= _OF_THE_BODY
        lines.append(b"Content-Length: %d\r\n" % len(new_body))
    for name, value in change.headers:
        dropped.add(name.encode("ascii"))
        lines.append(line(name.title().encode("ascii"), value.encode("latin-1")))
    if rung.upstream is not None:
        moved = _moved(target, rung.upstream, route)
        if not rung.credentials and moved.origin[:3] != target.origin[:3]:
            dropped.update(filter(tells_caller, index))
            moved = moved._replace(path=_without_keys(moved.path))
        target = moved
    if change.query:
        target = target._replace(path=_with_query(target.path, change.query))
    return Changed(target, new_body, frozenset(dropped), tuple(lines))


def _body(changes: Sequence[tuple[JsonPath, str]], body: bytes | None) -> bytes:
    if body is None:
        raise Unchangeable("the body is too large to be held")
    if exact_json.takes_long(body):
        raise Unchangeable("the body has too many parts to be changed while other calls wait")
    try:
        document = exact_json.load(body, most=MOST_BODY)
        for path, text in changes:
            document = _set(document, path, exact_json.load(text.encode()))
        return exact_json.rewrite(document)
    except ValueError as problem:
        raise Unchangeable(f"the body cannot be changed: {problem}") from None


def _set(document: Any, path: JsonPath, value: Any) -> Any:
    """Return the document with a value at a place. Its last name may be new. Raises ValueError where it leads nowhere."""
    parent: Any = JsonPath(path.text, path.steps[:-1]).find(document)
    last: Any = path.steps[-1]
    known = isinstance(last, int) and isinstance(parent, list) and -len(parent) <= last < len(parent)
    if known or (isinstance(last, str) and isinstance(parent, dict)):
        parent[last] = value
    else:
        nothing = "nothing is there" if parent is ABSENT else "what is there holds no such thing"
        raise ValueError(f"{path}: {nothing}")
    return document


def _moved(target: Target, upstream: Upstream, route: Route) -> Target:
    """Return the same target at another upstream, whose path goes where that of the route's own has been."""
    own = route.upstream.path if route.upstream is not None else ""
    path = upstream.path + target.path[len(own) :]
    host = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    plain = upstream.port == DEFAULT_PORTS[upstream.scheme]
    ca = route.ca if upstream.scheme == "https" else None
    origin = Origin(upstream.scheme, upstream.host, upstream.port, None, ca)
    return Target(
        origin, host if plain else f"{host}:{upstream.port}", path if path[:1] in "/*" else f"/{path}"
    )


def _without_keys(path: str) -> str:
    """Return a path without the parameters that tell who is asking."""
    before, mark, given = path.partition("?")
    if not mark:
        return path
    kept = [
        part for part in given.split("&") if not parameter_tells_caller(unquote_plus(part.partition("=")[0]))
    ]
    return f"{before}?{'&'.join(kept)}" if kept else before


def _with_query(path: str, query: Sequence[tuple[str, str]]) -> str:
    """Return a path with parameters set. Those of other names stay as they are written."""
    before, _, given = path.partition("?")
    names = {name for name, _ in query}
    kept = [part for part in given.split("&") if part and unquote_plus(part.partition("=")[0]) not in names]
    own = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query]
    return f"{before}?{'&'.join([*kept, *own])}"
