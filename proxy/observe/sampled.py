"""What a scrape is made of: families, each at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from proxy.observe.families import Family
from proxy.observe.tally import Histogram, Tally

Labels = tuple[str, ...]


class Sampled(NamedTuple):
    """One family at one moment: the names of its labels, and its values by their labels."""

    family: Family
    labels: tuple[str, ...]
    values: Mapping[Labels, float | Histogram]


def tallied(family: Family, tally: Tally) -> Sampled:
    """Return a counter as it is now."""
    return Sampled(family, family.labels, dict(tally.counts))
