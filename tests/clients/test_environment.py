"""Which clients obey the variables that the injector sets, and what each understands of NO_PROXY: docs/clients.md, measured.

Every client that the machine has is started with exactly the variables of an injected container, beside a real sidecar.
`NODE_PATH` names where packages of npm are, if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.clients.environment.pod import PAST, PORT, THROUGH, WRITTEN, Pod, pod
from tests.clients.environment.programs import PROGRAMS, Program

pytestmark = pytest.mark.timeout(300)  # the client in Go is built first

GUIDE = (Path(__file__).parents[2] / "docs/clients.md").read_text()


def table(first: str) -> dict[str, dict[str, str]]:
    """The table of the page that begins with a column of this name: its rows by their client."""
    found: dict[str, dict[str, str]] = {}
    head: list[str] = []
    for line in GUIDE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] == first:
            head = cells
        elif not cells:
            head = []
        elif head and not cells[0].startswith("-"):
            found[cells[0]] = dict(zip(head, cells, strict=True))
    return found


OBEYING = table("client")
UNDERSTOOD = table("in NO_PROXY")

every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@pytest.fixture(scope="module")
def inside(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """A pod for all of them."""
    folder = tmp_path_factory.mktemp("pod")
    folder.chmod(0o755)
    with pod(folder, ca) as inside:
        yield inside


def test_every_client_of_the_page_can_be_tried() -> None:
    """What the tables say of a client is what a program here has shown, of all that obey in both of them."""
    named = {program.name for program in PROGRAMS}
    assert set(OBEYING) <= named
    assert set(UNDERSTOOD) == {name for name, row in OBEYING.items() if row["`http://`"] == "yes"}


@every_program
def test_client(program: Program, inside: Pod) -> None:
    """Whether its calls pass through the sidecar is what the page says, and none goes nowhere."""
    if program.missing:
        pytest.skip(program.missing)
    if program.name not in OBEYING:
        pytest.skip("docs/clients.md says nothing of this version")
    seen = inside.watch(program)
    row = OBEYING[program.name]
    assert "nowhere" not in {*seen.http.values(), *seen.https.values()}, seen.said
    assert seen.https["a tool"] == _said(row["`https://`"]), seen.said
    if row["`http://`"] == "no":
        assert set(seen.http.values()) == {"past"}
        return
    assert {seen.http[place] for place in THROUGH} == {"through"}
    assert {seen.http[place] for place in PAST} == {"past"}
    assert seen.https["`name`"] == seen.http["`name`"]
    understood = UNDERSTOOD[program.name]
    assert {written: seen.http[written] for written in WRITTEN} == {
        written: "past" if understood[written] == "past" else "through" for written in WRITTEN
    }


def _said(cell: str) -> str:
    return "through" if cell == "yes" else "past"


def test_httpx_fails_over_a_network_of_ipv6(inside: Pod) -> None:
    """Why the injector puts none into NO_PROXY: every call fails, and with it every SDK that is built on httpx."""
    (program,) = [program for program in PROGRAMS if program.name == "httpx"]
    told = inside.environment()["NO_PROXY"] + ",fd88::/64"
    said = inside.run(program, [f"http://tool.example:{PORT}/x"], NO_PROXY=told, no_proxy=told)
    assert re.search(r"InvalidURL", said), said


def test_addresses_of_ipv6_without_brackets_are_refused(inside: Pod) -> None:
    """httpx names an address of IPv6 to its proxy without brackets, which RFC 9112 has no meaning for."""
    (program,) = [program for program in PROGRAMS if program.name == "httpx"]
    assert " 400\n" in inside.run(program, [f"http://[fd77::2]:{PORT}/x"])
