"""The chart, loaded once, and rendered by Helm's own engine."""

from __future__ import annotations

from collections.abc import Iterator

import helm_python
import pytest

from tests.chart.rendering import CHART, Render


@pytest.fixture(scope="session")
def chart() -> Iterator[helm_python.Chart]:
    """The chart, as Helm loads it."""
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def render(chart: helm_python.Chart) -> Render:
    """Renders the chart with some values."""
    return Render(chart)
