"""What must hold, as pure functions from the evidence of an act to what was found in it.

One module for each group; each function is one check, with a name and a count of how often it had something to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trials.chaos.checks.answers import explained, in_time, nobody_elses
from trials.chaos.checks.effects import agrees, not_unsent, survives
from trials.chaos.checks.records import counters, one_record
from trials.chaos.checks.repeats import not_repeated, not_resent
from trials.chaos.checks.running import clean, nothing_left, policy_stays, speaks_http
from trials.chaos.evidence import Evidence, Look

CHECKS: Final[tuple[Callable[[Evidence], Look], ...]] = (
    not_unsent,
    survives,
    not_resent,
    not_repeated,
    nobody_elses,
    nothing_left,
    one_record,
    counters,
    agrees,
    clean,
    speaks_http,
    policy_stays,
    explained,
    in_time,
)


def judge(evidence: Evidence) -> list[Look]:
    """Run every check."""
    return [check(evidence) for check in CHECKS]
