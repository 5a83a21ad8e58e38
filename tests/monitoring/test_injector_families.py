"""The injector's families: docs/metrics.md lists them, and Prometheus' linter has nothing to say of them."""

from __future__ import annotations

import re

from proxy.kube.metrics import Metrics
from tests.monitoring.monitored import OF_A_SCRAPE, ROOT, injector_series
from tests.monitoring.promtool import needs_promtool, promtool

TABLE = {
    name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
    for name, kind, labels in re.findall(
        r"^\| `(waterclock_injector_\w+)` \| (\w+) \| (\S.*?) \| \S.*? \|$",
        (ROOT / "docs/metrics.md").read_text(),
        re.MULTILINE,
    )
}


def test_every_family_is_documented_and_none_else() -> None:
    """With its type and its labels."""
    shown = {
        name.removesuffix("_bucket"): labels - OF_A_SCRAPE - {"le"}
        for name, labels in injector_series().items()
        if not re.search(r"_seconds_(sum|count)$", name)
    }
    assert {name: labels for name, (_, labels) in TABLE.items()} == shown
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", Metrics().render().decode(), re.MULTILINE))
    assert {name: kind for name, (kind, _) in TABLE.items()} == {name: types[name] for name in TABLE}


@needs_promtool
def test_linter_has_nothing_to_say() -> None:
    """`promtool check metrics` over every family with a value."""
    metrics = Metrics()
    metrics.reviews.labels("injected", "Injected").inc()
    metrics.review_duration.observe(0.001)
    metrics.policy_config_maps.labels("kept").inc()
    metrics.budget_policies.labels("Compiled").inc()
    metrics.events.labels("created").inc()
    assert promtool("check", "metrics", text=metrics.render().decode()) == ""
