"""Calls out in its first instructions, says what came back, and ends."""

from __future__ import annotations

import json
import sys
import urllib.request


def main() -> None:
    """Call each address once."""
    for url in sys.argv[1:]:
        with urllib.request.urlopen(url, timeout=20) as answer:
            answer.read()
            print(json.dumps({"status": answer.status, "headers": dict(answer.headers)}), flush=True)


main()
