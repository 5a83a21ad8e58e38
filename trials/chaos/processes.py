"""The processes around the sidecar: the upstream, and those of the clients. Each is ended with its whole group."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.support.ports import free_port
from trials.chaos.upstream import LISTENED
from trials.chaos.words import Place

_ROOT: Final = Path(__file__).parent.parent.parent
_STOP_WITHIN: Final = 10.0


class Helper:
    """A process of this trial. `words`: what it has said so far, line by line."""

    def __init__(self, module: str, *arguments: str, errors: Path) -> None:
        """Start it; it says on `errors` what went wrong in it."""
        self._errors = errors
        with errors.open("ab") as file:
            self._process = subprocess.Popen(
                (sys.executable, "-m", module, *arguments),
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                process_group=0,
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._said = b""

    @property
    def words(self) -> list[str]:
        """Return the lines that it has said, all of them from the beginning."""
        assert self._process.stdout is not None
        with suppress(BlockingIOError):
            while more := os.read(self._process.stdout.fileno(), 65_536):
                self._said += more
        return self._said.decode().splitlines()

    @property
    def failure(self) -> str | None:
        """Return how it ended, with what it said of that; None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        return f"ended with {status}: {self._errors.read_text(errors='replace')[-2000:].strip()}"

    def tell(self, document: dict[str, Any]) -> None:
        """Say a line of JSON to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document).encode() + b"\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End it: SIGTERM, then patience, then SIGKILL for all of its group."""
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_WITHIN)
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def upstream(folder: Path, refuses: int) -> tuple[Helper, dict[str, int]]:
    """Start the upstream; return it with its ports by place. `refuses`: the port on which nobody listens."""
    ports = {place.value: free_port() for place in LISTENED} | {Place.REFUSES.value: refuses}
    listened = [str(ports[place]) for place in LISTENED]
    account = str(folder / "account.jsonl")
    return Helper("trials.chaos.upstream", account, *listened, errors=folder / "upstream.err"), ports


def clients(
    count: int, lanes: int, seed: int, sidecar: int, ports: dict[str, int], folder: Path
) -> Sequence[Helper]:
    """Start the clients' processes."""
    settings = {"seed": seed, "lanes": lanes, "sidecar": sidecar, "ports": ports}
    return [
        Helper(
            "trials.chaos.clients",
            json.dumps(settings | {"client": number}),
            errors=folder / f"clients-{number}.err",
        )
        for number in range(count)
    ]
