"""The project's own files agree with each other: what is declared, what is locked, and what is installed."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import proxy

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Each lock file, and what in pyproject.toml it is made from ("run" stands for the package's own dependencies).
SOURCES = {
    "run": {"run"},
    "build": {"build"},
    "compile": {"build", "compile"},
    "dev": {"run", "kubernetes", "redis", "semantic", "build", "compile", "test", "lint"},
    "image": {"run", "kubernetes", "redis"},
    "cache": {"run", "semantic"},
    "bench": {"run", "build", "bench"},
    "peers": {"peers"},
}


def declared(groups: set[str]) -> list[Requirement]:
    """What pyproject.toml asks for under these names."""
    project = PROJECT["project"]
    asked = {"run": project["dependencies"]} | project["optional-dependencies"] | PROJECT["dependency-groups"]
    return [Requirement(text) for group in sorted(groups) for text in asked[group]]


def locked(name: str) -> dict[str, Version]:
    """The versions that requirements/NAME.txt pins."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {
        canonicalize_name(package): Version(version)
        for package, version in re.findall(r"^([\w.-]+)==([\w.!+]+)", text, re.MULTILINE)
    }


def test_every_group_is_locked() -> None:
    """A group added to pyproject.toml has to go into a lock file."""
    assert set.union(*SOURCES.values()) == {
        "run",
        *PROJECT["project"]["optional-dependencies"],
        *PROJECT["dependency-groups"],
    }
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_lock_satisfies_pyproject(name: str) -> None:
    """After a change in pyproject.toml somebody ran `make lock`."""
    pins = locked(name)
    for requirement in declared(SOURCES[name]):
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement} is not in requirements/{name}.txt: run make lock"
        assert pin in requirement.specifier, f"{requirement} against {pin} in {name}.txt: run make lock"


@pytest.mark.parametrize("name", ["run", "image", "cache", "build", "compile", "bench"])
def test_locks_agree(name: str) -> None:
    """What runs in the image and in a benchmark is what the tests ran with."""
    dev = locked("dev")
    assert {package: pin for package, pin in locked(name).items() if dev.get(package, pin) != pin} == {}


@pytest.mark.parametrize("name", SOURCES)
def test_lock_is_hashed_and_names_no_place(name: str) -> None:
    """Each pin is held by a hash, and no address or folder of the machine that made the file is in it."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    for block in re.split(r"\n(?=[\w.-]+==)", text)[1:]:
        assert "--hash=sha256:" in block, block
    assert not re.search(r"://|--(extra-)?index-url|--find-links|(^|\s)/\w", text, re.MULTILINE)


def test_run_lock_is_small() -> None:
    """The image carries nothing of the tests, the tools or the build."""
    others = {
        canonicalize_name(requirement.name)
        for requirement in declared({"test", "lint", "build", "compile", "bench"})
    }
    assert others & set(locked("run")) == set()


def test_installed_version_is_the_declared_one() -> None:
    """What is installed has to be of this tree."""
    assert importlib.metadata.version("waterclock") == proxy.__version__, "run make test, or install again"


def test_the_injectors_libraries_stay_out_of_the_sidecar() -> None:
    """They would cost every pod their memory: neither the command line nor the sidecar loads them, however indirectly."""
    code = "import sys, proxy.app, proxy.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    heavy = {"kubernetes", "kubernetes_asyncio", "cryptography", "aiohttp", "proxy.kube"}
    assert heavy.isdisjoint(loaded.stdout.split())
