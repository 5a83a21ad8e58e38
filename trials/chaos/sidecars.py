"""The sidecar under trial: one policy file and one journal, and one process after the other on them.

Each process is an incarnation, with its own log and its own counters. What it said stays here after its end.
"""

from __future__ import annotations

import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.builds import program
from proxy.core.writes import WriteRecord
from proxy.store.offline import OfflineJournal
from tests.support.sidecar import Sidecar
from tests.support.waiting import eventually
from trials.chaos.words import DEFAULT_BUDGET_MS, FINGERPRINT_BYTES, LINGER_MS, ROUTES

_LOG_SECONDS: Final = 30.0
_READY_SECONDS: Final = 30.0
IDLE: Final = "700ms"


@dataclass
class Incarnation:
    """One process. Times are nanoseconds of the monotonic clock; `ended_by`: `kill`, `stop`, or `` while it runs.

    `total`: its steps by its own counters, when all was at rest.
    """

    number: int
    started: int
    records: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    ended_at: int | None = None
    ended_by: str = ""
    status: int | None = None
    total: float | None = None
    judged: int = 0
    """How many of its records were judged already; -1: all that there will ever be."""
    forgotten: int = 0
    """How many records were judged and are not kept any more."""

    @property
    def steps(self) -> int:
        """How many records it has left by now."""
        return self.forgotten + len(self.records)

    def forget(self) -> None:
        """Keep nothing of what was judged."""
        told = len(self.records) if self.judged < 0 else self.judged
        del self.records[:told]
        self.forgotten += told
        self.judged = min(self.judged, 0)
        self.events.clear()


def policy(*, cap_factor: float = 1.0, on_failure: str = "refuse", folder: Path) -> dict[str, Any]:
    """Return the policy's document. `cap_factor`: another value makes it another policy, which does the same."""
    routes = [
        {
            "name": route.name,
            "match": {"path": f"/{route.name}/**"},
            "cap": f"{int(route.cap_ms * cap_factor)}ms",
            **route.settings,
        }
        for route in ROUTES
    ]
    return {
        "limit": 300,
        "budget": {"default": f"{DEFAULT_BUDGET_MS}ms", "max": "1m", "width": 2},
        "connections": {"idle": IDLE},
        "writes": {"fingerprint_bytes": f"{FINGERPRINT_BYTES}B", "linger": f"{LINGER_MS}ms", "hold": "2h"},
        "journal": {"path": str(folder / "journal.db"), "on_failure": on_failure},
        "shutdown": {"grace": "5s"},
        "fallback": {"cap": "400ms"},
        "routes": routes,
    }


FAULTY: Final = (
    "fallback: {cap: 10}\n",
    "routes: [{name: a, match: {path: nowhere}}]\n",
    "budgte: {}\n",
    "a: [\n",
)
"""Policies that must be refused."""


class Chaotic(Sidecar):
    """A sidecar that is ended and started again. `journal`: the folder of its journal."""

    def __init__(self, build: str, folder: Path, journal: Path) -> None:
        """Write the first policy."""
        self.journal = journal
        self.incarnations: list[Incarnation] = []
        self._command = program(build)
        self.terms: dict[str, Any] = {}
        super().__init__(policy(folder=journal), folder=folder)

    def _program(self) -> list[str | Path]:
        return [self._command]

    @property
    def incarnation(self) -> Incarnation:
        """The one that runs, or ran last."""
        return self.incarnations[-1]

    def start(self) -> Chaotic:
        """Start another incarnation on the same files."""
        fresh = Incarnation(len(self.incarnations) + 1, time.monotonic_ns())
        self.incarnations.append(fresh)
        self.records, self.events, self.noise = fresh.records, fresh.events, fresh.noise
        try:
            super().start()
        except AssertionError as late:
            self._patiently(late)
        return self

    def _patiently(self, late: AssertionError) -> None:
        """Wait on for one that runs and is not ready: clients that wait for it too, and whatever else, may starve it."""
        if self._process is None or self._process.poll() is not None:
            raise late
        try:
            eventually(self._ready_or_dead, within=_READY_SECONDS)
        except AssertionError as failure:
            self._end(signal.SIGABRT)  # which has it say where it stands
            said = f"{self.incarnation.events}; {''.join(self.incarnation.noise)}"
            raise AssertionError(f"{failure}; {said}") from failure

    def stop(self) -> int:
        """Drain and end, as the kubelet does."""
        return self._over(signal.SIGTERM, "stop")

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._over(signal.SIGKILL, "kill")

    def _over(self, number: int, how: str) -> int:
        over = self.incarnation
        over.ended_at = time.monotonic_ns()
        over.status = self._end(number)
        if how == "kill":  # it died in the middle of a line
            over.noise[:] = [line for line in over.noise if line.endswith("\n")]
        over.ended_by = how
        return over.status

    def left_on_disk(self) -> list[WriteRecord]:
        """Return what a sidecar finds that starts on the journal now. Read from a copy; nobody may hold the journal."""
        copy = self.folder / "copy"
        copy.mkdir()
        try:
            for file in self.journal.glob("journal.db*"):
                shutil.copy(file, copy / file.name)
            with OfflineJournal(copy / "journal.db") as found:
                return found.listed()
        finally:
            shutil.rmtree(copy)

    # -- the policy ------------------------------------------------------------------------------------------------

    def reload(self, **terms: Any) -> None:
        """Rewrite the policy, and wait until it is in force."""
        self.terms |= terms
        self.write_policy(policy(folder=self.journal, **self.terms))
        self._signalled("reloaded")

    def offer_faulty(self, text: str) -> bool:
        """Offer a faulty policy; return whether it was refused and the old one is in force as before."""
        before = self.ask("/config")
        good = self.config.read_text()
        self.config.write_text(text)
        self._signalled("reload_failed")
        same = bool(self.ask("/config") == before)
        self.config.write_text(good)
        self._signalled("reloaded")
        return same

    def _signalled(self, event: str) -> None:
        """Have the policy read, and wait for this to be said of it."""

        def said() -> int:
            return sum(each["event"] == event for each in self.events)

        before = said()
        self.signal(signal.SIGHUP)
        eventually(lambda: said() > before, within=_LOG_SECONDS, what=event)
