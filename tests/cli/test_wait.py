"""`waterclock wait`: what hooks and health checks call, against real sockets; and until an app has ended, by its sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main
from proxy.net import tcp_table
from tests.cli.controls import answering
from tests.support.ports import free_port


def wait(*words: str) -> Result:
    """The command."""
    return CliRunner().invoke(main, ["wait", *words])


@contextmanager
def health(
    *statuses: int, says: Sequence[str] = ("the journal is being read\n",)
) -> Iterator[tuple[int, list[str]]]:
    """A metrics port that answers with these, the last ones from then on; gives the port and what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(statuses[min(len(asked), len(statuses)) - 1])
            self.end_headers()
            self.wfile.write(says[min(len(asked), len(says)) - 1].encode())

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()
            thread.join()


def test_a_sidecar_that_is_ready() -> None:
    """One question, and nothing said."""
    with health(200) as (port, asked):
        result = wait("--port", str(port))
    assert (result.exit_code, result.output) == (0, "")
    assert asked == ["/readyz"]


def test_a_sidecar_that_becomes_ready() -> None:
    """It is asked until it is."""
    with health(503, 503, 200) as (port, asked):
        assert wait("--port", str(port)).exit_code == 0
    assert len(asked) == 3


def test_a_sidecar_that_does_not() -> None:
    """Status 1, with what it said last."""
    with health(503) as (port, _asked):
        result = wait("--port", str(port), "--timeout", "300ms")
    assert result.exit_code == 1
    assert "it answers 503 the journal is being read" in result.stderr


def test_nobody_there() -> None:
    """Status 1, with where it was looked for and why that failed."""
    port = free_port()
    result = wait("--port", str(port), "--timeout", "1ms")
    assert result.exit_code == 1
    assert f"http://127.0.0.1:{port}/readyz: Connection refused" in result.stderr


def test_somebody_else_there() -> None:
    """What speaks no HTTP is no sidecar."""
    with answering(b"SSH-2.0-x\r\n") as port:
        result = wait("--port", str(port), "--timeout", "1ms")
    assert result.exit_code == 1
    assert "speaks no HTTP (BadStatusLine)" in result.stderr or "Connection reset" in result.stderr


@pytest.mark.parametrize("timeout", ["60", "0s", "soon"])
def test_a_timeout_that_is_none(timeout: str) -> None:
    """Status 2, with how it is written."""
    result = wait("--timeout", timeout)
    assert result.exit_code == 2
    assert "write" in result.stderr


def socket_of(user: int) -> tcp_table.Socket:
    """A socket that listens, of this user."""
    return tcp_table.Socket(
        b"0100007F", b"1F90", b"00000000", b"0000", tcp_table.LISTEN, str(user).encode(), b"1"
    )


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[list[tcp_table.Socket] | None]:
    """What is seen at each look, the last from then on. The sidecar's user is 2180."""
    seen: list[list[tcp_table.Socket] | None] = []

    def read() -> list[tcp_table.Socket] | None:
        return seen.pop(0) if len(seen) > 1 else seen[0]

    monkeypatch.setattr(tcp_table, "read", read)
    monkeypatch.setattr("os.getuid", lambda: 2180)
    return seen


def test_an_app_that_has_ended(looks: list[list[tcp_table.Socket] | None]) -> None:
    """The sidecar's own sockets are none of it; nothing is said."""
    looks += [[socket_of(0), socket_of(2180)], [socket_of(1000)], [socket_of(2180)]]
    result = wait("--for-app", "--timeout", "60s", "--quiet", "50ms", "--port", str(free_port()))
    assert (result.exit_code, result.output) == (0, "")
    assert len(looks) == 1


@pytest.mark.parametrize("seen", [[socket_of(1000)], None], ids=["at work", "nobody can tell"])
def test_an_app_that_goes_on(
    looks: list[list[tcp_table.Socket] | None], seen: list[tcp_table.Socket] | None
) -> None:
    """The pod has to end: the status is 0, since a hook that fails would only be one more thing to look into."""
    looks.append(seen)
    result = wait("--for-app", "--timeout", "200ms", "--quiet", "20ms", "--port", str(free_port()))
    assert result.exit_code == 0
    assert "the app may not have ended" in result.stderr


@pytest.mark.parametrize(
    "name", ["waterclock_steps_total", "waterclock_steps_in_flight", "waterclock_opaque_connections_total"]
)
def test_an_app_whose_calls_are_short(looks: list[list[tcp_table.Socket] | None], name: str) -> None:
    """Its sockets may be missed, its calls are counted; what else moves in the metrics is no sign of it."""
    looks.append([])
    scrapes = [
        f'{name}{{route="r"}} {count}\nprocess_cpu_seconds_total {i}\n'
        for i, count in enumerate([1, 1, 2, 3])
    ]
    with health(200, says=scrapes) as (port, asked):
        result = wait("--for-app", "--timeout", "60s", "--quiet", "100ms", "--port", str(port))
    assert (result.exit_code, result.output) == (0, "")
    assert len(asked) >= len(scrapes)
