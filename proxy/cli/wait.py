"""`waterclock wait`: until the sidecar is ready, or until the app has ended. What hooks of a container call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import click

from proxy.cli.output import fail
from proxy.cli.said import Said
from proxy.config.pod import longest_budget
from proxy.core.units import MILLISECOND, SECOND

_LOOK: Final = 100 * MILLISECOND
_PATIENCE_S: Final = 1.0
_LONGEST: Final = 4 * 1024 * 1024  # more than all metrics of a sidecar
# Calls that have ended, that have begun, and connections whose calls cannot be seen (docs/metrics.md).
_COUNTERS: Final = ("waterclock_steps_", "waterclock_opaque_connections_")


@click.command(short_help="Wait until the sidecar is ready.")
@click.option(
    "--timeout",
    type=Said("duration", longest_budget),
    default="60s",
    show_default=True,
    help="Give up after this.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=10803,
    show_default=True,
    help="Where the sidecar's health is asked for (listen.metrics), on 127.0.0.1.",
)
@click.option(
    "--for-app", is_flag=True, help="Wait until the app has ended instead, as a preStop hook of the sidecar."
)
@click.option(
    "--quiet",
    type=Said("duration", longest_budget),
    default="30s",
    show_default=True,
    help="With --for-app: how long the app must have given no sign before it counts as ended.",
)
def wait(timeout: int, port: int, for_app: bool, quiet: int) -> None:
    """Wait until the sidecar is ready: until GET /readyz answers 200.

    Ends with status 0 as soon as it is, 1 when the timeout has passed, with the reason of the last try. It is the health
    check of the image, and a script can stand behind it that needs the sidecar.

    Clusters without native sidecars start and stop all containers of a pod at once. There the injector makes `wait` the
    sidecar's postStart hook, so that the app starts after it, and `wait --for-app` its preStop hook, so that it stops after
    the app. What other containers run cannot be seen from here. So the app counts as ended when for 30 seconds (--quiet) it
    has made no call and no socket in the pod was another user's: a pod with the usual grace of 30 seconds takes all of it
    to end, one with a long grace ends 30 seconds after its app. With --for-app the status is 0 when the timeout passes too, since
    the pod has to end then.

    \b
    Examples:
      waterclock wait && python agent.py
      waterclock wait --timeout 3s
      waterclock wait --for-app --timeout 25s
    """
    if for_app:
        _wait_for_app(timeout, quiet, port)
        return
    try:
        _until(timeout, _LOOK, lambda: _not_ready(port))
    except _TimedOut as error:
        fail(
            f"the sidecar is not ready: {error}.\n"
            "Its log says what it waits for. If it listens elsewhere (listen.metrics), name the port with --port."
        )


class _TimedOut(Exception):
    """The last reason why it is not yet so."""


def _until(timeout: int, pause: int, why_not: Callable[[], str | None]) -> None:
    """Return when there is no reason any more. Spans in nanoseconds. Raises _TimedOut with the last one."""
    end = time.monotonic_ns() + timeout
    while (reason := why_not()) is not None:
        left = end - time.monotonic_ns()
        if left <= 0:
            raise _TimedOut(reason)
        time.sleep(min(pause, left) / SECOND)  # noqa: TID251 - no call passes through this process


def _not_ready(port: int) -> str | None:
    """Return why the sidecar is not ready, or None when it is."""
    try:
        status, said = _get(port, "/readyz")
    except OSError as error:
        return f"http://127.0.0.1:{port}/readyz: {error.strerror or error}"
    return None if status == 200 else f"it answers {status} {said[:200].strip()}"


def _get(port: int, path: str) -> tuple[int, str]:
    """Return status and body of what the sidecar answers on its metrics port. Raises OSError."""
    import http.client  # noqa: TID251 - a command may wait; no call passes through it

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)  # noqa: TID251 - see the import
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(_LONGEST).decode("utf-8", "replace")
    except http.client.HTTPException as error:  # noqa: TID251 - see the import
        raise OSError(f"what listens there speaks no HTTP ({type(error).__name__})") from None
    finally:
        connection.close()


def _wait_for_app(timeout: int, quiet: int, port: int) -> None:
    last_sign, calls = time.monotonic_ns(), _calls(port)

    def still_there() -> str | None:
        nonlocal last_sign, calls
        before, calls = calls, _calls(port)
        now = time.monotonic_ns()
        if calls != before or _sockets_of_others():
            last_sign = now
        return None if now - last_sign >= quiet else "the app is at work"

    try:
        _until(timeout, min(10 * _LOOK, quiet), still_there)
    except _TimedOut:
        click.echo("waterclock: the app may not have ended; the sidecar stops all the same", err=True)


def _calls(port: int) -> list[str]:
    """Return what the sidecar has counted of calls so far; nothing where it cannot be asked."""
    try:
        _, said = _get(port, "/metrics")
    except OSError:
        return []
    return [line for line in said.splitlines() if line.startswith(_COUNTERS)]


def _sockets_of_others() -> bool:
    """Say whether a socket in this network namespace is another user's; it is so where nobody can tell."""
    import os

    from proxy.net import tcp_table

    found = tcp_table.read()
    me = str(os.getuid()).encode()
    return found is None or any(each.user != me for each in found)
