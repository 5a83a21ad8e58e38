"""The optional compiled build (hatch_build.py): what it is made of, and that nobody takes the one build for the other."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import hatch_build
from hatch_build import CannotCompile

ROOT = Path(__file__).parent.parent
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
PATTERNS: list[str] = WHEEL["hooks"]["custom"]["modules"]

# What mypyc makes of `LOOKS: Final = (0.0, 0.002)` where it is used by a computed index: never true.
WRONG = """
    cpy_r_r86 = CPyStatic_client___LOOKS;
    if (likely(cpy_r_r86.f0 != -113.0 && PyErr_Occurred())) goto CPyL67;
    PyErr_SetString(PyExc_NameError, "value for final name \\"LOOKS\\" was not set");
"""


def test_nothing_compiled_lies_beside_a_source() -> None:
    """It would go on being imported after the source has been edited."""
    assert [path for path in (ROOT / "proxy").rglob("*") if path.suffix in (".so", ".c", ".pyd")] == []


def test_tests_on_the_compiled_build_have_it_before_them() -> None:
    """`make test-compiled` would pass just as well if `proxy` were the one of the checkout. Each module on the list is there."""
    files = {
        path: str(importlib.import_module(path.removesuffix(".py").replace("/", ".")).__file__)
        for path in _listed()
    }
    compiled = {path for path, file in files.items() if not file.endswith(".py")}
    assert compiled == (set(files) if os.environ.get(hatch_build.ASKED_BY) else set())


def test_wheel_is_pure_unless_asked(tmp_path: Path) -> None:
    """Whoever builds without a thought gets what runs everywhere."""
    environment = {name: value for name, value in os.environ.items() if name != hatch_build.ASKED_BY}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    [wheel] = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")] == []


def test_list_of_modules_has_no_dead_entry() -> None:
    """A module that is renamed would otherwise drop out of the compiled build without a word."""
    assert len(_listed()) > len(PATTERNS)
    with pytest.raises(CannotCompile, match=r"'proxy/core/gone\.py'.*fits no file"):
        hatch_build._modules(ROOT, ["proxy/core/gone.py"])


def test_known_miscompilation_stops_the_build(tmp_path: Path) -> None:
    """mypyc/mypyc#1183: the build names the constant, rather than leaving a NameError for the first call that needs it."""
    generated = tmp_path / "build" / "native.c"
    generated.parent.mkdir()
    generated.write_text(WRONG)
    with pytest.raises(CannotCompile, match=r"LOOKS.*tuple\[float, \.\.\.\]"):
        hatch_build._must_be_sound(tmp_path)
    generated.write_text(WRONG.replace("!=", "==").replace("likely", "unlikely"))
    hatch_build._must_be_sound(tmp_path)


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, not a page of the compiler driver's."""
    monkeypatch.setenv("CC", "/nowhere/gcc -pthread")
    with pytest.raises(CannotCompile, match=r"no C compiler \(/nowhere/gcc\).*apt-get install gcc"):
        hatch_build._must_be_able()


def _listed() -> list[str]:
    return hatch_build._modules(ROOT, PATTERNS)
