"""Which interpreter the compiled build is installed with: `python tools/optimized_python.py` prints its path.

An interpreter that was built with profile-guided and link-time optimization takes a third less time for what is left to it.
Distributions, the official container images and uv build theirs so; pyenv and a plain `./configure` do not, unless told to.
So the answer is this interpreter if it was built so, else another one of the same version and binary interface that was and
that can make an environment, else this one after all.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# Asked of each candidate: its version and binary interface, how it was configured, and whether venv would work. Debian strikes the
# two options from what it says of itself, so the interpreter of a distribution is taken by its place.
_QUESTION: Final = """
import ensurepip, sys, sysconfig, venv
from pathlib import Path
said = sysconfig.get_config_var("CONFIG_ARGS") or ""
asked = "--enable-optimizations" in said or "--with-lto" in said
print(sys.version_info[:2], sysconfig.get_config_var("SOABI"), asked or Path(sys.base_prefix) == Path("/usr"))
"""
_WITHIN_S: Final = 10


def ask(python: str) -> str | None:
    """Return what an interpreter says of itself; None if it cannot be used."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=_WITHIN_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def choose(own: str, others: list[str]) -> str:
    """Return the interpreter to use."""
    said = ask(own)
    if said is None or said.endswith(" True"):
        return own
    wanted = said.removesuffix("False") + "True"
    return next((other for other in others if ask(other) == wanted), own)


def candidates() -> list[str]:
    """Return where another interpreter of this version may lie."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    places = [Path("/usr/bin", name), Path("/usr/local/bin", name)]
    found = [str(place) for place in places if place.is_file()]
    on_path = shutil.which(name)
    return found if on_path is None else [*found, on_path]


if __name__ == "__main__":
    print(choose(sys._base_executable, candidates()))  # type: ignore[attr-defined]  # of a venv, what it was made with
