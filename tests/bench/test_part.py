"""What the commands of all parts have in common."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench import part
from bench.procs import Failed, Missing
from bench.report import Table

TABLE = Table("Figures", ["", "ms"], [["a call", "1.5"]])


def _given(*words: str, results: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    part.add_output(parser, results)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("fault", "status"),
    [(Missing("no envoy"), 2), (Failed("it fell over"), 2), (OSError("full"), 2), (KeyboardInterrupt(), 130)],
    ids=repr,
)
def test_what_cannot_be_measured_ends_the_command(fault: BaseException, status: int) -> None:
    """With the status that says so."""
    with pytest.raises(SystemExit) as end, part.measuring():
        raise fault
    assert end.value.code == status


def test_a_fault_of_our_own_is_no_missing_measurement() -> None:
    """It shows where it comes from."""
    with pytest.raises(ZeroDivisionError), part.measuring():
        _ = 1 // 0


@pytest.mark.parametrize(
    ("words", "kept", "status"), [([], False, 0), (["--check"], False, 1), (["--check"], True, 0)]
)
def test_only_a_check_fails_on_a_broken_promise(
    words: list[str], kept: bool, status: int, tmp_path: Path
) -> None:
    """And what was measured is kept whatever it says."""
    results = tmp_path / "some.json"
    arguments = _given(*words, results=results)
    assert part.concluded(arguments, [TABLE], {"ms": 1.5}, "every figure", kept=kept) == status
    assert json.loads(results.read_text()) == {"ms": 1.5}


def test_tables_are_markdown_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For README.md."""
    arguments = _given("--markdown", results=tmp_path / "some.json")
    part.concluded(arguments, [TABLE], {}, "every figure", kept=True)
    assert "| a call | 1.5 |" in capsys.readouterr().out
