"""What a policy may say and will surprise: a sentence each, and no fault."""

from __future__ import annotations

import pytest

from proxy.config import parse
from proxy.config.remarks import remarks

SEMANTIC = "fallback: {effect: read, ladder: [{name: full}, {name: cached, cache: {exact: true, semantic: 0.9, text: $.q}}]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SEMANTIC, ["route fallback, rung cached: semantic finds nothing, since no cache.service is given; the same request is found."]),
        (SEMANTIC.replace("exact: true", "exact: false"), ["route fallback, rung cached: semantic finds nothing, since no cache.service is given."]),
        (f"{SEMANTIC}\ncache: {{service: 'http://c'}}", []),
        ("fallback: {effect: read, cache: {first: true}}\ncache: {bytes: 0B}", ["route fallback: nothing is kept, since cache.bytes is 0B and no cache.store is given."]),
        ("routes: [{name: a, effect: read, ladder: [{name: b}, {name: c, cache: {}}]}]\ncache: {bytes: 0B}", ["route a: nothing is kept, since cache.bytes is 0B and no cache.store is given."]),
        ("fallback: {effect: read, cache: {first: true}}\ncache: {bytes: 0B, store: 'redis://h'}", []),
        ("fallback: {effect: read, ladder: [{name: a}, {name: b, set: {json: {$.a: 1}}}]}\nwrites: {fingerprint_bytes: 0B}", ["route fallback: no rung changes a body, since none is held with writes.fingerprint_bytes 0B."]),
        ("fallback: {effect: read, ladder: [{name: a}, {name: b, set: {query: {q: a}}}]}\nwrites: {fingerprint_bytes: 0B}", []),
        ("cache: {bytes: 0B}", []),
        ("", []),
    ],
)  # fmt: skip
def test_remarks(text: str, expected: list[str]) -> None:
    """Each names its route, and what makes it so."""
    assert list(remarks(parse(text))) == expected
