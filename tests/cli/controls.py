"""A control port for the commands to ask: the API itself on a thread of its own, in front of a sidecar made up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner, Result

from proxy.admin.control import control_app
from proxy.admin.server import listen
from proxy.cli import main
from proxy.core.policy import Address
from proxy.core.units import MILLISECOND
from tests.admin.writes import NOW, NOW_MS, Sidecar


@contextlib.contextmanager
def serving(sidecar: Sidecar) -> Iterator[int]:
    """Serve the control API for a sidecar; gives the port."""
    ready: threading.Event = threading.Event()
    found: dict[str, int] = {}
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        site = control_app(sidecar, lambda: NOW_MS + (sidecar.now - NOW) // MILLISECOND)
        listening = await listen(site, Address("127.0.0.1", 0), "listen.control")
        found["port"] = listening.address.port
        ready.set()
        await stop.wait()
        await listening.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield found["port"]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@contextlib.contextmanager
def answering(said: bytes | None) -> Iterator[int]:
    """Listen as something else, that says this to whoever connects, or (None) nothing at all; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        over = threading.Event()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(65536)
                        if said is None:
                            over.wait(10)
                        else:
                            connection.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


class Commands:
    """Runs commands with a policy that names a control port and a journal."""

    def __init__(self, folder: Path, port: int) -> None:
        self.journal = folder / "journal.db"
        self.port = port
        self._policy = folder / "waterclock.yaml"
        self._policy.write_text(f"listen: {{control: 127.0.0.1:{port}}}\njournal: {{path: {self.journal}}}\n")

    def __call__(self, *words: str, columns: int = 80, encoding: str = "utf-8") -> Result:
        """Run one, into a pipe of so many columns."""
        runner = CliRunner(charset=encoding, env={"COLUMNS": str(columns)})
        return runner.invoke(main, [*words, "-c", str(self._policy)])

    def good(self, *words: str, columns: int = 80, encoding: str = "utf-8") -> str:
        """Run one that ends well, and return what it prints."""
        result = self(*words, columns=columns, encoding=encoding)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def bad(self, *words: str) -> str:
        """Run one that fails, and return its complaint: nothing goes to standard output then."""
        result = self(*words)
        assert (result.exit_code, result.stdout) == (1, ""), result.output
        assert result.stderr.startswith("waterclock: ")
        return result.stderr
