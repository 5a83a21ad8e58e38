"""A language model that says what it was asked: `POST` anything, and the path, the headers and the body come back.

A body with `"stream": true` is answered in the dialect of OpenAI's chat completions, a word every fifth of a second, for as
long as it is let. Answers are numbered.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PAUSE = 0.2
asked = itertools.count(1)


class Model(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Say that it is there."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer a question."""
        number = next(asked)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("stream") is True:
            self._stream()
        else:
            self._answer({"number": number, "path": self.path, "headers": dict(self.headers), "body": body})

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing of it."""

    def _answer(self, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
                piece = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
                self.wfile.write(f"data: {json.dumps(piece | {'choices': [choice]})}\n\n".encode())
                time.sleep(PAUSE)
        except OSError:
            self.close_connection = True  # nobody listens any more


def main() -> None:
    """Serve on port 8080, until it is told to end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ThreadingHTTPServer(("", 8080), Model).serve_forever()
    except KeyboardInterrupt:
        os._exit(0)  # and no stream keeps it


main()
