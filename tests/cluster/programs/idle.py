"""Does nothing, until it is told to end: a place to run other programs in."""

from __future__ import annotations

import signal
import sys
import types


def main() -> None:
    """Wait."""

    def on_term(number: int, frame: types.FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, on_term)
    signal.pause()


main()
