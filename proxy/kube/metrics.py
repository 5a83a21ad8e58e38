"""The injector's numbers, as Prometheus reads them: few series, whatever comes.

Labels are words from closed lists (verdicts, reasons, states). Nothing is counted by pod, namespace or policy.
"""

from __future__ import annotations

from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from proxy import __version__

_PREFIX: Final = "waterclock_injector"
# A review takes about a millisecond; timeoutSeconds is five at most.
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """All families, in a registry of their own."""

    def __init__(self) -> None:
        """Everything begins at zero."""
        # When a series was created is of no use to anybody here, and doubles their number.
        prometheus_client.disable_created_metrics()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.reviews = Counter(
            f"{_PREFIX}_reviews",
            "Admission reviews, by what became of the pod and why. result=error: a fault of the injector's own.",
            ("result", "reason"),
            registry=self.registry,
        )
        self.review_duration = Histogram(
            f"{_PREFIX}_review_duration_seconds",
            "From the review's last byte to its answer's first.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            f"{_PREFIX}_certificate_expiry_timestamp_seconds",
            "When the certificate that is served with expires (Unix time); 0 while there is none.",
            registry=self.registry,
        )
        self.leader = Gauge(f"{_PREFIX}_leader", "1 on the replica that leads.", registry=self.registry)
        self.policy_config_maps = Gauge(
            f"{_PREFIX}_policy_config_maps",
            "ConfigMaps with policies, by their state. The leader alone shows them.",
            ("state",),
            registry=self.registry,
        )
        self.budget_policies = Gauge(
            f"{_PREFIX}_budget_policies",
            "BudgetPolicies, by what became of them. The leader alone shows them.",
            ("condition",),
            registry=self.registry,
        )
        self.events = Counter(
            f"{_PREFIX}_events",
            "Kubernetes Events: created, updated (counted on one that was there), dropped (too many at once), failed.",
            ("result",),
            registry=self.registry,
        )
        self.policy_reload = Gauge(
            f"{_PREFIX}_policy_last_reload_successful",
            "Whether the chart's policy, as its file says it now, is in force.",
            registry=self.registry,
        )
        self.policy_reload.set(1)
        build = Gauge(f"{_PREFIX}_build_info", "1, with the version.", ("version",), registry=self.registry)
        build.labels(__version__).set(1)

    def render(self) -> bytes:
        """Return all of it in the text format, version 0.0.4."""
        return prometheus_client.generate_latest(self.registry)

    def leads(self, leads: bool) -> None:
        """Show whether this replica leads; one that does not, or no more, shows nothing of what only the leader knows."""
        self.leader.set(leads)
        if not leads:
            self.policy_config_maps.clear()
            self.budget_policies.clear()
