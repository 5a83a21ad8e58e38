"""The policy's file while the sidecar runs: what it says is put in force when it changes, whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from proxy.config import ConfigError, Fault, digest, parse, read
from proxy.core.pod import PodTerms, hold_to
from proxy.core.policy import Policy
from proxy.observe.steplog import StepLog

WATCH_SECONDS: Final = 1.0
_WRITE_BRACES: Final = "write {} if the built-in policy is meant"


class PolicyFile:
    """The file, or none for the built-in policy, held to what the pod says. `started_with`: as it was read first.

    `reloads` counts attempts by their result; `last_failed`: what the file says now is not in force.
    """

    def __init__(self, path: Path | None, pod: PodTerms, log: StepLog) -> None:
        """Read the policy. Raises ConfigError with every fault of it."""
        self._path = path
        self._pod = pod
        self._log = log
        self._text = read(path) if path is not None else ""
        written = parse(self._text, str(path)) if path is not None else Policy()
        self.started_with = hold_to(written, pod)
        self.reloads = {"success": 0, "failure": 0}
        self.last_failed = False
        self._adopt: Callable[[Policy], None] | None = None

    @property
    def digest(self) -> str:
        """The digest of the policy in force."""
        return digest(self._text)

    def watch(self, adopt: Callable[[Policy], None]) -> None:
        """Hand every further policy to `adopt`."""
        self._adopt = adopt
        if self._path is not None:
            asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look, _identity(self._path))

    def reload(self) -> None:
        """Put the file's policy in force, whole; a faulty one changes nothing."""
        if self._path is None or self._adopt is None:
            self._log.event(
                "reload_ignored", problem="the sidecar was started without a file", remedy="run -c FILE"
            )
            return
        try:
            text = read(self._path)
            if not text.strip() and self._text.strip():
                raise ConfigError(
                    [Fault(str(self._path), None, "", "the file has become empty", _WRITE_BRACES)]
                )
            policy = hold_to(parse(text, str(self._path)), self._pod)
        except ConfigError as error:
            self.reloads["failure"] += 1
            self.last_failed = True
            self._log.event(
                "reload_failed", faults=[str(fault) for fault in error.faults], policy=self.digest
            )
            return
        self._adopt(policy)
        self._text = text
        self.reloads["success"] += 1
        self.last_failed = False
        self._log.event(
            "reloaded", policy=self.digest, mode=policy.mode, needs_restart=_fixed(self.started_with, policy)
        )

    def _look(self, seen: tuple[int, ...] | None) -> None:
        """Reload when the file has become another one: edited, or exchanged by the kubelet."""
        assert self._path is not None
        now = _identity(self._path)
        if now != seen:
            self.reload()
        asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look, now)


def _fixed(first: Policy, policy: Policy) -> list[str]:
    """Return the keys that have changed and cannot take hold before a restart."""
    return [
        name
        for name, before, after in (
            ("listen", first.listen, policy.listen),
            ("journal.path", first.journal.path, policy.journal.path),
            ("journal.sync", first.journal.sync, policy.journal.sync),
            ("journal.retention", first.journal.retention, policy.journal.retention),
        )
        if before != after
    ]


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written or exchanged; None while there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
