"""The optional compiled wheel: with WATERCLOCK_COMPILE=1, mypyc turns the modules on a call's way into C.

One source serves both: each compiled module is still in the wheel as Python, for whoever reads a traceback, and the
interpreter prefers the compiled one beside it. Which modules, and why those, stands in pyproject.toml at this hook.

All of it happens on a copy of the sources in a temporary folder, which is removed with the build: an extension left beside
its source in the checkout would go on being imported after the source has been edited.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sysconfig
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED_BY: Final = "WATERCLOCK_COMPILE"
GROUP: Final = "waterclock"  # the library that all compiled modules share is waterclock__mypyc

# mypyc tests a tuple whose first item is a float (or a native integer) for "not set" by that item, and where it tests
# for the opposite, it comes out false for every value: a NameError at run time (mypyc/mypyc#1183). This finds such
# tests in the C code.
_MISCOMPILED: Final = re.compile(r"\.f0 != \S+ && PyErr_Occurred\(\)")
_NAMED: Final = re.compile(r'PyErr_SetString\(PyExc_NameError, "value for final name \\"(\w+)\\"')


class CannotCompile(Exception):
    """Why there is no compiled wheel, and what to do."""


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is of no use here
    """Adds the compiled modules to a wheel, and names the wheel after this platform. Does nothing unless asked."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Return what a build in an environment of its own has to install first."""
        project = tomllib.loads(Path(self.root, "pyproject.toml").read_text())
        return list(project["dependency-groups"]["compile"]) if _asked() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and hand the results to the wheel."""
        if not _asked():
            return
        if version == "editable":
            self.app.display_warning(f"{ASKED_BY} is set, but an editable installation is never compiled")
            return
        self._folder = tempfile.TemporaryDirectory(prefix="waterclock-compile-")
        workshop = Path(self._folder.name)
        try:
            made = _made_in(workshop, Path(self.root), self.config["modules"])
        except CannotCompile as reason:
            self.app.abort(f"{ASKED_BY}: {reason}")
            return
        build_data["force_include"].update({str(workshop / path): path for path in made})
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Clear away."""
        if self._folder is not None:
            self._folder.cleanup()


def _asked() -> bool:
    return os.environ.get(ASKED_BY, "") not in ("", "0")


def _made_in(workshop: Path, root: Path, patterns: list[str]) -> list[str]:
    """Compile a copy of the sources; return the extensions, relative to the workshop."""
    _must_be_able()
    modules = _modules(root, patterns)
    shutil.copytree(root / "proxy", workshop / "proxy", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    # From there, because the names of files are written into the tracebacks as they are given.
    with contextlib.chdir(workshop):
        return _compile(modules)


def _must_be_able() -> None:
    """Say plainly what is missing: the compiler's own message is long, and names neither package."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise CannotCompile(f"there is no C compiler ({compiler}); on Debian: apt-get install gcc libc6-dev")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise CannotCompile("this Python came without its headers; on Debian: apt-get install python3-dev")


def _modules(root: Path, patterns: list[str]) -> list[str]:
    """Return the files to compile, relative to the root. A pattern that fits none is a mistake in the list."""
    found = []
    for pattern in patterns:
        fits = sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))
        if not fits:
            raise CannotCompile(f"{pattern!r}, in the list of modules in pyproject.toml, fits no file")
        found += fits
    return found


def _compile(modules: list[str]) -> list[str]:
    """Compile the modules in the current folder; return what has come of it, relative to this folder."""
    try:
        from setuptools import Distribution  # first: mypyc makes extensions of the kind that is loaded
        from mypyc.build import mypycify  # isort: skip
        from setuptools.command.build_ext import build_ext
    except ImportError as missing:
        raise CannotCompile(f"{missing}: pip install -r requirements/compile.txt") from missing

    # `make types` is where types are checked strictly. Here only the compiler's own rules count, so that a build needs
    # neither the stubs nor the packages that the sidecar runs with.
    options = ["--config-file=", "--ignore-missing-imports", "--no-warn-unused-ignores"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            extensions = mypycify([*options, *modules], opt_level="3", debug_level="0", group_name=GROUP)
    except SystemExit as end:
        reason = end.code if isinstance(end.code, str) else ""
        raise CannotCompile(f"mypyc does not take the sources\n{said.getvalue()}{reason}") from None
    _must_be_sound(Path("build"))
    for extension in extensions:
        # mypyc asks for -Werror, and a newer compiler warns of more than those that it knows. Hidden, functions of one module
        # that another calls are called directly, and can be inlined: nobody outside could replace them.
        extension.extra_compile_args += ["-Wno-error", "-fvisibility=hidden"]
    command = build_ext(Distribution({"name": GROUP, "ext_modules": extensions}))
    command.build_lib = "."
    command.ensure_finalized()
    command.run()
    return [Path(path).as_posix() for path in command.get_outputs()]


def _must_be_sound(generated: Path) -> None:
    """Look for what mypyc is known to get wrong."""
    for source in generated.glob("**/*.c"):
        text = source.read_text()
        for wrong in _MISCOMPILED.finditer(text):
            named = _NAMED.search(text, wrong.end(), wrong.end() + 200)
            what = f"the constant {named[1]}" if named else "a tuple that begins with a float"
            raise CannotCompile(
                f"mypyc would get {what} wrong (mypyc/mypyc#1183); annotate it tuple[float, ...]"
            )
