"""All that one run has found, as tables and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from bench.comparison import added_table, start_table, throughput_table
from bench.comparison.added import Added
from bench.comparison.floors import Results, floors, judged, verdicts
from bench.comparison.throughput import Comparison
from bench.cuts import table as cuts_table
from bench.hotpath import table as hotpath_table
from bench.machine import told
from bench.report import Table, must_reach, promises


def tables(results: Results, about: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table for each part that ran, and what is promised of them."""
    yield told(about, results.versions)
    for each in results.throughput or []:
        yield throughput_table.table(each)
    if results.added is not None:
        yield added_table.table(results.added)
    if results.cuts is not None:
        yield from cuts_table.tables(results.cuts)
    if results.starts is not None:
        yield start_table.table(results.starts)
    if results.hotpath is not None:
        yield hotpath_table.table(results.hotpath)
    if reached := verdicts(results):
        yield must_reach(f"What {judged(results)} must reach", reached)
    if kept := floors(results):
        yield promises(f"What is promised besides of {judged(results)}", kept)


def as_json(results: Results, about: Mapping[str, Any]) -> dict[str, Any]:
    """Every round and every cut, so that other statistics can be made of them."""
    return {
        "machine": dict(about),
        "versions": results.versions,
        "throughput": [_comparison(each) for each in results.throughput or []],
        "added": _added(results.added) if results.added else None,
        "cuts": [asdict(each) for each in results.cuts or []],
        "starts": [asdict(each) for each in results.starts or []],
        "hotpath": [asdict(each) for each in results.hotpath or []],
        "targets": [asdict(each) for each in verdicts(results)],
        "floors": [asdict(each) for each in floors(results)],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    rows = [
        {
            "rate": row.rate,
            "ratio_to_envoy": row.ratio,
            "cpu_us": row.cpu_us,
            "cpu_ratio_to_envoy": row.cpu_ratio,
            **asdict(row),
        }
        for row in comparison.rows
    ]
    spent = comparison.spent
    return {
        "scenario": asdict(comparison.scenario),
        "rounds": spent.count,
        "seconds": spent.seconds,
        "gaps": comparison.gaps,
        "rows": rows,
    }


def _added(added: Added) -> dict[str, Any]:
    """Each time in whole microseconds, in the order in which the answers came."""
    rows = [
        {
            "name": row.name,
            "failed": row.failed,
            "unanswered": row.unanswered,
            "us": [[round(ms * 1000) for ms in block.ms] for block in row.blocks],
        }
        for row in added.rows
    ]
    return {"pace": asdict(added.pace), "gaps": added.gaps, "rows": rows}
