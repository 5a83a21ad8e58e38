"""The simulation finds what is broken on purpose, each within so many seeds."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from trials.simulation.campaign import one
from trials.simulation.mutants import MUTANTS

WITHIN = 40


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Nobody reads what the store has to say of simulated disks."""
    logger = logging.getLogger("proxy")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str) -> None:
    broken = MUTANTS[name]
    found: set[str] = set()
    for seed in range(broken.near, broken.near + WITHIN):
        with broken.make():
            result = one(seed)
        found |= {failure.partition(":")[0] for failure in result.failures}
        if found & set(broken.seen_by):
            return
    pytest.fail(f"{WITHIN} seeds have not found it; they have found {sorted(found) or 'nothing'}")
