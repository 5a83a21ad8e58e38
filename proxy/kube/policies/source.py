"""The chart's policy: a file that the kubelet exchanges when the ConfigMap behind it changes. A faulty one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from proxy.config import ConfigError, digest, parse, read
from proxy.kube.backoff import Pause
from proxy.kube.log import Log

WATCH_SECONDS: Final = 1.0
BUILT_IN: Final = "{}\n"
"""What stands for the built-in policy. Sidecars do not believe a file that has become empty."""


class PolicySource:
    """The file, or none for the built-in policy. `text` is the policy in force, as it is written.

    It is None as long as only faulty ones have been seen: the namespaces keep what they have then, and pods are injected
    all the same.
    """

    def __init__(
        self,
        path: Path | None,
        log: Log,
        *,
        on_reload: Callable[[bool], None] = lambda went_well: None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Read the policy; `on_reload` is told how a reading went, of the first only a failure.

        Raises ConfigError when there is no file that can be read.
        """
        self._path = path
        self._log = log
        self._on_reload = on_reload
        self._pause = pause
        self._seen = self._identity()
        self.text: str | None = None
        written = self._read()
        try:
            self.text = self._checked(written)
        except ConfigError as error:
            self._refuse(error)

    async def run(self, on_change: Callable[[], None]) -> None:
        """Follow the file until cancelled, and tell of each other text that is put in force."""
        while True:
            await self._pause(WATCH_SECONDS)
            # Looked at before it is read: what changes between the two is seen the next time.
            now = self._identity()
            if now != self._seen:
                self._seen = now
                if self._reload():
                    on_change()

    def _reload(self) -> bool:
        """Put what the file says now in force; return whether that is something else."""
        try:
            text = self._checked(self._read())
        except ConfigError as error:
            self._refuse(error)
            return False
        changed, self.text = text != self.text, text
        self._log.event("policy_reloaded", policy=digest(text), changed=changed)
        self._on_reload(True)
        return changed

    def _refuse(self, error: ConfigError) -> None:
        """Say what is wrong with the file, and which policy is in force all the same."""
        in_force = digest(self.text) if self.text is not None else None
        self._log.event(
            "policy_reload_failed", faults=[str(fault) for fault in error.faults], policy=in_force
        )
        self._on_reload(False)

    def _read(self) -> str:
        """Return what is written. Raises ConfigError when it cannot be read."""
        return read(self._path) if self._path is not None else BUILT_IN

    def _checked(self, text: str) -> str:
        """Return the text of a policy. Raises ConfigError with every fault. The files that it names are in the pods."""
        _ = parse(text, str(self._path), has_files=False)
        return text if text.strip() else BUILT_IN

    def _identity(self) -> tuple[int, ...] | None:
        """Return what changes when the file is written or exchanged; None while there is none."""
        try:
            stat = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size) if stat is not None else None
