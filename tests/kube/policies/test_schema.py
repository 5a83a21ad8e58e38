"""The schema takes whatever the reader takes, and sees what a schema can see; it is made of the tables and follows them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.reading import ListOf, Reader, Scalar, scalar
from proxy.config.shape import Form, Shape
from proxy.kube.policies.schema import policy_schema
from tests.config.keys import ROWS, read_alone
from tests.kube.policies.written import as_json, collected, is_policy, policies, written
from tools.budget_policy import meanings

EXAMPLE = (Path(__file__).parents[3] / "docs/examples/waterclock.yaml").read_text()
STRICT = policy_schema(strict=True)
STRUCTURAL = policy_schema()


def plainly(schema: Any) -> Any:
    """The structural schema in the words of JSON Schema, without the rules in CEL."""
    if isinstance(schema, list):
        return [plainly(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: plainly(each) for name, each in schema.items() if not name.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string") is True:
        made["type"] = ["integer", "string"]
    if schema.get("nullable") is True:
        del made["nullable"]
        if "type" in made:
            made["type"] = [made["type"], "null"]
    return made


def judge(schema: dict[str, Any]) -> Any:
    """Somebody else's opinion."""
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


JUDGES = {"strict": judge(STRICT), "structural": judge(plainly(STRUCTURAL))}


def complaints(policy: Any, which: str) -> list[str]:
    """What a schema has against a policy."""
    return [f"{error.json_path}: {error.message}" for error in JUDGES[which].iter_errors(policy)]


def schemas(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with its path."""
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from schemas(each, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


@pytest.mark.parametrize("which", JUDGES)
def test_the_example_is_taken(which: str) -> None:
    """The one that gives every key there is."""
    assert complaints(as_json(EXAMPLE), which) == []


@pytest.mark.parametrize("which", JUDGES)
def test_policies_of_the_readers_tests_are_taken(which: str) -> None:
    """All that the reader's own tests call a policy."""
    assert len(collected()) > 150
    wrong = {text: said for text in collected() if (said := complaints(as_json(text), which))}
    # Written so, YAML makes a truth value or a number of a name: what is JSON by then has to have it in quotes.
    assert list(wrong) == [text for text in collected() if "name: on" in text]


@given(policy=policies)
def test_what_the_reader_takes_the_schemas_take(policy: dict[str, Any]) -> None:
    """Any policy that can be drawn from the tables."""
    assert is_policy(policy)
    for which in JUDGES:
        assert complaints(policy, which) == []


LEAVES: dict[str, Reader] = {
    key: row.reader for key, row in ROWS.items() if isinstance(row.reader, Scalar)
} | {f"{key}[]": row.reader.reader for key, row in ROWS.items() if isinstance(row.reader, ListOf)}


def likely(shape: Shape) -> st.SearchStrategy[str]:
    """Texts near what a shape allows. What stands without quotes is a word."""
    if shape.form in (Form.NUMBER, Form.FRACTION, Form.TRUTH):
        return st.one_of(
            st.from_regex(r"[0-9]{1,6}|0\.[0-9]{1,9}|[a-z_]{1,20}", fullmatch=True),
            st.sampled_from(["true", *shape.words]),
        )
    drawn = [
        st.text(max_size=20),
        st.from_regex(r"-?[0-9]{1,17}(\.[0-9]{1,17})?(h|m|s|ms|B|KiB|MB|GiB|)", fullmatch=True),
    ]
    if shape.pattern is not None:
        drawn.append(st.from_regex(shape.pattern.pattern, fullmatch=True))
    if shape.words:
        drawn.append(st.sampled_from(shape.words))
    return st.one_of(drawn)


def leaf(schema: dict[str, Any], key: str) -> dict[str, Any]:
    """The schema of one value."""
    return dict(schemas(schema))[key]


@pytest.mark.parametrize("key", [key for key in LEAVES if not key.startswith("fallback.")])
@given(data=st.data())
def test_no_value_that_is_read_is_refused(key: str, data: st.DataObject) -> None:
    """Shapes are no narrower than their readers, value by value: the patterns were not made for each other by chance."""
    reader = LEAVES[key]
    assert isinstance(reader, Scalar)
    text = data.draw(likely(reader.shape))
    plain = reader.shape.form in (Form.NUMBER, Form.FRACTION, Form.TRUTH)
    node = text if plain else written(text).removesuffix("...\n")
    if key.endswith(".ca") or not node.strip() or read_alone(reader, node)[1]:
        return
    value = text
    if plain:
        value = yaml.safe_load(text)
    for schema in (leaf(STRICT, key), plainly(leaf(STRUCTURAL, key))):
        jsonschema.Draft202012Validator(schema).validate(value)


WRONG: list[tuple[str, str]] = [
    ("mode: enforced", "mode"),
    ("bugdet: {}", "bugdet"),
    ("budget: {depht: 4}", "depht"),
    ("budget: {default: 10}", "default"),
    ("budget: {default: 10sec}", "default"),
    ("budget: {default: -1s}", "default"),
    ("budget: {width: 0}", "width"),
    ("budget: {width: '8'}", "width"),
    ("budget: {width: 1.5}", "width"),
    ("budget: {correlate: [trace]}", "correlate"),
    ("budget: {stages: {a: 10}}", "stages"),
    ("budget: {stages: [a]}", "stages"),
    ("budget: [default]", "budget"),
    ("ledger: {bytes: 16}", "bytes"),
    ("listen: {outbound: 10800}", "outbound"),
    ("listen: {inbound: {address: '0.0.0.0:1'}}", "app"),
    ("routes: {}", "routes"),
    ("routes: [{cap: 1s}]", "name"),
    ("routes: [{name: a b}]", "name"),
    ("routes: [{name: a, match: {host: 'http://a/b'}}]", "host"),
    ("routes: [{name: a, match: {path: v1}}]", "path"),
    ("routes: [{name: a, match: {methods: [get]}}]", "methods"),
    ("routes: [{name: a, match: {methods: []}}]", "methods"),
    ("routes: [{name: a, prefix: a, upstream: 'http://a'}]", "prefix"),
    ("routes: [{name: a, prefix: /a, upstream: 'ftp://a'}]", "upstream"),
    ("routes: [{name: a, effect: red}]", "effect"),
    ("routes: [{name: a, retries: {retry_on: []}}]", "retry_on"),
    ("routes: [{name: a, retries: {retry_on: [5xx]}}]", "retry_on"),
    ("routes: [{name: a, retries: {retry_on: [600]}}]", "retry_on"),
    ("routes: [{name: a, verify: {method: GET}}]", "path"),
    ("fallback: {name: a}", "name"),
    ("fallback: {on_cut: cut}", "on_cut"),
    ("fallback: {effect: read, ladder: {name: a}}", "ladder"),
    ("fallback: {effect: read, ladder: [{needs: 1s}]}", "name"),
    ("fallback: {effect: read, ladder: [{name: 1a}]}", "name"),
    ("fallback: {effect: read, ladder: [{name: a, needs: never}]}", "needs"),
    (
        "fallback: {effect: read, ladder: [{name: a, credentials: maybe, upstream: 'http://a'}]}",
        "credentials",
    ),
    ("fallback: {effect: read, ladder: [{name: a, set: {json: [a]}}]}", "json"),
    ("fallback: {effect: read, ladder: [{name: a, set: {headers: {a: 5}}}]}", "headers"),
    ("fallback: {effect: read, ladder: [{name: a, set: {query: {a: true}}}]}", "query"),
    (
        "fallback: {effect: read, ladder: [{name: a}, {name: b, cache: {semantic: 1.5, text: $.a}}]}",
        "semantic",
    ),
    ("fallback: {effect: read, ladder: [{name: a}, {name: b, cache: {semantic: 0.5, text: a}}]}", "text"),
    ("fallback: {effect: read, ladder: [{name: a}, {name: b, answer: {status: 99, json: 1}}]}", "status"),
    ("fallback: {effect: read, ladder: [{name: a}, {name: b, answer: {text: 5}}]}", "text"),
    ("fallback: {effect: read, cache: {first: true, ttl: 5}}", "ttl"),
    ("cache: {store: 'http://a'}", "store"),
    ("cache: {service: 'redis://a'}", "service"),
    ("fallback: {serialize: maybe}", "serialize"),
    ("tunnel: {ports: [443, 443]}", "ports"),
    ("tunnel: {ports: [0]}", "ports"),
    ("connections: {proxy: 'https://a:1'}", "proxy"),
    ("connections: {no_proxy: ['*']}", "no_proxy"),
    ("journal: {path: ''}", "path"),
    ("answers: {cut: 399}", "cut"),
    ("answers: {shed: 429.5}", "shed"),
]
"""Mistakes that a schema can see, and the key in what is said of them."""

UNKNOWN = ("bugdet: {}", "budget: {depht: 4}", "fallback: {name: a}")
BEYOND: list[tuple[str, str]] = [
    ("budget: {default: 0s}", "default"),
    ("budget: {default: 2401h}", "default"),
    ("budget: {default: 999999999999999h}", "default"),
    ("budget: {stages: {a b: 1s}}", "stages"),
    ("budget: {reserve: 5m}", "budget"),
    ("budget: {reserve: 10s, default: 10s}", "budget"),
    ("budget: {on_missing: refuse, reserve: 1h}", "budget"),
    ("budget: {default: 2h}", "budget"),
    ("budget: {max: 1m}", "budget"),
    ("writes: {hold: 25h}", "writes.hold"),
    ("journal: {retention: 5m}", "writes.hold"),
    ("connections: {opening: 9, max: 8}", "connections"),
    ("fallback: {min_start: 2s, cap: 1s}", "fallback"),
    ("fallback: {serialize: true, effect: read}", "fallback"),
    ("fallback: {verify: {path: /a}, effect: idempotent}", "fallback"),
    ("fallback: {verify: {path: /a, method: HEAD, applied: {json: $}}}", "verify"),
    ("fallback: {max_attempts: 2, retries: {}}", "fallback"),
    ("fallback: {retries: {backoff: {base: 2s}}}", "backoff"),
    ("fallback: {retries: {retry_on: [503], 'on': [503]}}", "retries"),
    ("fallback: {stage: slack}", "stage"),
    ("budget: {carry: true}", "budget"),
    ("fallback: {on_cut: truncate}", "fallback"),
    ("fallback: {ladder: [{name: a}]}", "fallback"),
    ("fallback: {effect: idempotent, cache: {first: true}}", "fallback"),
    ("routes: [{name: a, prefix: /a, upstream: 'http://a', ladder: [{name: a}]}]", "routes[0]"),
    ("fallback: {effect: read, truncate_margin: 1s}", "fallback"),
    ("fallback: {effect: read, on_cut: error, truncate_mark: x}", "fallback"),
    ("fallback: {effect: read, on_cut: truncate, cap: 1s, truncate_margin: 1s}", "fallback"),
    ("fallback: {effect: read, degraded_body: true}", "fallback"),
    ("fallback: {effect: read, ladder: [{name: a}, {name: b, cache: {}, answer: {text: c}}]}", "ladder[1]"),
    (
        "fallback: {effect: read, ladder: [{name: a}, {name: b, cache: {}, upstream: 'http://a'}]}",
        "ladder[1]",
    ),
    ("fallback: {effect: read, ladder: [{name: a, credentials: true}]}", "ladder[0]"),
    ("fallback: {effect: read, ladder: [{name: a}, {name: b, cache: {exact: false}}]}", "cache"),
    ("fallback: {effect: read, ladder: [{name: a}, {name: b, cache: {text: $.a}}]}", "cache"),
    ("fallback: {effect: read, ladder: [{name: a, needs: 2401h}]}", "needs"),
    ("routes: [{name: fallback}]", "name"),
    ("routes: [{name: a, prefix: /a}]", "routes[0]"),
    ("routes: [{name: a, upstream: 'http://a'}]", "routes[0]"),
    ("routes: [{name: a, prefix: /a, upstream: 'http://a', match: {host: b}}]", "routes[0]"),
    ("routes: [{name: a, prefix: /a, upstream: 'http://a', tls: originate}]", "routes[0]"),
    ("answers: {cut: 408}", "cut"),
]
"""Mistakes that rules in CEL see: the API server refuses them (`test_api_server.py`)."""


@pytest.mark.parametrize("which", JUDGES)
@pytest.mark.parametrize(("text", "key"), WRONG)
def test_what_a_schema_can_see(text: str, key: str, which: str) -> None:
    """It is refused before anything is installed, with the key."""
    policy = as_json(text)
    assert not is_policy(policy)
    if which == "strict" or text not in (*UNKNOWN, "tunnel: {ports: [443, 443]}"):
        said = complaints(policy, which)
        assert said
        assert any(key in one for one in said), said


@pytest.mark.parametrize("text", [text for text, _ in (*WRONG, *BEYOND)])
def test_nothing_is_refused_that_the_reader_takes(text: str) -> None:
    """What the tables of mistakes hold are mistakes."""
    assert not is_policy(as_json(text))


STRUCTURAL_WORDS = {
    "type", "description", "properties", "required", "items", "additionalProperties", "nullable", "enum", "pattern",
    "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "maxProperties",
    "x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip


def test_it_is_structural() -> None:
    """Only words that a structural schema may have, a type everywhere, and never closed beside properties."""
    for path, schema in schemas(policy_schema(meanings=meanings())):
        assert set(schema) <= STRUCTURAL_WORDS, path
        untyped = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"} & set(schema)
        assert ("type" in schema) != bool(untyped), path
        # The API server drops a null where nothing says that there may be one.
        assert "x-kubernetes-preserve-unknown-fields" not in schema or schema["nullable"], path
        assert not {"properties", "additionalProperties"} <= set(schema), path


def test_what_rules_look_at_is_bounded() -> None:
    """The API server reckons the cost of a rule from the longest it may have to look at."""
    for path, schema in schemas(STRUCTURAL):
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if (
            "x-kubernetes-validations" in schema
            and schema.get("type") == "string"
            and "duration" in str(schema)
        ):
            assert schema["maxLength"] < 64, path


@pytest.mark.parametrize("schema", [STRICT, STRUCTURAL], ids=["strict", "structural"])
def test_every_key_of_the_tables_is_there_and_none_else(schema: dict[str, Any]) -> None:
    """A new row is a new property. The other names of a key are the only ones more."""
    found = {path for path, each in schemas(schema) if not each.get("properties") and not path.endswith("[]")}
    also = {f"{owner}.retries.{name}" for owner in ("routes[]", "fallback") for name in ("retry_on", "true")}
    assert found - also == set(ROWS) | {"routes", "routes[].ladder", "fallback.ladder"}
    assert also <= found


def test_every_key_says_what_it_means() -> None:
    """`kubectl explain` has a sentence for each."""
    for path, schema in schemas(policy_schema(meanings=meanings())):
        assert path.endswith("[]") or schema.get("description", "").endswith("."), path


def test_a_reader_without_a_shape_is_found() -> None:
    """A table that grows by something new has to say how it looks."""
    from proxy.config.reading import Section
    from proxy.kube.policies.schema import _Maker

    with pytest.raises(TypeError, match=r"a\.b: nothing is known"):
        _Maker(False, {}).of(Section(dict, {"b": (lambda value: value, "b")}), "a")
    assert _Maker(False, {}).of(scalar(str), "a") == {"type": "string"}


def test_schemas_are_made_anew() -> None:
    """Whoever changes one changes no other."""
    first = policy_schema()
    before = copy.deepcopy(first)
    first["properties"].clear()
    assert policy_schema() == before
