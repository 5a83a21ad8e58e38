"""The service's numbers, as Prometheus reads them: few series, whatever comes. Nothing is counted by partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from proxy import __version__

_PREFIX: Final = "waterclock_semantic"
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """All families, in a registry of their own."""

    def __init__(self) -> None:
        """Everything begins at zero."""
        prometheus_client.disable_created_metrics()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.finds = Counter(
            f"{_PREFIX}_finds",
            "Questions, by what came of them: found, missed or failed; and why nothing was found.",
            ("result", "reason"),
            registry=self.registry,
        )
        self.keeps = Counter(
            f"{_PREFIX}_keeps",
            "Answers that were to be kept: kept, refused (larger than may be kept, or a text without meaning), failed.",
            ("result",),
            registry=self.registry,
        )
        self.evictions = Counter(
            f"{_PREFIX}_evictions",
            "Answers that are kept no longer: for bytes, for entries, expired, or replaced by a newer one.",
            ("reason",),
            registry=self.registry,
        )
        self.problems = Counter(
            f"{_PREFIX}_problems",
            "Requests that were answered with an error.",
            ("status",),
            registry=self.registry,
        )
        self.find_seconds = Histogram(
            f"{_PREFIX}_find_duration_seconds",
            "From a question's last byte to its answer's first.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._entries = Gauge(f"{_PREFIX}_entries", "Answers that are kept.", registry=self.registry)
        self._bytes = Gauge(f"{_PREFIX}_bytes", "Bytes that the kept answers take.", registry=self.registry)
        self._partitions = Gauge(
            f"{_PREFIX}_partitions", "Partitions that answers are kept in.", registry=self.registry
        )
        build = Gauge(f"{_PREFIX}_build_info", "1, with the version.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)

    def watch(
        self, entries: Callable[[], int], used: Callable[[], int], partitions: Callable[[], int]
    ) -> None:
        """Show these numbers as they are when somebody looks."""
        self._entries.set_function(entries)
        self._bytes.set_function(used)
        self._partitions.set_function(partitions)

    def render(self) -> bytes:
        """Return all of it in the text format, version 0.0.4."""
        return prometheus_client.generate_latest(self.registry)
