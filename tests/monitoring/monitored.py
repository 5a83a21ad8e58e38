"""What the chart has Prometheus and Grafana look at, read for the tests: rules, dashboards, and the series that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from prometheus_client import Counter, Gauge, Histogram

from proxy.kube.metrics import Metrics
from proxy.observe import families
from proxy.observe.families import Type

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ROOT / "charts/waterclock/files"
RULES_FILE: Final = FILES / "rules.yaml"
RULES: Final[list[dict[str, Any]]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]
]
ALERTS: Final[dict[str, dict[str, Any]]] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED: Final[dict[str, dict[str, Any]]] = {rule["record"]: rule for rule in RULES if "record" in rule}
DASHBOARDS: Final = sorted((FILES / "dashboards").glob("*.json"))

OF_A_SCRAPE: Final = frozenset({"cluster", "namespace", "pod", "instance"})
"""Labels that Prometheus adds to what a pod says: `cluster` where several share a store, the others always."""
OF_A_PROCESS: Final = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total"})
_INFOS: Final = {
    "waterclock_build_info": {"version"},
    "waterclock_policy_info": {"digest", "mode"},
}

_NAME: Final = re.compile(r"(?<![\w:$.])([a-z]\w*(?::\w+)+|(?:waterclock|process)_\w+)")
_WORDS: Final = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)")
_MATCHERS: Final = re.compile(r"\{([^}]*)\}")
_MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")


class Query(NamedTuple):
    """An expression of PromQL, and where it stands."""

    place: str
    expression: str


def series() -> dict[str, frozenset[str]]:
    """Return every series that a scrape can show, with the labels that it can have."""
    found: dict[str, frozenset[str]] = dict.fromkeys(OF_A_PROCESS, OF_A_SCRAPE)
    for name, family in (families.COUNTED | families.WATCHED).items():
        labels = frozenset({*family.labels, *_INFOS.get(name, ())}) | OF_A_SCRAPE
        if family.type is Type.HISTOGRAM:
            found |= {f"{name}_sum": labels, f"{name}_count": labels, f"{name}_bucket": labels | {"le"}}
        else:
            found[name] = labels
    return found | injector_series()


def injector_series() -> dict[str, frozenset[str]]:
    """Return every series that a scrape of an injector can show, with the labels that it can have."""
    found: dict[str, frozenset[str]] = {}
    for family in vars(Metrics()).values():
        if isinstance(family, (Counter, Gauge, Histogram)):
            name, labels = family._name, frozenset(family._labelnames) | OF_A_SCRAPE
            if isinstance(family, Histogram):
                found |= {f"{name}_sum": labels, f"{name}_count": labels, f"{name}_bucket": labels | {"le"}}
            else:
                found[f"{name}_total" if isinstance(family, Counter) else name] = labels
    return found | {"waterclock_injector_build_info": OF_A_SCRAPE | {"version"}}


def names_in(expression: str) -> set[str]:
    """Return the series that an expression asks for, those of recording rules too."""
    return set(_NAME.findall(expression))


def labels_in(expression: str) -> set[str]:
    """Return the labels that an expression names."""
    named = {label for words in _WORDS.findall(expression) for label in re.findall(r"\w+", words)}
    asked = {label for inside in _MATCHERS.findall(expression) for label in _MATCHER.findall(inside)}
    return named | asked - {"__name__"}


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels of a dashboard, rows left out."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", ())


def dashboards() -> dict[str, dict[str, Any]]:
    """Return the dashboards by the name of their file."""
    return {path.name: json.loads(path.read_text()) for path in DASHBOARDS}


def queries_of(dashboard: dict[str, Any]) -> list[Query]:
    """Return what the panels of a dashboard ask Prometheus."""
    return [
        Query(f"{panel['title']} {target['refId']}", target["expr"])
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def filled(expression: str, *, window: str = "5m") -> str:
    """Return an expression with Grafana's variables filled in as Grafana does it, everything chosen."""
    for variable in ("$__rate_interval", "$__interval", "$__range"):
        expression = expression.replace(variable, window)
    return re.sub(r"\$\w+", ".*", expression)
