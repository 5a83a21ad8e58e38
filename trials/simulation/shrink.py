"""A failing seed made smaller: with fewer jobs and fewer misfortunes, as long as the same check still fails."""

from __future__ import annotations

from collections.abc import Callable

from trials.simulation.world import Result, Size

MOST_RUNS = 24


def shrunk(found: Result, run: Callable[[int, Size], Result]) -> Result:
    """Return the smallest run of the same seed that fails in the same check, as far as some runs can find it."""
    check, best, left = failing(found), found, MOST_RUNS
    jobs = found.jobs
    for few in (0, 1):
        result = run(found.seed, Size(None, few))
        left -= 1
        if failing(result) == check:
            best = result
            break
    step = jobs // 2
    while step and left:
        size = Size(max(1, jobs - step), best.size.misfortunes)
        result = run(found.seed, size)
        left -= 1
        if failing(result) == check and size.jobs is not None:
            jobs, best = size.jobs, result
        else:
            step //= 2
    return best


def failing(result: Result) -> str:
    """Return the check that has failed first, empty for none."""
    return result.failures[0].partition(":")[0] if result.failures else ""
