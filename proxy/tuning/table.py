"""The table: how much each stage has, how much jobs needed of it, and a verdict. Spans are nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proxy.core.policy import BudgetDefaults
from proxy.tuning.distribution import Between, Rate, rate_over
from proxy.tuning.measured import Measured, Use, claimed

LEAST_SAMPLES: Final = 100
"""With fewer, a 99th percentile is only the largest of them."""
_GENEROUS: Final = 2  # a share of more than twice what all but one in a hundred need, the margin counted


class Verdict(StrEnum):
    """What is to be said of a share.

    `tight`: one job in a hundred or more needs more than that, or may. `generous`: less than half of it is enough, the margin
    counted. `too few samples`: nothing is to be said.
    """

    TIGHT = "tight"
    FITS = "fits"
    GENEROUS = "generous"
    TOO_FEW = "too few samples"


@dataclass(frozen=True, slots=True)
class Row:
    """One stage. The quantiles and `headroom` (what its share has beyond the 99th percentile) are None with too few samples;
    `headroom` too where nobody knows how much is needed. `cut`: the part of its jobs whose share was used up.
    """

    stage: str
    share: int
    use: Use | None
    p50: Between | None
    p95: Between | None
    p99: Between | None
    headroom: int | None
    cut: float | None
    verdict: Verdict

    @property
    def samples(self) -> int:
        """How many jobs came to the stage."""
        return self.use.needs.total if self.use is not None else 0

    def rate_over(self, span: int) -> Rate:
        """Return which part of the jobs would be cut with such a share."""
        assert self.use is not None
        return rate_over(self.use.needs, span)


def rows(
    measured: Measured, budget: BudgetDefaults, *, margin: float, least: int = LEAST_SAMPLES
) -> list[Row]:
    """Return a row for each stage, in the order of the policy. `margin`: a part of what is needed; `least`: enough samples."""
    found = []
    for share in claimed(budget):
        use = measured.stages.get(share.stage)
        if use is None or use.needs.total < max(1, least):
            cut = use.cut / use.needs.total if use is not None and use.needs.total else None
            found.append(Row(share.stage, share.span, use, None, None, None, None, cut, Verdict.TOO_FEW))
            continue
        p50, p95, p99 = (use.needs.quantile(q) for q in (0.5, 0.95, 0.99))
        headroom = None if p99.high is None else share.span - p99.high
        cut = use.cut / use.needs.total
        verdict = _verdict(share.span, p99, margin)
        found.append(Row(share.stage, share.span, use, p50, p95, p99, headroom, cut, verdict))
    return found


def _verdict(share: int, p99: Between, margin: float) -> Verdict:
    if p99.high is None or p99.high > share:
        return Verdict.TIGHT
    return Verdict.GENEROUS if _GENEROUS * p99.high * (1 + margin) < share else Verdict.FITS
