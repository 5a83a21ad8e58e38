"""Seeds that have once found a fault hold ever since, and a seed is the same story wherever it is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from trials.simulation.campaign import digest_elsewhere, one
from trials.simulation.kept import kept_seeds
from trials.simulation.world import Size


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Nobody reads what the store has to say of simulated disks."""
    logger = logging.getLogger("proxy")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.mark.parametrize(("seed", "why"), kept_seeds(), ids=[str(seed) for seed, _ in kept_seeds()])
def test_a_kept_seed_holds(seed: int, why: str) -> None:
    assert one(seed).failures == [], why


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_replays_to_the_same_byte(seed: int) -> None:
    assert one(seed).digest == one(seed).digest


def test_a_seed_is_the_same_in_another_process_with_another_hash_order() -> None:
    assert {digest_elsewhere(4, hash_seed=number) for number in (1, 77)} == {one(4).digest}


def test_two_seeds_are_two_stories() -> None:
    assert one(1).digest != one(2).digest


def test_a_smaller_run_is_a_part_of_the_whole() -> None:
    """Fewer jobs and no misfortunes, and still a run in which everything is checked."""
    small = one(5, Size(jobs=2, misfortunes=0))
    assert small.failures == []
    assert small.calls < one(5).calls
    assert small.exercised["nothing is left"]
