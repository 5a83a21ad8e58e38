"""One look at a sidecar: what the kernel knows of its process, and what it says of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trials.soak.caller import Broken, Caller

_KB: Final = re.compile(r"^(Rss|Pss|Private_Clean|Private_Dirty):\s+(\d+) kB$", re.MULTILINE)
_LINE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_STATE: Final = re.compile(r'state="(\w+)"')


def of_process(pid: int) -> dict[str, float]:
    """Return resident, own (USS) and proportional (PSS) memory in bytes, descriptors and threads. Raises OSError."""
    folder = Path(f"/proc/{pid}")
    found = {name: int(size) * 1024 for name, size in _KB.findall((folder / "smaps_rollup").read_text())}
    status = (folder / "status").read_text()
    threads = re.search(r"^Threads:\s+(\d+)$", status, re.MULTILINE)
    return {
        "rss": found["Rss"],
        "pss": found["Pss"],
        "uss": found["Private_Clean"] + found["Private_Dirty"],
        "fds": sum(1 for _ in (folder / "fd").iterdir()),
        "threads": int(threads[1]) if threads else 0,
    }


def of_metrics(text: str) -> dict[str, float]:
    """Return the families of a scrape that have no labels, by name, and the upstream connections by what they are doing."""
    found: dict[str, float] = {}
    for name, labels, value in _LINE.findall(text):
        if not labels:
            found[name] = float(value)
        elif name == "waterclock_upstream_connections" and (state := _STATE.search(labels)):
            found[f"upstream_{state[1]}"] = float(value)
    return found


async def scraped(port: int) -> dict[str, float]:
    """Ask a sidecar for its metrics. Raises Broken."""
    caller = await Caller.connect(port)
    try:
        request = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        answer = await caller.call(request.encode())
    finally:
        caller.abort()
    if answer.status != 200:
        raise Broken(f"the metrics were answered {answer.status}")
    return of_metrics(answer.body.decode())
