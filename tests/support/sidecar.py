"""A real sidecar in a process of its own.

    with Sidecar("fallback: {cap: 300ms}") as sidecar:
        ... calls through sidecar.proxy_url, or with callers.call(sidecar, ...) ...
    assert sidecar.records[-1]["outcome"] == "completed"

The policy is given as the file would say it, without its ports. At the end the process is stopped as the kubelet would
stop it; a fault that it reported of itself (an exception in a callback, a task nobody awaited) fails the test then.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, eventually

PROGRAM = Path(sys.executable).with_name("waterclock")
# The same program, with other name servers than those of resolv.conf: nothing in a policy names them.
_WITH_NAMESERVER = """
import functools, sys
import proxy.app.sidecar
from proxy.cli import main
from proxy.net.resolver import Resolver
proxy.app.sidecar.Resolver = functools.partial(Resolver, [{address!r}])
main()
"""
_SAMPLE = re.compile(r"(?P<name>[a-z_:]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)")


class Sidecar:
    """One sidecar: its files, its process, and what it says. It can be stopped, killed and started again on the same files."""

    def __init__(
        self,
        policy: str | dict[str, Any] = "",
        *,
        folder: Path | None = None,
        nameserver: str | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        """`folder`: where its files are, a temporary one by default. `nameserver`: asked instead of the machine's.

        `options`: further ones of `waterclock run`, as the injector gives them.
        """
        self._nameserver = nameserver
        self._options = options
        self._own_folder = folder is None
        self.folder = folder if folder is not None else Path(tempfile.mkdtemp(prefix="waterclock-"))
        self.outbound, self.control, self.metrics = free_port(), free_port(), free_port()
        self.config = self.folder / "waterclock.yaml"
        self.records: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.noise: list[str] = []
        """Lines that are no log lines: nothing should ever be there."""
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self.write_policy(policy)

    # -- life ------------------------------------------------------------------------------------------------------

    def write_policy(self, policy: str | dict[str, Any]) -> None:
        """Write the policy's file; a running sidecar takes it up by itself, or on `reload`."""
        document: dict[str, Any] = (yaml.safe_load(policy) if isinstance(policy, str) else dict(policy)) or {}
        document["listen"] = {
            "outbound": f"127.0.0.1:{self.outbound}",
            "control": f"127.0.0.1:{self.control}",
            "metrics": f"127.0.0.1:{self.metrics}",
        } | document.get("listen", {})
        document["journal"] = {"path": str(self.folder / "journal.db")} | document.get("journal", {})
        fresh = self.config.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(document, sort_keys=False))
        fresh.rename(self.config)

    def start(self) -> Sidecar:
        """Start, and wait until it is ready."""
        self._process = subprocess.Popen(
            [*self._program(), "run", "-c", self.config, *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PYTHONDEVMODE": "", "PYTHONFAULTHANDLER": "1"},
        )
        self._readers = [
            threading.Thread(target=self._listen, args=(stream, take), daemon=True)
            for stream, take in (
                (self._process.stdout, self._take),
                (self._process.stderr, self.noise.append),
            )
        ]
        for reader in self._readers:
            reader.start()
        eventually(self._ready_or_dead, what="the sidecar is ready")
        return self

    def stop(self) -> int:
        """End it as the kubelet does (SIGTERM, then patience); return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it in the middle of whatever it does (SIGKILL)."""
        self._end(signal.SIGKILL)

    def restart(self) -> Sidecar:
        """Start again on the same files."""
        assert self._process is None
        return self.start()

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def __enter__(self) -> Sidecar:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.stop()
        if failure is None:
            assert not self.faults, self.faults
        elif self.faults:
            failure.add_note(f"The sidecar has reported faults of its own: {self.faults}")
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def faults(self) -> list[Any]:
        """What the sidecar has reported of itself that it should not have: promise 14 is broken if there is any."""
        return [event for event in self.events if event["event"] == "log"] + self.noise

    # -- where it is -----------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Where calls are sent."""
        return "127.0.0.1", self.outbound

    @property
    def proxy_url(self) -> str:
        """What HTTP_PROXY would say, and the beginning of base-URL routes."""
        return f"http://127.0.0.1:{self.outbound}"

    def budget_url(self, budget: str, remaining_ms: int | None = None) -> str:
        """What HTTP_PROXY would say for one job."""
        stated = f":{remaining_ms}" if remaining_ms is not None else ""
        return f"http://{budget}{stated}@127.0.0.1:{self.outbound}"

    # -- what it says ----------------------------------------------------------------------------------------------

    def record(self, id: str) -> dict[str, Any]:
        """The step record with this id, waited for: the log is written in batches."""
        return eventually(
            lambda: next((record for record in self.records if record["record"] == id), None),
            what=f"the record {id} among {[record['record'] for record in self.records]}",
        )

    def records_of(self, budget: str, count: int = 1) -> list[dict[str, Any]]:
        """The records of one budget, once there are at least so many."""

        def found() -> list[dict[str, Any]] | None:
            records = [record for record in self.records if record["budget_id"] == budget]
            return records if len(records) >= count else None

        return eventually(found, what=f"{count} records of {budget}")

    def event(self, name: str) -> dict[str, Any]:
        """The latest event of this name, waited for."""
        return eventually(
            lambda: next((event for event in reversed(self.events) if event["event"] == name), None),
            what=f"the event {name}",
        )

    def ask(self, path: str, body: Any = None) -> Any:
        """GET from the control port, or POST if there is a body. Returns what the JSON says, errors too."""
        return self._http(f"http://127.0.0.1:{self.control}{path}", body)

    def uncertain(self, id: str | None = None) -> Any:
        """What the control port says of uncertain writes, or of one."""
        return self.ask("/uncertain" if id is None else f"/uncertain/{id}")

    def resolve(self, id: str, *, applied: bool) -> Any:
        """Say what was found out about an uncertain write."""
        return self.ask(f"/uncertain/{id}/resolve", {"applied": applied})

    def samples(self) -> dict[str, float]:
        """What /metrics says: `name` or `name{labels}` to its value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=PATIENCE) as response:
            text = response.read().decode()
        found = {}
        for line in text.splitlines():
            match = _SAMPLE.fullmatch(line)
            if match is not None:
                labels = match["labels"]
                found[match["name"] if labels is None else f"{match['name']}{{{labels}}}"] = float(
                    match["value"]
                )
        return found

    def gauges(self) -> dict[str, float]:
        """What is in use now. All of them are zero when nothing goes on, save connections that lie idle."""
        samples = self.samples()
        shown = ("steps_in_flight", "client_connections", "opaque_connections_active")
        gauges = {name: samples[f"waterclock_{name}"] for name in shown}
        for state in ("active", "opening"):
            gauges[state] = samples[f'waterclock_upstream_connections{{state="{state}"}}']
        return gauges

    def at_rest(self, *, within: float = PATIENCE) -> None:
        """Wait until nothing goes on any more; fail if something stays."""
        eventually(lambda: not any(self.gauges().values()), within=within, what=f"rest; last {self.gauges()}")

    def open_files(self) -> int:
        """How many descriptors the process has open."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def memory_mib(self) -> float:
        """How much memory the process has in use."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert match is not None
        return int(match[1]) / 1024

    # -- inside ----------------------------------------------------------------------------------------------------

    def _program(self) -> list[str | Path]:
        if self._nameserver is None:
            return [PROGRAM]
        return [sys.executable, "-c", _WITH_NAMESERVER.format(address=self._nameserver)]

    def _ready_or_dead(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            for reader in self._readers:
                reader.join(PATIENCE)
            raise AssertionError(f"the sidecar did not start: {self.events + self.noise}")
        try:
            return bool(self._http(f"http://127.0.0.1:{self.metrics}/readyz")["ready"])
        except OSError:
            return False

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        try:
            status = process.wait(PATIENCE + 30)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        for reader in self._readers:
            reader.join(PATIENCE)
        return status

    def _listen(self, stream: Any, take: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                take(line)

    def _take(self, line: str) -> None:
        try:
            document = json.loads(line)
        except ValueError:
            self.noise.append(line)
            return
        (self.events if "event" in document else self.records).append(document)

    @staticmethod
    def _http(url: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with contextlib.ExitStack() as stack:
            try:
                response = stack.enter_context(urllib.request.urlopen(request, timeout=PATIENCE))
            except urllib.error.HTTPError as error:
                response = stack.enter_context(error)
            return json.load(response)
