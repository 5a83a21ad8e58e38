"""What one call takes is counted, and held to the floors: a regression shows on any machine, however busy it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from bench.builds import COMPILED, PURE
from bench.comparison.floors import INSTRUCTIONS, LEAKED_BLOCKS
from bench.hotpath import one_call

_WITHIN_S: Final = 50


@pytest.fixture(scope="module")
def counted() -> dict[str, dict[str, Any]]:
    """What one_call says of each kind of call, on the build that is being tested."""
    command = [sys.executable, "-P", str(Path(one_call.__file__)), "1", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=True)
    return {said["kind"]: said for said in map(json.loads, done.stdout.splitlines())}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="another Python has other instructions")
@pytest.mark.parametrize("kind", one_call.REQUESTS)
def test_a_call_takes_no_more_instructions(kind: str, counted: dict[str, dict[str, Any]]) -> None:
    """Of the interpreter. The floors leave a tenth: whoever needs more says why, and raises them."""
    found = counted[kind]
    assert found["instructions"] <= INSTRUCTIONS[COMPILED if found["compiled_modules"] else PURE][kind]


@pytest.mark.parametrize("kind", one_call.REQUESTS)
def test_a_call_leaves_nothing_behind(kind: str, counted: dict[str, dict[str, Any]]) -> None:
    """No block of memory that not even the garbage collector frees, and no object that waits for that."""
    assert counted[kind]["leaked"] < LEAKED_BLOCKS
    assert counted[kind]["garbage"] < 1
