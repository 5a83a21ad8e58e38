"""The gauge of connections that go past the sidecar, kept fresh by scrapes, and the log line that helps to find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from proxy.admin.aside import aside
from proxy.core.units import MINUTE, SECOND
from proxy.net.bypass import Bypasses, BypassWatch
from proxy.observe.steplog import StepLog

FRESH: Final = SECOND
"""How long a look is good for, in nanoseconds, however many ask."""
SPEAK_EVERY: Final = MINUTE
MOST_SHOWN: Final = 5


class BypassGauge:
    """What the last look has found. `log`: where to tell of leaks, None to keep silent. `clock`: monotonic nanoseconds."""

    def __init__(self, watch: BypassWatch, log: StepLog | None, clock: Callable[[], int]) -> None:
        """Look at nothing yet."""
        self._watch = watch
        self._log = log
        self._clock = clock
        self._found: Bypasses | None = None
        self._looked: int | None = None
        self._spoke: int | None = None

    async def refresh(self) -> None:
        """Look again, beside the loop, unless somebody just has. Raises OSError."""
        now = self._clock()
        if self._looked is not None and now - self._looked < FRESH:
            return
        self._looked = now
        try:
            self._found = await aside(self._watch.look)
        except OSError:
            self._found = None  # rather no number than an old one
            raise
        if self._found is not None and self._found.unexpected:
            self._tell(self._found, now)

    def counts(self) -> dict[str, int]:
        """Return the connections by reason, or nothing where they cannot be known."""
        if self._found is None:
            return {}
        return {"unexpected": len(self._found.unexpected), "excluded": self._found.excluded}

    def _tell(self, found: Bypasses, now: int) -> None:
        """Say where they lead, once a minute at most."""
        if self._log is None or (self._spoke is not None and now - self._spoke < SPEAK_EVERY):
            return
        self._spoke = now
        self._log.event(
            "bypass_seen",
            connections=len(found.unexpected),
            remotes=found.remotes(MOST_SHOWN),
            consequence="their calls have no budget and no record",
            remedy="let the client obey the proxy variables, use waterclock.dev/intercept: redirect, or exclude them",
        )
