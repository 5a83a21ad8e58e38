"""Many seeds, on all cores: one worker process each, which hands back a result for every seed, until time or jobs are up."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from trials.simulation.world import WHOLE, Result, Size, simulate

BATCH: Final = 4
"""How many seeds a worker takes at a time."""


@dataclass
class Sum:
    """What came of all seeds so far."""

    seeds: int = 0
    jobs: int = 0
    calls: int = 0
    records: int = 0
    processes: int = 0
    simulated: int = 0
    replayed: int = 0
    seconds: float = 0.0
    exercised: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)
    differ: list[int] = field(default_factory=list)

    def take(self, result: Result) -> None:
        """Add one seed."""
        self.seeds += 1
        self.jobs += result.jobs
        self.calls += result.calls
        self.records += result.records
        self.processes += result.processes
        self.simulated += result.simulated
        self.exercised.update(result.exercised)
        if result.failures:
            self.failed.append(result)


def run(
    seeds: Iterable[int], enough: Callable[[Sum], bool], tell: Callable[[Sum], None], cores: int | None = None
) -> Sum:
    """Run seeds until it is enough, or there are no more; `tell` is called after each batch."""
    begun, found, batches = time.monotonic(), Sum(), _batches(iter(seeds))
    workers = cores if cores is not None else os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=prepared) as pool:
        under_way = {pool.submit(batch, some) for some in islice(batches, 2 * workers)}
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                for result in future.result():
                    found.take(result)
            found.seconds = time.monotonic() - begun
            tell(found)
            if not enough(found):
                under_way |= {pool.submit(batch, some) for some in islice(batches, len(done))}
    return found


def prepared() -> None:
    """Make a process ready to run seeds: nothing is logged, and what has been loaded is not collected."""
    logging.getLogger("proxy").setLevel(logging.CRITICAL)
    gc.collect()
    gc.freeze()


def batch(seeds: list[int]) -> list[Result]:
    """Run some seeds."""
    results = []
    for seed in seeds:
        results.append(one(seed))
        gc.collect()
    return results


def one(seed: int, size: Size = WHOLE) -> Result:
    """Run one seed. What the simulation itself raises is a failure of that seed."""
    try:
        return simulate(seed, size)[0]
    except Exception as fault:  # noqa: BLE001 - it is told with its seed
        return Result(seed, size, [f"the simulation: {fault!r}"], {}, "")


def digest_elsewhere(seed: int, hash_seed: int) -> str:
    """Return the digest of a seed, run in a process of its own with another hash order."""
    code = f"from trials.simulation.campaign import one, prepared; prepared(); print(one({seed}).digest)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip()


def _batches(seeds: Iterator[int]) -> Iterator[list[int]]:
    while some := list(islice(seeds, BATCH)):
        yield some
