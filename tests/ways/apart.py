"""A network namespace for one thread: addresses of its own, and iptables rules that lead to a sidecar as in a pod.

    with apart() as space, space.sidecar() as sidecar, Upstream(answer(), host=sidecar.inside) as upstream:
        ... connections to (upstream.host, upstream.port) arrive at the sidecar, but for the sidecar's own ...

Everything that the thread starts is in the namespace too: sockets, threads, processes. It goes with the last of them.
Nothing in it can reach the machine's network, nor be reached from there.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.sidecar import Sidecar

T = TypeVar("T")

UID = 2180
"""Whom the sidecar runs as, in the pod and here: the rules let this user's connections through."""

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET, linux/sched.h; os.unshare and os.setns are in Python from 3.12 on
_OWN = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)
_TABLES = {4: "iptables", 6: "ip6tables"}
_LOOPBACK = {4: "127.0.0.0/8", 6: "::1/128"}


class Redirected(Sidecar):
    """A sidecar that runs as its own user. `inside`, `inside6`: addresses whose connections are led to it.

    `as_user`: the words before a command that run it as that user.
    """

    def __init__(self, space: Space, policy: str | dict[str, Any], number: int, uid: int) -> None:
        super().__init__(policy)
        self.inside, self.inside6 = f"10.9.{number}.2", f"fd09:{number}::2"
        self.as_user = as_user(uid)
        os.chown(self.folder, uid, uid)
        run("ip", "-4", "address", "add", f"{self.inside}/24", "dev", "lo")
        run("ip", "-6", "address", "add", f"{self.inside6}/64", "dev", "lo", "nodad")
        for version, network in ((4, f"10.9.{number}.0/24"), (6, f"fd09:{number}::/64")):
            space.rule(version, "-d", network, "-j", "REDIRECT", "--to-ports", str(self.outbound))

    def __enter__(self) -> Redirected:
        self.start()
        return self

    def _program(self) -> list[str | Path]:
        return [*self.as_user, *super()._program()]


class Space:
    """The namespace. Each sidecar gets networks of its own."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        run("ip", "link", "set", "lo", "up")
        for version in _TABLES:
            self.rule(version, "-m", "owner", "--uid-owner", str(UID), "-j", "RETURN")
            self.rule(version, "-d", _LOOPBACK[version], "-j", "RETURN")

    def rule(self, version: int, *words: str) -> None:
        """Add a rule for connections that begin here."""
        run(_TABLES[version], "-w", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", *words)

    def sidecar(self, policy: str | dict[str, Any] = "", uid: int = UID) -> Redirected:
        """A sidecar, not started yet, and the rules that lead to it."""
        return Redirected(self, policy, next(self._numbers), uid)


@contextlib.contextmanager
def apart() -> Iterator[Space]:
    """Be in a namespace of one's own for a while. Skips, with the reason, where the machine does not allow it."""
    with namespace():
        yield allowed(Space)


@contextlib.contextmanager
def namespace() -> Iterator[str]:
    """Be in an empty namespace for a while; yields the path of its file. Skips where the machine does not allow it."""
    missing = [name for name in ("ip", "iptables", "ip6tables", "setpriv") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a network namespace")
    with open(_OWN) as before:  # noqa: PTH123 - its descriptor is what counts
        if _libc.unshare(_NEW_NETWORK) != 0:
            pytest.skip(f"this machine allows no network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            with open(_OWN) as own:  # noqa: PTH123
                yield f"/proc/{os.getpid()}/fd/{own.fileno()}"
        finally:
            assert _libc.setns(before.fileno(), _NEW_NETWORK) == 0


@contextlib.contextmanager
def within(namespace: str) -> Iterator[None]:
    """Be in another namespace, of which this is the path, for a while."""
    with open(_OWN) as before, open(namespace) as there:  # noqa: PTH123
        assert _libc.setns(there.fileno(), _NEW_NETWORK) == 0
        try:
            yield
        finally:
            assert _libc.setns(before.fileno(), _NEW_NETWORK) == 0


def allowed(prepare: Callable[[], T]) -> T:
    """Do what the machine may not allow; skips, with the reason, where it does not."""
    try:
        return prepare()
    except subprocess.CalledProcessError as failure:
        pytest.skip(f"this machine does not allow it: {failure.cmd}: {failure.stderr.strip()}")


def run(*command: str) -> None:
    """Run a command; raises CalledProcessError with what it said."""
    subprocess.run(command, check=True, capture_output=True, text=True)


def as_user(uid: int) -> list[str | Path]:
    """Return the words that run a program as another user. He may read the checkout, wherever it is."""
    plain: list[str | Path] = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    reading: list[str | Path] = ["--inh-caps", "-all,+dac_read_search", "--ambient-caps", "+dac_read_search"]
    said = ""
    for words in ([*plain, "--inh-caps", "-all", "--"], [*plain, *reading, "--"]):
        tried = subprocess.run(
            [*words, sys.executable, "-c", "import proxy.app"], capture_output=True, check=False
        )
        if tried.returncode == 0:
            return words
        said = tried.stderr.decode().strip()
    pytest.skip(f"user {uid} cannot run the program here: {said}")
