"""What every demo does besides its story: a folder and a console of its own, titles and sentences, faults and how it ends."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from proxy.demo import table
from proxy.demo.checks import LATE, Checks
from proxy.demo.sidecar import Unable

ALL_WELL: Final = 0
OFF: Final = 1
UNABLE: Final = 2
WIDEST: Final = 100


class Teller:
    """Tells everything on one console, and keeps what was off."""

    def __init__(self) -> None:
        """Begin with nothing told."""
        self.console = Console(highlight=False)
        self.console.width = min(self.console.width, WIDEST)
        self.checks = Checks()

    def title(self, text: str) -> None:
        """Begin another part."""
        self.console.print(Text(f"\n{text}", "bold"))

    def say(self, text: str, style: str = "") -> None:
        """Say a paragraph."""
        self.console.print(Text(text, style))

    def name_faults(self) -> None:
        """Name everything that was off so far."""
        faults = self.checks.faults
        if faults:
            self.title(f"{len(faults)} of {self.checks.count} checks do not hold:")
        for fault in faults:
            self.say(f"- {fault}", "red")

    def conclude(self, following: Mapping[str, str], oversleeps: float = 0.0) -> int:
        """Say how it went, and what to do next; return the status to end with. `oversleeps`: how late timers came (ms)."""
        if self.checks.faults:
            self.name_faults()
            if oversleeps > LATE / 2:
                self.say(
                    f"This machine is busy: timers came up to {oversleeps:.0f} ms late. Try when it is idle."
                )
            return OFF
        self.title(f"All {self.checks.count} checks hold: what you have seen is what was promised.")
        self.console.print("Try next:")
        waterclock = _waterclock()
        self.console.print(table.pairs({words.format(waterclock): says for words, says in following.items()}))
        return ALL_WELL


def play(teller: Teller, tell: Callable[[Path], Coroutine[Any, Any, int]], kept: str | None) -> int:
    """Play a demo in a folder of its own, and return the status to end with. All of it is gone afterwards.

    `kept`: the folder stays, with these files.
    """
    try:
        with _folder(teller.console, kept) as folder:
            return asyncio.run(_ended_by_signals(tell(folder)))
    except Unable as why:
        teller.name_faults()
        teller.console.print(Text(f"The demo could not be played to its end. {why}", "bold red"))
        return UNABLE


@contextmanager
def _folder(console: Console, kept: str | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="waterclock-demo-"))
    try:
        yield folder
    finally:
        if kept is not None:
            console.print(f"Kept in {folder}: {kept}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _waterclock() -> str:
    """Return what to type for the command: after `make demo`, it is installed where no shell looks."""
    beside = Path(sys.executable).with_name("waterclock")
    if shutil.which("waterclock") is not None or not beside.exists():
        return "waterclock"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


async def _ended_by_signals(telling: Coroutine[Any, Any, int]) -> int:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: from inside, so that everything is cleared away."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await telling
