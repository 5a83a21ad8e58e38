"""What the tests of real clients share: a sidecar, a tool behind it, and the environment that leads from one to the other."""

from __future__ import annotations

import itertools
import os
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tests.clients.calls import Call
from tests.support.fixtures import ca, ca_file
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

__all__ = ["ca", "ca_file"]

TOOL, SAFE = free_port(), free_port()
CAP = "400ms"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def running_sidecar(ca_file: Path) -> Iterator[Sidecar]:
    """One sidecar for all clients. What is slow is cut soon; the rest has the whole budget."""
    tool, safe = f"http://127.0.0.1:{TOOL}", f"https://127.0.0.1:{SAFE}"
    ca = str(ca_file)
    policy = {
        "writes": {"linger": "300ms"},
        "routes": [
            {"name": "slow", "match": {"path": "/slow/**"}, "cap": CAP},
            {"name": "secure", "match": {"path": "/secure/**"}, "tls": "originate", "ca": ca},
            {"name": "slow-tool", "prefix": "/tool/slow", "upstream": f"{tool}/slow", "cap": CAP},
            {"name": "tool", "prefix": "/tool", "upstream": tool},
            {"name": "safe-tool", "prefix": "/safe-tool", "upstream": safe, "ca": ca},
        ],
    }
    with Sidecar(policy) as sidecar:
        yield sidecar


@pytest.fixture(scope="session")
def running_tool() -> Iterator[Upstream]:
    """The tool that is called in plain HTTP, for as long as the sidecar may hold connections to it."""
    with Upstream(port=TOOL) as tool:
        yield tool


@pytest.fixture(scope="session")
def running_safe_tool(ca: trustme.CA) -> Iterator[Upstream]:
    """The tool that is called in HTTPS, with a certificate of the test's authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    with Upstream(port=SAFE, tls=context) as tool:
        yield tool


@pytest.fixture
def sidecar(running_sidecar: Sidecar) -> Iterator[Sidecar]:
    """The sidecar. A fault that it reports of itself fails the test in which it did."""
    before = len(running_sidecar.faults)
    yield running_sidecar
    assert not running_sidecar.faults[before:]


@pytest.fixture
def tool(running_tool: Upstream) -> Upstream:
    """The plain tool, with nothing counted yet."""
    return _forgetful(running_tool)


@pytest.fixture
def safe_tool(running_safe_tool: Upstream) -> Upstream:
    """The TLS tool, with nothing counted yet."""
    return _forgetful(running_safe_tool)


def _forgetful(tool: Upstream) -> Upstream:
    tool.requests.clear()
    tool.whole.clear()
    return tool


@pytest.fixture
def clients_wait_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the pauses between a client's own attempts. How often it tries is left to it."""
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.01)))


@pytest.fixture
def calling(sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Call]:
    """Makes a call's circumstances: a budget of its own, and the environment that sends a client through the sidecar."""

    def make(base: str, *, remaining_ms: int | None = 10_000, ca: Path | None = None) -> Call:
        budget = f"run-{next(_numbers)}"
        proxy = sidecar.budget_url(budget, remaining_ms)
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", proxy)
            monkeypatch.setenv(f"{scheme}_proxy".upper(), proxy)
        return Call(base, proxy, budget, ca)

    # Every client names itself, asks a metadata service or reads a home directory unless it is told not to.
    for name in list(os.environ):
        if name.startswith(
            ("AWS_", "OPENAI_", "ANTHROPIC_", "STRIPE_", "AZURE_", "LANGSMITH_", "LANGCHAIN_")
        ):
            monkeypatch.delenv(name)
    return make
