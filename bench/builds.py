"""The two builds of one source: Python as it stands in the checkout, and the wheel that `make compiled` makes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bench.procs import Missing

PURE: Final = "waterclock"
COMPILED: Final = "waterclock (compiled)"
BUILDS: Final = (PURE, COMPILED)

_ROOT: Final = Path(__file__).parent.parent
_PLACE: Final = _ROOT / ".venv-compiled"
_STAMP: Final = _PLACE / ".run"  # the Makefile's
_INSTALLED: Final = _PLACE / ".deps"  # the Makefile's


def interpreter(build: str) -> Path:
    """The interpreter that has a build installed. A compiled one that is older than the sources would mislead."""
    if build == PURE:
        return Path(sys.executable)
    if not _STAMP.is_file():
        raise Missing(f"{COMPILED} is not installed: make compiled (takes a C compiler)")
    newest = max((_ROOT / "proxy").rglob("*.py"), key=lambda path: path.stat().st_mtime)
    if newest.stat().st_mtime > _STAMP.stat().st_mtime:
        raise Missing(f"{COMPILED} is older than {newest.relative_to(_ROOT)}: make compiled")
    return _PLACE / "bin" / "python"


def program(build: str) -> Path:
    """The sidecar of a build, as it is run. Raises Missing."""
    path = interpreter(build).with_name("waterclock")
    if not path.is_file():
        raise Missing("waterclock is not installed: pip install -e . in this checkout")
    return path


def best_interpreter() -> Path:
    """For what else is Python here: that of the compiled build, which is the one of this machine that was built with
    optimizations, if any is. Without it, this one. It has the libraries that the sidecar takes, aiohttp among them.
    """
    return _PLACE / "bin" / "python" if _INSTALLED.is_file() else Path(sys.executable)
