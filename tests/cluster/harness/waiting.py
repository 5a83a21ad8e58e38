"""Waiting for the cluster, with a limit that only a failure reaches, and a failure that says what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.cluster.harness.commands import CommandFailed, Object, get, kubectl, listed

T = TypeVar("T")

PATIENCE = 60.0
"""How long anything may take on a busy node before the test gives up (seconds)."""
PAUSE = 0.25


def eventually(what: str, look: Callable[[], T | None], *, within: float = PATIENCE) -> T:
    """Look until there is something true to see, and return it. A failed command or check counts as nothing seen."""
    end = time.monotonic() + within
    while True:
        try:
            seen = look()
            last = repr(seen)
        except AssertionError as failure:
            seen, last = None, str(failure)
        if seen:
            return seen
        if time.monotonic() >= end:
            raise AssertionError(f"not within {within:g} s: {what}; last seen: {last}")
        time.sleep(PAUSE)


def rolled_out(kind: str, name: str, namespace: str, *, within: float = PATIENCE) -> None:
    """Wait until a Deployment or DaemonSet is in force with all of its pods."""
    kubectl(
        "rollout",
        "status",
        f"{kind}/{name}",
        "--namespace",
        namespace,
        f"--timeout={within:g}s",
        seconds=within + 10,
    )


def ready(name: str, namespace: str, *, within: float = PATIENCE) -> Object:
    """Wait until a pod is ready, and return it."""
    try:
        kubectl(
            "wait",
            "--for=condition=Ready",
            f"pod/{name}",
            "--namespace",
            namespace,
            f"--timeout={within:g}s",
            seconds=within + 10,
        )
    except CommandFailed as failure:
        raise AssertionError(f"{failure}\n{said_of(name, namespace)}") from None
    pod = get("pod", name, namespace)
    assert pod is not None
    return pod


def ended(name: str, namespace: str, *, within: float = PATIENCE) -> Object:
    """Wait until a pod has ended, well or not, and return it."""

    def look() -> Object | None:
        pod = get("pod", name, namespace)
        return pod if pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed") else None

    return eventually(f"pod {namespace}/{name} ends", look, within=within)


def gone(kind: str, name: str, namespace: str | None = None, *, within: float = PATIENCE) -> None:
    """Wait until there is no such object any more."""
    eventually(f"{kind} {name} is gone", lambda: get(kind, name, namespace) is None, within=within)


def one_pod(namespace: str, **labels: str) -> Object:
    """Wait until just one pod has these labels (those on their way out do not count), and return it."""

    def look() -> Object | None:
        pods = [
            pod for pod in listed("pods", namespace, **labels) if "deletionTimestamp" not in pod["metadata"]
        ]
        return pods[0] if len(pods) == 1 else None

    return eventually(f"one pod with {labels} in {namespace}", look)


def said_of(name: str, namespace: str) -> str:
    """What the cluster has to say of a pod that is not as it should be."""
    told = []
    for arguments in (
        ("describe", "pod", name),
        ("logs", name, "--all-containers", "--prefix", "--tail=40"),
    ):
        try:
            told.append(kubectl(*arguments, "--namespace", namespace))
        except CommandFailed as failure:
            told.append(str(failure))
    return "\n".join(told)
