"""What a demo may have left behind."""

from __future__ import annotations

from pathlib import Path


def left_running(folder: Path) -> list[str]:
    """The command lines of running processes that name something in the folder, where /proc tells."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found
