"""An agent's app that knows nothing of proxies, budgets or Kubernetes. Run as a program: `python naive.py PORT`.

`/run?tool=URL` asks a tool, as plainly as the standard library can, and answers with what it said, as JSON.
"""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import sys
from urllib.parse import parse_qs, urlsplit


class App(http.server.BaseHTTPRequestHandler):
    """Serves one job a request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Do a job."""
        tool = urlsplit(parse_qs(urlsplit(self.path).query)["tool"][0])
        connection = http.client.HTTPConnection(tool.hostname or "", tool.port, timeout=30)
        connection.request("GET", tool.path)
        response = connection.getresponse()
        said = {
            "from": self.client_address[0],
            "via": self.headers.get("Via"),
            "status": response.status,
            "outcome": response.headers.get("Budget-Outcome"),
            "body": response.read().decode(),
        }
        connection.close()
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Listens for IPv4 and IPv6 together."""

    address_family = socket.AF_INET6  # type: ignore[mutable-override]
    daemon_threads = True


if __name__ == "__main__":
    with Server(("::", int(sys.argv[1])), App) as server:
        print("ready", flush=True)
        server.serve_forever()
