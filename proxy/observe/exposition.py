"""The numbers as Prometheus reads them, in the format that the scraper asks for. Only here is prometheus_client known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from proxy.observe.families import Type
from proxy.observe.metrics import Metrics
from proxy.observe.sampled import Sampled
from proxy.observe.tally import Histogram

_END: Final = b"# EOF\n"  # of OpenMetrics; the older format has no end


class Exposition:
    """Renders all numbers of the process."""

    def __init__(self, metrics: Metrics) -> None:
        """Render these, and what the system says of the process."""
        self._metrics = metrics
        self._process = ProcessCollector(registry=None)

    def render(self, accept: str) -> tuple[Iterator[bytes], str]:
        """Return the text, family by family, and its content type. `accept` is the scraper's header.

        A family is read when its text is asked for, so that whoever serves calls can do so in between.
        """
        encode, content_type = choose_encoder(accept)
        return self._text(encode), content_type

    def _text(self, encode: Callable[[Collector], bytes]) -> Iterator[bytes]:
        for family in self._families():
            yield encode(_One(family)).removesuffix(_END)
        if encode(_One()):
            yield _END

    def _families(self) -> Iterator[Metric]:
        for sampled in self._metrics.collect():
            yield _family(sampled)
        yield from self._process.collect()


class _One:
    """What the encoder takes for everything there is to encode: one family, or none."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _family(sampled: Sampled) -> Metric:
    name, text = sampled.family.name, sampled.family.help
    match sampled.family.type:
        case Type.COUNTER:
            return _filled(CounterMetricFamily(name, text, labels=sampled.labels), sampled)
        case Type.GAUGE:
            return _filled(GaugeMetricFamily(name, text, labels=sampled.labels), sampled)
        case Type.HISTOGRAM:
            return _histogram(sampled)
        case Type.INFO:
            info = InfoMetricFamily(name.removesuffix("_info"), text)
            for values in sampled.values:
                info.add_metric([], dict(zip(sampled.labels, values, strict=True)))
            return info


def _filled(family: CounterMetricFamily | GaugeMetricFamily, sampled: Sampled) -> Metric:
    for labels, value in sampled.values.items():
        assert not isinstance(value, Histogram)
        family.add_metric(labels, value)
    return family


def _histogram(sampled: Sampled) -> Metric:
    family = HistogramMetricFamily(sampled.family.name, sampled.family.help, labels=sampled.labels)
    scale = sampled.family.scale
    bounds = [*(str(bound / scale) for bound in sampled.family.bounds), "+Inf"]
    for labels, value in sampled.values.items():
        assert isinstance(value, Histogram)
        buckets = list(zip(bounds, accumulate(value.counts), strict=True))
        family.add_metric(labels, buckets, value.sum / scale)
    return family
