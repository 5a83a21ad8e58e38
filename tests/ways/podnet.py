"""A pod's network, as a node gives it: one interface, and a world beyond it that can reach the pod.

    with pod_network() as pod, pod.in_the_world(Upstream(answer(), host=WORLD[4])) as tool, pod.sidecar() as sidecar:
        ... what this thread opens and starts is in the pod ...

Unlike `apart`, nothing of the world has an address of the pod's, and no rule leads anywhere yet.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.sidecar import PROGRAM, Sidecar
from tests.support.upstream import Upstream
from tests.ways.apart import UID, allowed, as_user, namespace, run, within

POD = {4: "10.8.0.2", 6: "fd08::2"}
WORLD = {4: "10.8.0.1", 6: "fd08::1"}
FAR = {4: "192.0.2.7", 6: "2001:db8::7"}
"""A second address of the world, in another network."""

_PREFIX = {4: 24, 6: 64}
_MOUNTS = 'mount -t tmpfs none /var/lib && mkdir -m 777 /var/lib/waterclock && exec "$@"'


class PodSidecar(Sidecar):
    """A sidecar as in a pod: its own user, its standard ports, its journal in a volume. `as_user` runs a command as it."""

    def __init__(self, policy: str | dict[str, Any], uid: int, options: tuple[str, ...]) -> None:
        super().__init__(policy, options=("--pod", *options))
        self.as_user = as_user(uid)
        self.outbound, self.control, self.metrics = 10800, 10802, 10803
        os.chown(self.folder, uid, uid)

    def __enter__(self) -> PodSidecar:
        self.start()
        return self

    def bypasses(self) -> tuple[float, float]:
        """What the gauge shows now: unexpected ones, and excluded ones."""
        samples = self.samples()
        unexpected, excluded = (
            samples[f'waterclock_bypass_connections{{reason="{reason}"}}']
            for reason in ("unexpected", "excluded")
        )
        return unexpected, excluded

    def _program(self) -> list[str | Path]:
        mounted = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _MOUNTS, "sh"]
        return [*mounted, *self.as_user, *super()._program()]


class PodNetwork:
    """The pod that the thread is in. `world`: the path of the other namespace."""

    def __init__(self, world: str) -> None:
        self.world = world
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "pod", "netns", world)
        _address("eth0", POD)
        with within(world):
            run("ip", "link", "set", "lo", "up")
            _address("pod", WORLD)
            for version, address in FAR.items():
                run("ip", f"-{version}", "address", "add", address, "dev", "lo")
        for version, gateway in WORLD.items():
            run("ip", f"-{version}", "route", "add", "default", "via", gateway)

    @contextlib.contextmanager
    def in_the_world(self, upstream: Upstream) -> Iterator[Upstream]:
        """A server out there."""
        with contextlib.ExitStack() as stack:
            with within(self.world):
                stack.enter_context(upstream)
            yield upstream

    def sidecar(
        self, policy: str | dict[str, Any] = "", *, options: tuple[str, ...] = (), uid: int = UID
    ) -> PodSidecar:
        """A sidecar, not started yet. `options`: of `waterclock run`, beside --pod."""
        return PodSidecar(policy, uid, options)


@contextlib.contextmanager
def pod_network() -> Iterator[PodNetwork]:
    """Be in a pod for a while. Skips, with the reason, where the machine does not allow it."""
    with namespace() as world, namespace():
        yield allowed(lambda: PodNetwork(world))


def redirect(*options: str, before: tuple[str | Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run `waterclock redirect`, after the words of `before`; what it ends with is the test's to judge."""
    return subprocess.run(
        [*before, PROGRAM, "redirect", *options], capture_output=True, text=True, check=False
    )


def tables() -> str:
    """What iptables-save says of both families, without its counters and dates."""
    said = "".join(
        subprocess.run([program], capture_output=True, text=True, check=True).stdout
        for version in ("iptables", "ip6tables")
        for program in (f"{version}-nft-save", f"{version}-legacy-save")
    )
    return "".join(f"{line}\n" for line in said.splitlines() if not line.startswith("#"))


def python(*words: str, uid: int | None = None) -> list[str | Path]:
    """The words that run a Python program, as another user where one is named."""
    return [*(as_user(uid) if uid is not None else []), sys.executable, *words]


def _address(device: str, addresses: dict[int, str]) -> None:
    for version, address in addresses.items():
        duplicates = ["nodad"] if version == 6 else []
        run(
            "ip", f"-{version}", "address", "add", f"{address}/{_PREFIX[version]}", "dev", device, *duplicates
        )
    run("ip", "link", "set", device, "up")
