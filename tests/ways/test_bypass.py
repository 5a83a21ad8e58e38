"""The gauge of what goes past the sidecar, over real connections of a pod."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.behaviours import stall
from tests.support.callers import Caller
from tests.support.ports import free_port
from tests.support.upstream import Upstream
from tests.support.waiting import PATIENCE, eventually
from tests.ways.apart import within
from tests.ways.podnet import FAR, POD, WORLD, PodNetwork, PodSidecar, pod_network, python, redirect

APP_USER = 1000
HOLD = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10):
    print("open", flush=True)
    sys.stdin.read()
"""

both = pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])


@pytest.fixture
def pod() -> Iterator[PodNetwork]:
    with pod_network() as pod:
        yield pod


@both
def test_in_environment_mode(pod: PodNetwork, version: int) -> None:
    """Who obeys is not counted, who does not is, and the log says where it leads. Nor is counted what others open."""
    with (
        pod.sidecar() as sidecar,
        pod.in_the_world(Upstream(stall(), host=WORLD[version])) as tool,
        Upstream(stall(), host=POD[version]) as own,
    ):
        with contextlib.ExitStack() as open_ones:
            opening = open_ones.enter_context
            opening(Caller(sidecar)).request("GET", tool.url("/obeys"))
            tool.wait(lambda up: up.requests)
            opening(_open(own.host, own.port))
            with within(pod.world):
                opening(_open(own.host, own.port))
            opening(_held(tool.host, tool.port))
            _shows(sidecar, 1, 0)
        (remote,) = sidecar.event("bypass_seen")["remotes"]
        assert remote == tool.authority
        _shows(sidecar, 0, 0)


@both
def test_in_redirect_mode(pod: PodNetwork, version: int) -> None:
    """Who is led here is not counted, even where two share a port; who is excluded is counted as that."""
    excluded = ("--exclude-outbound-ports", "7100-7200", "--exclude-outbound-cidrs", f"{FAR[version]}")
    assert redirect(*excluded).returncode == 0
    with (
        pod.sidecar(options=excluded) as sidecar,
        pod.in_the_world(Upstream(stall(), host=WORLD[version])) as tool,
        pod.in_the_world(Upstream(stall(), host=WORLD[version])) as second,
        pod.in_the_world(Upstream(stall(), host=WORLD[version], port=7150)) as by_port,
        pod.in_the_world(Upstream(stall(), host=FAR[version])) as by_network,
        contextlib.ExitStack() as open_ones,
    ):
        port = free_port()
        for upstream in (tool, second):
            client = open_ones.enter_context(_open(upstream.host, upstream.port, source=(POD[version], port)))
            client.sendall(b"GET / HTTP/1.1\r\nHost: tool\r\n\r\n")
            upstream.wait(lambda up: up.requests)
            assert upstream.requests[0].get("via") is not None
        for upstream in (by_port, by_network):
            open_ones.enter_context(_open(upstream.host, upstream.port))
        _shows(sidecar, 0, 2)
        # Whoever runs as the sidecar's user is let through, and taken for the sidecar.
        open_ones.enter_context(_held(by_port.host, by_port.port, sidecar))
        open_ones.enter_context(_open(by_port.host, by_port.port))
        _shows(sidecar, 0, 3)
        assert not [event for event in sidecar.events if event["event"] == "bypass_seen"]


def test_where_the_app_has_the_sidecars_user(pod: PodNetwork) -> None:
    """As on clusters that give a namespace's pods one user: the sidecar knows its own sockets all the same."""
    with (
        pod.sidecar(uid=APP_USER) as sidecar,
        pod.in_the_world(Upstream(stall(), host=WORLD[4])) as tool,
        Caller(sidecar) as caller,
        _held(tool.host, tool.port, sidecar),
    ):
        caller.request("GET", tool.url("/obeys"))
        tool.wait(lambda up: len(up.connections) == 2)
        _shows(sidecar, 1, 0)


def _shows(sidecar: PodSidecar, unexpected: int, excluded: int) -> None:
    """Wait for what the gauge should say. A look is good for a second, so the first answer may be of before."""
    expected = (unexpected, excluded)
    eventually(lambda: sidecar.bypasses() == expected, what=f"{expected}; last {sidecar.bypasses()}")


@contextlib.contextmanager
def _open(host: str, port: int, source: tuple[str, int] | None = None) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        client.settimeout(PATIENCE)
        if source is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.bind(source)
        client.connect((host, port))
        yield client


@contextlib.contextmanager
def _held(host: str, port: int, user_of: PodSidecar | None = None) -> Iterator[None]:
    """A connection of another process: the app's, or one that runs as the sidecar's user."""
    words = python("-c", HOLD, host, str(port), uid=None if user_of is not None else APP_USER)
    before = user_of.as_user if user_of is not None else []
    with subprocess.Popen(
        [*before, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "open\n"
        yield
        held.kill()
