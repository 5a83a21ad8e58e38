"""What other services answer in JSON: Prometheus to `waterclock tune`, the semantic cache, a service of embeddings.

Each is understood, or refused in the way that its caller expects.
"""

from __future__ import annotations

import json
import math
from typing import Final

from proxy.config import parse
from proxy.degrade.cache.semantic import _brought
from proxy.net.ask import Answer
from proxy.semantic.embeddings.remote import _vectors
from proxy.tuning.asking import Prometheus
from proxy.tuning.faults import Untunable
from proxy.tuning.histograms import read_histograms
from trials.fuzz.target import Seen, Target, gist, hold

_POLICY: Final = parse(
    "budget: {default: 10s, reserve: 1s, stages: {retrieval: 3s, llm: 5s}}\n"
    "routes:\n  - {name: chat, match: {host: chat}, stage: llm}\n",
    has_files=False,
)
_MOST: Final = 4096


class _Answers(Prometheus):
    """Answers every query with the same bytes."""

    def __init__(self, body: bytes) -> None:
        super().__init__("http://prometheus")
        self._body = body

    def _get(self, target: str) -> tuple[int, str, bytes]:
        return 200, "", self._body


def check(data: bytes) -> Seen:
    """Take it for the answer of each."""
    return _of_prometheus(data) | _of_semantic(data) | _of_embeddings(data)


def _of_prometheus(data: bytes) -> set[str]:
    prometheus = _Answers(data)
    try:
        series = prometheus.query("up")
        measured = read_histograms(prometheus.query, _POLICY, "1d", "")
    except Untunable as problem:
        hold(str(problem), "a-refusal-explains-itself")
        return {f"untunable: {gist(str(problem))}"}
    hold(all(isinstance(each.value, float) for each in series), "a-value-is-a-number", series)
    hold(all(use.needs.total >= 0 for use in measured.stages.values()), "no-count-is-negative", measured)
    return {f"series {min(len(series), 3)}, notes {min(len(measured.notes), 3)}"}


def _of_semantic(data: bytes) -> set[str]:
    try:
        brought = _brought(Answer(200, data), 0.9, _MOST)
    except (ValueError, OverflowError, RecursionError) as error:
        return {f"semantic: {type(error).__name__}"}
    if brought is not None:
        entry, held = brought
        hold(0 <= held <= entry.kept, "held-is-within-its-time", entry, held)
    return {f"semantic: {brought is not None}"}


def _of_embeddings(data: bytes) -> set[str]:
    try:
        vectors = _vectors(json.loads(data), 2)
    except (ValueError, RecursionError) as error:
        return {f"embeddings: {gist(str(error)) if 'data' in str(error) else type(error).__name__}"}
    hold(len(vectors) == 2, "a-vector-for-each-text", vectors)
    for vector in vectors:
        hold(vector is None or all(map(math.isfinite, vector)), "a-vector-is-finite", vector)
    return {f"embeddings: {sum(vector is not None for vector in vectors)}"}


TARGET: Final = Target(
    "answers",
    "what other services answer (Prometheus, the semantic cache, embeddings): understood, or refused as their callers expect",
    check,
    tokens=(
        b'{"status":"success","data":{"resultType":"vector","result":[]}}',
        b'{"metric":{"stage":"llm","le":"0.5"},"value":[1,"3"]}',
        b'"value":[]',
        b'"value":"ab"',
        b'"metric":{}',
        b'"le":"+Inf"',
        b'"le":"NaN"',
        b'"stage":"retrieval"',
        b'"warnings":["a"]',
        b'"status":"error","error":"x"',
        b'{"found":false}',
        b'"found":true',
        b'"age_ms":5',
        b'"similarity":0.95',
        b'"entry":"V0NF"',
        b'{"data":[{"index":0,"embedding":[1.0,2]},{"index":1,"embedding":[0,0]}]}',
        b"1e308",
        b"1e999",
        b"9" * 400,
        b"NaN",
        b"null",
        b"-1",
        b'""',
        b"[]",
        b"{}",
    ),
)
