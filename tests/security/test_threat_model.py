"""docs/threat-model.md names a test for each of its lines, and each of those is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from proxy.config import parse
from proxy.core.egress import Egress
from proxy.core.pod import PodTerms, hold_to
from proxy.core.policy import Policy

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/threat-model.md"
_NAMED = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
_NOBODYS = re.compile(r"the platform's: .+")


def lines(text: str) -> list[tuple[str, str]]:
    """The first and the last cell of each line of the tables that say by what they are shown."""
    found, shows = [], False
    for row in text.splitlines():
        cells = [cell.strip() for cell in row.strip().strip("|").split(" | ")]
        if not row.startswith("|"):
            shows = False
        elif cells[-1] == "shown by":
            shows = True
        elif shows and not row.startswith("|--"):
            found.append((cells[0], cells[-1]))
    return found


def faults(text: str) -> list[str]:
    """What is wrong with a page: a line without a test, or with one that is not there."""
    found = []
    for what, shown in lines(text):
        named = _NAMED.findall(shown)
        if not named and not _NOBODYS.fullmatch(shown):
            found.append(f"{what}: names no test")
        for path, name in named:
            if not (ROOT / "tests" / path).is_file():
                found.append(f"{what}: there is no {path}")
            elif name and name not in known_in(path):
                found.append(f"{what}: {path} has no {name}")
    return found


@cache
def known_in(path: str) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")}


def test_every_line_is_shown_by_a_test_that_is_there() -> None:
    assert faults(PAGE.read_text()) == []


def test_every_table_of_threats_and_bounds_is_read() -> None:
    """A table that lost its last column would be passed over."""
    text = PAGE.read_text()
    assert len(lines(text)) > 55
    for part in ("### In the pod", "### In the cluster", "### In the network", "## Bounds on what arrives"):
        section = text.partition(f"\n{part}\n")[2].partition("\n#")[0]
        assert len(lines(section)) == section.count("\n|") - 2, part


@pytest.mark.parametrize(
    ("shown", "fault"),
    [
        ("–", "names no test"),
        ("", "names no test"),
        ("we are careful", "names no test"),
        ("`security/test_nothing.py`", "there is no"),
        ("`security/test_threat_model.py::test_nothing`", "has no"),
        ("`security/test_threat_model.py`, `core/test_pod.py::test_nothing`", "has no"),
    ],
)
def test_a_line_without_a_test_is_found(shown: str, fault: str) -> None:
    """So that the tests above can fail."""
    text = f"| threat | holds | shown by |\n|---|---|---|\n| something | this | {shown} |\n"
    [said] = faults(text)
    assert fault in said


def test_every_test_of_this_folder_stands_for_a_line() -> None:
    """What is tested here is said there."""
    text = PAGE.read_text()
    here = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}
    assert {name for name in here if f"security/{name}" not in text} == set()


# -- two lines that have no better place -----------------------------------------------------------------------------------


def test_no_sidecar_reads_the_token_of_its_service_account() -> None:
    """Only what talks to the API server knows where it is, and no sidecar imports that (a lint contract holds it)."""
    place = re.compile(r"serviceaccount|in_?cluster")
    readers = {
        path.relative_to(ROOT / "proxy").parts[0]
        for path in (ROOT / "proxy").rglob("*.py")
        if place.search(path.read_text())
    }
    assert readers <= {"kube"}


def test_no_word_of_a_pod_touches_what_is_denied() -> None:
    """Whatever a pod's spec says, the list is the policy's."""
    policy = parse("pods: {observe: false}\negress: {deny: [metadata, 10.0.0.0/8]}")
    terms = PodTerms(True, 8080, 1, observe=True, exclude_ports=((1, 65535),), exclude_cidrs=("0.0.0.0/0",))
    held = hold_to(policy, terms)
    assert (held.egress, held.mode) == (policy.egress, policy.mode)
    assert held.egress != Egress()
    assert hold_to(Policy(), terms).egress == Egress()
