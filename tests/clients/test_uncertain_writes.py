"""A write that a tool has done, and never answered, is not done twice, whatever its client does by itself.

Each client keeps the retries that it comes with, or that its users give it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.calls import Call, Failed, uncertain
from tests.clients.writers import CLIENTS, RECORD, WORDS, Client, missing
from tests.support.behaviours import answer, hang_up, stall
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

TITLE = "The write was sent, but its effect is unknown"

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.fixture(autouse=True)
def _installed(client: Client, clients_wait_briefly: None) -> None:
    if reason := missing(client):
        pytest.skip(reason)


@pytest.fixture
def place(tool: Upstream, calling: Callable[..., Call]) -> Callable[[Client, str], Call]:
    """Where a client goes: to the tool, through its proxy settings.

    Each story has a path of its own, since a write that was cut in one would be refused in the next.
    """

    def make(client: Client, path: str) -> Call:
        return calling(tool.url(f"{path}/{client.name}"))

    return make


def judge(client: Client, sidecar: Sidecar, call: Call, tool: Upstream, failed: Failed) -> dict[str, Any]:
    """What holds however the answer was lost. Returns the step that sent the write."""
    assert len(tool.requests) == len(tool.whole) == 1, "the tool has heard it exactly once"
    (write,) = uncertain(sidecar, call)
    assert write["state"] == "uncertain"
    first, *repeats = sidecar.records_of(call.budget)
    assert first["record"] == write["id"]
    assert (first["effect"], first["status"], first["attempt"]) == ("uncertain", 424, 1)
    if client.stubborn:
        eventually(lambda: len(sidecar.records_of(call.budget)) == 3)
        repeats = sidecar.records_of(call.budget)[1:]
    assert {(step["outcome"], step["reason"]) for step in repeats} <= {("refused", "unresolved_write")}
    assert bool(repeats) == client.stubborn
    assert failed.status == 424
    title = TITLE if not client.stubborn else "Refused: an earlier attempt of this write is unresolved"
    if WORDS in client.shows:
        assert title in failed.says
    if RECORD in client.shows:
        assert write["id"] in failed.says
    assert write["id"] in failed.says + failed.carries, "a program finds the record in the error"
    return first


@every_client
def test_committed_and_stalled(
    client: Client, sidecar: Sidecar, tool: Upstream, place: Callable[[Client, str], Call]
) -> None:
    """The tool does the work, and its answer does not come in time."""
    tool.then(stall())
    call = place(client, "/slow")
    failed = client.post(call)
    first = judge(client, sidecar, call, tool, failed)
    assert (first["outcome"], first["reason"], first["phase"]) == ("deadline_exceeded", "route_cap", "sent")


@every_client
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_committed_and_closed(
    client: Client, reset: bool, sidecar: Sidecar, tool: Upstream, place: Callable[[Client, str], Call]
) -> None:
    """The tool does the work, and its connection ends without an answer."""
    tool.then(hang_up(reset=reset))
    call = place(client, f"/closed-{reset}")
    failed = client.post(call)
    first = judge(client, sidecar, call, tool, failed)
    assert (first["outcome"], first["reason"]) == ("upstream_failed", "connection_terminated")


@every_client
def test_committed_and_unavailable(
    client: Client, sidecar: Sidecar, tool: Upstream, place: Callable[[Client, str], Call]
) -> None:
    """The tool does the work, then says 503: an answer. Whoever sends it again has decided so; the sidecar never does."""
    tool.then(
        answer(b'{"error": {"message": "come back later"}}', 503, [("Content-Type", "application/json")])
    )
    call = place(client, "/unavailable")
    failed = client.post(call)
    steps = sidecar.records_of(call.budget, len(tool.requests))
    assert len(steps) == len(tool.requests) == len(tool.whole), "what the client sent, and nothing more"
    assert {(step["outcome"], step["effect"], step["status"], step["tries"]) for step in steps} == {
        ("completed", "reported", 503, 1)
    }
    assert [step["attempt"] for step in steps] == list(range(1, len(steps) + 1)), (
        "each is known as the next one"
    )
    assert (len(steps) > 1) == client.insists, "its own retries are on"
    assert uncertain(sidecar, call) == []
    if failed.status is not None:
        assert failed.status == 503
