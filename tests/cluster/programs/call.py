"""One request, described in JSON on the command line, and its answer as JSON: the hands of the test inside the cluster."""

from __future__ import annotations

import http.client
import json
import sys
import time
from urllib.parse import urlsplit


def main() -> None:
    """Send it, and print how it went."""
    told = json.loads(sys.argv[1])
    url = urlsplit(told["url"])
    began = time.monotonic()
    connection = http.client.HTTPConnection(
        url.hostname or "", url.port or 80, timeout=told.get("seconds", 30)
    )
    target = url.path + (f"?{url.query}" if url.query else "")
    connection.request(told.get("method", "GET"), target, told.get("body"), told.get("headers", {}))
    answer = connection.getresponse()
    body = answer.read().decode()
    done = {
        "status": answer.status,
        "headers": dict(answer.getheaders()),
        "body": body,
        "ms": round((time.monotonic() - began) * 1000),
    }
    print(json.dumps(done))


main()
