"""docs/metrics.md says what the tables of families do, the sidecar's and the injector's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.core import retries
from proxy.core.degrading import Why
from proxy.core.retries import NOT_ASKED, Again
from proxy.core.verification import Found
from proxy.degrade.cache.found import How
from proxy.observe import families
from proxy.observe.families import Type

REFERENCE = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
FAMILIES = families.COUNTED | families.WATCHED
TABLE = {
    name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning)
    for name, kind, labels, meaning in re.findall(
        r"^\| `(waterclock_(?!injector_)\w+)` \| (\w+) \| (\S.*?) \| (\S.*?) \|$", REFERENCE, re.MULTILINE
    )
}


def test_every_family_is_documented_and_none_else() -> None:
    """A family is added to the table and to the page, or to neither."""
    assert set(TABLE) == set(FAMILIES)


@pytest.mark.parametrize("name", TABLE)
def test_type_and_labels_are_those_of_the_family(name: str) -> None:
    """What a row says of the series is what a scrape shows."""
    kind, labels, _ = TABLE[name]
    family = FAMILIES[name]
    assert kind == family.type
    assert labels == family.labels or family.type is Type.INFO


def test_words_are_those_of_the_decisions() -> None:
    """Why a retry is withheld, and what a question finds, in the words that the code has for it."""
    whys = {said.why for said in vars(retries).values() if isinstance(said, Again)} - {NOT_ASKED.why}
    assert set(re.findall(r"`(\w+)`", TABLE["waterclock_retries_withheld_total"][2])) == whys
    assert set(re.findall(r"`(\w+)`", TABLE["waterclock_verifications_total"][2])) == {*Found}
    assert set(re.findall(r"`(\w+)`", TABLE["waterclock_degraded_steps_total"][2])) == {*Why}
    assert set(re.findall(r"`(\w+)`", TABLE["waterclock_cache_lookups_total"][2])) == {*How, "miss"}
