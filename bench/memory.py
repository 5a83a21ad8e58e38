"""What is promised of the sidecar's memory, and of those who are served meanwhile. `comparison`, `growth` and `streams` judge it."""

from __future__ import annotations

from typing import Final

from bench.report import MIB
from bench.targets import Target

IDLE: Final = Target("resident memory, idle", least=45, aim=40, better="less", unit="MiB")
BUSY: Final = Target(
    "resident memory, 1,000 connections under load", least=80, aim=60, better="less", unit="MiB"
)
STREAMS: Final = Target(
    "resident memory, 10,000 open event streams", least=250, aim=150, better="less", unit="MiB"
)
UNBROKEN: Final = Target("event streams that broke", least=0, aim=0, better="less")
UNFAILED: Final = Target("requests that failed, at any number of connections", least=0, aim=0, better="less")


def in_mib(size: float) -> float:
    """Bytes as MiB, to a tenth."""
    return round(size / MIB, 1)
