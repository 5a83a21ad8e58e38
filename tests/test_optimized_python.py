"""The compiled build is installed with an interpreter that was built with optimizations, where there is one that can run it."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.optimized_python import ask, choose


def says(folder: Path, name: str, words: str) -> str:
    """A program that answers every question with the same words."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{words}'\n")
    program.chmod(0o755)
    return str(program)


def test_an_interpreter_says_what_it_is() -> None:
    """Version, binary interface, and whether it was optimized."""
    said = ask(sys._base_executable)  # type: ignore[attr-defined]
    assert said is None or said.startswith(f"({sys.version_info.major}, {sys.version_info.minor}) cpython-")
    assert ask("/nowhere/python") is None


def test_one_of_the_same_kind_is_preferred(tmp_path: Path) -> None:
    """Another version, or another binary interface, could not load what was compiled."""
    own = says(tmp_path, "own", "(3, 11) cpython-311-x86_64-linux-gnu False")
    later = says(tmp_path, "later", "(3, 13) cpython-313-x86_64-linux-gnu True")
    debug = says(tmp_path, "debug", "(3, 11) cpython-311d-x86_64-linux-gnu True")
    plain = says(tmp_path, "plain", "(3, 11) cpython-311-x86_64-linux-gnu False")
    fast = says(tmp_path, "fast", "(3, 11) cpython-311-x86_64-linux-gnu True")
    assert choose(own, [later, debug, plain, "/nowhere/python", fast]) == fast
    assert choose(own, [later, debug, plain]) == own
    assert choose(fast, [own]) == fast
