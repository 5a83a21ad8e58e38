"""Policies to try the schema with: drawn from the tables, and collected from the tests of the reader."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from proxy.config import (
    ConfigError,
    attempts,
    fields,
    globs,
    json_values,
    ladder,
    network,
    parse,
    scalars,
    stages,
)
from proxy.config.reading import ListOf, MapOf, Reader, Scalar, Section
from proxy.config.scalars import SIZES, SPANS
from proxy.config.schema import POLICY
from proxy.config.shape import Form, Shape
from proxy.core.units import HOUR, MILLISECOND

READER_TESTS = Path(__file__).parents[2] / "config"

_names = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
_ports = st.integers(1, 65535)
_hosts = st.sampled_from(["127.0.0.1", "[::1]", "0.0.0.0", "10.0.0.9", "[fd00::2%eth0]"])

TEXTS: dict[Reader, st.SearchStrategy[str]] = {
    network.address: st.builds("{}:{}".format, _hosts, _ports),
    network.upstream: st.builds(
        "{}://{}{}".format,
        st.sampled_from(["http", "https", "HTTP"]),
        st.one_of(_hosts.filter(lambda host: "%" not in host), st.just("a-b.c_d")),
        st.sampled_from(["", "/", ":8080", ":1/v1/x;y=1", "/v1//w%20"]),
    ),
    network.parent_proxy: st.sampled_from(
        ["http://proxy:3128", "http://[::1]:80/", "http://u:p%40@h:1", "HTTP://P:1"]
    ),
    network.bypass: st.sampled_from([".svc", "A.b", "10.0.0.0/8", "::1", "[::1]", "fd00::/8", "1.2.3.4", "_x.y"]),
    network.prefix: st.from_regex(r"(/[A-Za-z0-9_~-]{1,5}){1,3}", fullmatch=True),
    network.method: st.sampled_from(["GET", "POST", "X-Y_1", "A" * 32]),
    network.header: st.sampled_from(["Idempotency-Key", "x", "!#$%&'*+.^_`|~0", "h" * 64]),
    network.route_name: _names.filter(lambda name: name[0] not in "_-"),
    network.certificates: st.sampled_from(["/etc/ca.pem", "ca.pem"]),
    globs.host: st.sampled_from(["*", "*.a.b", "api-*.example.com", "::1", "[fd00::1]", "a.b.", "A_b", "x" * 63]),
    globs.path: st.sampled_from(["/", "/**", "/v1/*/items", "/v1/**/x%20", "/" + "a" * 1023]),
    globs.name: st.sampled_from(["*", "get_*", "tools/list", "n" * 255]),
    attempts.question: st.sampled_from(
        ["/", "/a?b=c&d={record}", "/{budget_id}/{idempotency_key}", "/%7B?x=1", "/" + "q" * 2047]
    ),
    json_values.place: st.sampled_from(["$", "$.items[0]", "$['a name'][-1]", "$.é"]),
    ladder.part: st.sampled_from(["$.items[0]", "$['a name'][-1]", "$.é", "$.x"]),
    ladder.rung_name: st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,8}", fullmatch=True),
    ladder.mark: st.one_of(st.sampled_from(["[response truncated]", "on", "x" * 200]), st.text(min_size=1, max_size=9).filter(str.isprintable)),
    fields.name: st.sampled_from(["X-Tenant", "x", "!#$%&'*+.^_`|~0", "h" * 64]),
    fields.media_type: st.sampled_from(["text/plain", "application/json", 'a/b; c="d e"', "text/html;charset=utf-8"]),
    network.store: st.sampled_from(["redis://h", "rediss://u:p%40@h:1/0", "redis://[::1]:6379"]),
    network.service: st.sampled_from(["http://cache", "http://a.b:8080/", "HTTP://[::1]:1"]),
    stages.stage: _names,
    scalars.path: st.one_of(st.sampled_from(["/var/lib/j.db", "x" * 4096]), st.text(min_size=1).filter(str.isprintable)),
}  # fmt: skip


def _amount(scale: scalars.Scale, low: int, high: int, step: int) -> st.SearchStrategy[str]:
    whole = st.one_of(
        st.sampled_from([low, high]), st.integers(-(-low // step), high // step).map(step.__mul__)
    )
    return whole.map(lambda amount: scale.show(amount) if amount else f"0{scale.usual}")


_plain_texts = st.one_of(
    st.sampled_from(["on", "010", "1e3", "=", "a b"]), st.text(max_size=9).filter(str.isprintable)
)
_printable = _plain_texts.filter(lambda text: text.isascii() and text == text.strip() and bool(text))
_json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.floats(-1e9, 1e9), _plain_texts
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_plain_texts, inner, max_size=3)),
    max_leaves=6,
)

MAPS: dict[MapOf, tuple[st.SearchStrategy[str], st.SearchStrategy[Any]]] = {
    stages.shares: (_names, st.deferred(lambda: scalar(stages.shares.values))),
    ladder.changes: (st.sampled_from(["$.model", "$.a.b", "$.a.c", "$.é", "$.n"]), _json),
    fields.of_request: (st.sampled_from(["X-A", "authorization", "y"]), _printable),
    fields.of_answer: (st.sampled_from(["X-A", "retry-after", "on"]), _printable),
    fields.parameters: (st.sampled_from(["q", "n", "on", "a b", "é"]), _plain_texts),
}


def scalar(shape: Shape, reader: Reader | None = None) -> st.SearchStrategy[Any]:
    """Values of a shape, as JSON has them."""
    low, high = shape.low or 0, shape.high or 0
    match shape.form:
        case Form.TRUTH:
            return st.booleans()
        case Form.NUMBER:
            numbers = st.one_of(st.sampled_from([low, high]), st.integers(low, high))
            numbers = numbers.filter(lambda number: number not in shape.never)
            return st.one_of(numbers, st.sampled_from(shape.words)) if shape.words else numbers
        case Form.SPAN:
            spans = _amount(SPANS, low, high, MILLISECOND)
            return st.one_of(spans, st.sampled_from(shape.words)) if shape.words else spans
        case Form.FRACTION:
            return st.one_of(
                st.integers(low, high), st.integers(0, 100).map(lambda hundredths: hundredths / 100)
            )
        case Form.JSON:
            return _json
        case Form.SIZE:
            return _amount(SIZES, low, high, 1)
        case Form.TEXT if reader in TEXTS:
            return TEXTS[reader]
        case Form.TEXT:
            return st.sampled_from(shape.words) if shape.words else _plain_texts


def values(reader: Reader) -> st.SearchStrategy[Any]:
    """Values that a reader may take, as JSON has them: each one sound by itself, not always together."""
    match reader:
        case Section():
            return _sections(reader)
        case ListOf():
            unique = None if isinstance(reader.reader, Section) else repr
            some = st.lists(values(reader.reader), min_size=reader.at_least, max_size=3, unique_by=unique)
            return some if reader.at_least else st.one_of(some, st.none())
        case MapOf():
            return st.dictionaries(*MAPS[reader], max_size=3)
        case Scalar():
            return scalar(reader.shape, reader)
        case _:
            raise TypeError(reader)


CHANGE = st.deferred(lambda: values(ladder.CHANGE))
UPSTREAM = TEXTS[network.upstream]
CACHE_USE = st.deferred(lambda: values(ladder.CACHE_USE))
ANSWER = st.one_of(
    st.fixed_dictionaries({"json": _json}, optional={"status": st.integers(200, 203)}),
    st.fixed_dictionaries({"text": _plain_texts}, optional={"headers": st.just({"Retry-After": "1"})}),
)


def _sections(section: Section) -> st.SearchStrategy[Any]:
    optional = [name for name in section.keys if name not in section.required]

    @st.composite
    def drawn(draw: st.DrawFn) -> dict[str, Any] | None:
        chosen = draw(st.lists(st.sampled_from(optional), max_size=5, unique=True)) if optional else []
        if not chosen and not section.required and draw(st.booleans()):
            return None
        names = [*section.required, *chosen]
        made = {name: draw(values(section.keys[name][0])) for name in names}
        for name in names:
            also = [alias for alias, meant in section.aliases.items() if meant == name]
            if also and (alias := draw(st.sampled_from([name, *also]))) != name:
                made[alias] = made.pop(name)
        if "ladder" in section.keys and draw(st.booleans()):
            return {name: made[name] for name in section.required} | draw(_less())
        return made

    return drawn()


@st.composite
def _less(draw: st.DrawFn) -> dict[str, Any]:
    """What a route for reads says of answers that are less: drawn key by key, this would hardly ever be sound."""
    whats = [
        {"set": CHANGE},
        {"set": CHANGE, "upstream": UPSTREAM, "credentials": st.booleans()},
        {"cache": CACHE_USE},
    ]
    rungs: list[dict[str, Any]] = [{"name": "r0"}]
    for level in range(1, draw(st.integers(1, 4))):
        what = draw(st.sampled_from(whats))
        needs = st.one_of(st.just("0s"), _amount(SPANS, MILLISECOND, 2 * HOUR, MILLISECOND))
        drawn = {name: draw(each) for name, each in what.items()}
        rungs.append({"name": f"r{level}", "needs": draw(needs), **drawn})
    if draw(st.booleans()):
        rungs.append({"name": "last", "answer": draw(ANSWER)})
    cache: dict[str, Any] = draw(values(ladder.ROUTE_CACHE).map(lambda drawn: drawn or {}))
    return {
        "effect": "read",
        "ladder": rungs,
        "cache": {"first": True, **cache},
        "degraded_body": draw(st.booleans()),
        "on_cut": "truncate",
        "truncate_mark": draw(TEXTS[ladder.mark]),
    }


class _Quoting(yaml.SafeDumper):
    """Puts quotes around every text: without them, not all readers see one."""


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def written(policy: Any) -> str:
    """A policy as YAML, by another hand than the one under test."""
    return yaml.dump(policy, Dumper=_Quoting, sort_keys=False, allow_unicode=True)


def is_policy(policy: Any) -> bool:
    """Whether the reader takes it."""
    try:
        parse(written(policy), has_files=False)
    except ConfigError:
        return False
    return True


def _without_faults(policy: dict[str, Any] | None) -> dict[str, Any]:
    """The same, less every key that a fault stands at, until the reader takes it."""
    policy = policy or {}
    while True:
        try:
            parse(written(policy), has_files=False)
        except ConfigError as error:
            _drop(policy, error.faults[-1].key)
        else:
            return policy


def _drop(policy: dict[str, Any], key: str) -> None:
    """Take a key out, or, where it is one that is missing, what it is missing in."""
    owner: Any = policy
    above: list[tuple[Any, Any]] = []
    while key:
        name, key = _first(owner, key)
        if (name not in owner) if isinstance(owner, dict) else (name >= len(owner)):
            break
        above.append((owner, name))
        owner = owner[name]
    owner, name = above[-1]
    del owner[name]


def _first(owner: Any, key: str) -> tuple[Any, str]:
    """The first step of a key, and the rest. A name in it may have dots and brackets."""
    if isinstance(owner, list):
        index, _, rest = key.removeprefix("[").partition("]")
        return int(index), rest.removeprefix(".")
    names = [name for name in owner if key == name or key.startswith((f"{name}.", f"{name}["))]
    if not names:
        other = next((each for each in ("retry_on", "true") if each in owner), "")
        return other, key.partition(".")[2]
    name = max(names, key=len)
    return name, key[len(name) :].removeprefix(".")


policies = st.one_of(
    values(POLICY),
    values(POLICY),
    st.fixed_dictionaries({"fallback": _less()}, optional={"cache": values(ladder.CACHE)}),
).map(_without_faults)
"""Policies that the reader takes, as JSON has them."""


# -- those of the reader's tests ---------------------------------------------------------------------------------------

_AS: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"fallback: {{{text}}}",
    lambda text: f"routes: [{{name: a, {text}}}]",
    lambda text: f"routes:\n- name: a\n  {text}\n",
]


@cache
def collected() -> tuple[str, ...]:
    """Every text in the tests of the reader that is a policy, as it is or as what is said of a route."""
    found: dict[str, None] = {}
    for path in sorted(READER_TESTS.glob("test_*.py")):
        for string in _strings(path):
            for text in [form(string) for form in _AS]:
                if len(text) < 10_000 and _says_something(text):
                    found[text] = None
    return tuple(found)


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _says_something(text: str) -> bool:
    try:
        parse(text, has_files=False)
    except ConfigError:
        return False
    found = yaml.load(text, Loader=yaml.BaseLoader)
    return isinstance(found, dict) and bool(found)


def as_json(text: str) -> Any:
    """A text as kubectl and Helm read it: YAML 1.1, whose truth values become words where they are keys."""

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                str(key).lower() if isinstance(key, bool) else str(key): named(each)
                for key, each in value.items()
            }
        return [named(each) for each in value] if isinstance(value, list) else value

    return named(yaml.safe_load(text))
