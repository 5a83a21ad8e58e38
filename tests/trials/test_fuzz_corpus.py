"""Every input that is kept, read again: what was found once is not found a second time."""

from __future__ import annotations

import pytest

from trials.fuzz.corpus import FOLDER, LARGEST, kept
from trials.fuzz.growing import MOST_BYTES
from trials.fuzz.registry import NAMES, load

_MOST_IN_ALL = 300 * 1024


@pytest.mark.parametrize("name", NAMES)
def test_every_kept_input_keeps_the_promises(name: str) -> None:
    """None raises, and each corpus shows that its target sees more than one thing."""
    target = load(name)
    seen: set[str] = set()
    for called, data in kept(name):
        try:
            seen |= target.check(data)
        except Exception as error:
            raise AssertionError(f"python -m trials fuzz {name} --input {FOLDER / name / called}") from error
    assert len(seen) > 1


def test_the_corpora_are_small_and_of_known_targets() -> None:
    """They are in git, and a folder that no target reads would never be looked at."""
    assert {path.name for path in FOLDER.iterdir()} == set(NAMES)
    sizes = {name: [len(data) for _, data in kept(name)] for name in NAMES}
    assert max(map(max, sizes.values())) <= LARGEST
    assert sum(map(sum, sizes.values())) <= _MOST_IN_ALL
    assert all(sum(each) <= 2 * MOST_BYTES + LARGEST for each in sizes.values())
