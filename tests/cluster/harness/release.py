"""The Helm release under test: its values, its injectors, and what they say."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.harness.commands import Object, get, helm, kubectl, listed
from tests.cluster.harness.settings import (
    CHART,
    CONTROLLER,
    PULL_POLICY,
    RELEASE,
    SYSTEM,
    image_parts,
)
from tests.cluster.harness.waiting import eventually, rolled_out

REPLICAS = 2
_SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Samples = dict[str, list[tuple[dict[str, str], float]]]
"""What a metrics page says: by name, each series' labels and value."""


def samples(page: str) -> Samples:
    """Read a page in the text format of Prometheus."""
    found: Samples = {}
    for sample in _SAMPLE.finditer(page):
        labels = dict(_LABEL.findall(sample["labels"] or ""))
        found.setdefault(sample["name"], []).append((labels, float(sample["value"])))
    return found


class Release:
    """The installed chart. Its values begin as the test needs them, and change by `upgrade`."""

    def __init__(self) -> None:
        """Set the first values."""
        repository, tag = image_parts()
        self.values: dict[str, Any] = {
            "image": {"repository": repository, "tag": tag, "pullPolicy": PULL_POLICY},
            "policy": {
                "budget": {"default": "10s", "reserve": "100ms"},
                "writes": {"linger": "10s"},
            },
            "injector": {"replicas": REPLICAS},
        }

    def install(self) -> str:
        """Install the chart, wait until it is ready, and return its notes."""
        return helm("install", RELEASE, str(CHART), *self._flags(), given=self._text())

    def upgrade(self, changes: Mapping[str, Any] | None = None, *, chart: Path = CHART) -> None:
        """Change some values (a value of None takes a key away), or the chart, and wait until that is in force."""
        _merge(self.values, changes or {})
        helm("upgrade", RELEASE, str(chart), *self._flags(), given=self._text())

    def uninstall(self) -> None:
        """Take the release away, if it is there."""
        helm("uninstall", RELEASE, "--namespace", SYSTEM, "--ignore-not-found", "--wait", "--timeout=2m")

    def _flags(self) -> list[str]:
        return ["--namespace", SYSTEM, "--values", "-", "--wait", "--timeout=2m"]

    def _text(self) -> str:
        return json.dumps(self.values)

    # -- injectors -------------------------------------------------------------------------------------------------

    def scale(self, replicas: int) -> None:
        """Set the number of injectors, and wait until there are so many."""
        kubectl("scale", f"deployment/{CONTROLLER}", "--namespace", SYSTEM, f"--replicas={replicas}")
        if replicas:
            rolled_out("deployment", CONTROLLER, SYSTEM)
        else:
            eventually("all injectors are gone", lambda: not self.pods() and not self.endpoints())

    def pods(self) -> list[Object]:
        """Return the pods of the injector, those on their way out included."""
        return [
            pod
            for pod in listed("pods", SYSTEM, **{"app.kubernetes.io/component": "injector"})
            if pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def serving(self) -> list[Object]:
        """Wait until all injectors are there and none is on its way out, and return them."""

        def look() -> list[Object] | None:
            pods = self.pods()
            settled = len(pods) == REPLICAS and not any(
                "deletionTimestamp" in pod["metadata"] for pod in pods
            )
            return pods if settled else None

        return eventually("the injectors have settled", look)

    def endpoints(self) -> list[str]:
        """Return the addresses that the webhook's Service leads to."""
        slices = listed("endpointslices", SYSTEM, **{"kubernetes.io/service-name": CONTROLLER})
        return [
            address
            for each in slices
            for endpoint in each.get("endpoints") or []
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
        ]

    def webhooks(self) -> list[Object]:
        """Return the webhooks, as the API server has them."""
        configuration = get("mutatingwebhookconfiguration", CONTROLLER)
        assert configuration is not None
        webhooks: list[Object] = configuration["webhooks"]
        return webhooks

    def restarts(self) -> int:
        """Return how often the containers of the injectors that there are have been started again."""
        return sum(
            status["restartCount"]
            for pod in self.pods()
            for status in pod["status"].get("containerStatuses", [])
        )


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)
