"""Told to end, it goes on making calls for some seconds, and only then ends, saying how each of them went."""

from __future__ import annotations

import signal
import sys
import time
import types
import urllib.request


def main() -> None:
    """Wait for SIGTERM; then call the address for as many seconds as told."""
    url, seconds = sys.argv[1], float(sys.argv[2])
    told: list[float] = []

    def on_term(number: int, frame: types.FrameType | None) -> None:
        told.append(time.monotonic())

    signal.signal(signal.SIGTERM, on_term)
    print("waiting", flush=True)
    while not told:
        time.sleep(0.1)
    while time.monotonic() < told[0] + seconds:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                answer.read()
                print(f"called {answer.status} {answer.headers.get('Budget-Outcome')}", flush=True)
        except OSError as error:
            print(f"failed {error}", flush=True)
        time.sleep(0.5)
    print("ended", flush=True)


main()
