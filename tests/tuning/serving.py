"""An HTTP server on a thread of its own, for the tests of tuning to ask."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """What was asked: the target, and the headers."""

    target: str
    headers: Any


class Answer(NamedTuple):
    """What is answered."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@contextlib.contextmanager
def serving(answer: Callable[[Asked], Answer]) -> Iterator[int]:
    """Answer every GET so; gives the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made = answer(Asked(self.path, self.headers))
            self.send_response(made.status)
            for name, value in made.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(made.body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(made.body)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(10)
