"""An agent on Node that has only the variables of its environment: it opens a tunnel for every call, `http://` too."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.calls import Call
from tests.clients.writers import NODE
from tests.support.behaviours import answer, stall
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

FETCHES = Path(__file__).with_name("fetches.mjs")
OPAQUE = 'waterclock_opaque_connections_total{way="connect"}'


def fetches(*calls: tuple[str, ...], ca: Path | None = None) -> list[dict[str, Any]]:
    """What one process on Node sees of its calls. `calls`: method, URL, and perhaps a body."""
    environment = {**os.environ, "NODE_USE_ENV_PROXY": "1"}
    if ca is not None:
        environment["NODE_EXTRA_CA_CERTS"] = str(ca)
    command: list[str | Path] = [NODE, FETCHES, json.dumps(calls)]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout
    seen: list[dict[str, Any]] = json.loads(said)
    return seen


def test_its_calls_are_steps_of_its_job(
    sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]
) -> None:
    """Each is one, and what they went through is none."""
    before = sidecar.samples().get(OPAQUE, 0)
    tool.then(*(answer(b"tea") for _ in range(4)))
    call = calling(tool.url())
    seen = fetches(*(("GET", tool.url(f"/{number}")) for number in range(3)), ("POST", tool.url("/3"), "{}"))
    assert [(each["status"], each["body"]) for each in seen] == [(200, "tea")] * 4
    assert {each["fields"]["budget-id"] for each in seen} == {call.budget}
    left = [int(each["fields"]["budget-remaining-ms"]) for each in seen]
    assert 10_000 > left[0] >= left[1] >= left[2] >= left[3] > 0
    steps = sidecar.records_of(call.budget, 4)
    assert [(step["step"], step["method"], step["outcome"]) for step in steps] == [
        (1, "GET", "completed"),
        (2, "GET", "completed"),
        (3, "GET", "completed"),
        (4, "POST", "completed"),
    ]
    assert [step["record"] for step in steps] == [each["fields"]["budget-record"] for each in seen]
    assert [request.get("budget-id") for request in tool.whole] == [call.budget] * 4
    assert all(request.get("proxy-authorization") is None for request in tool.whole)
    assert sidecar.samples().get(OPAQUE, 0) == before


def test_a_call_is_held_to_its_time(sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]) -> None:
    """A slow read is cut, and told so; when all of the budget is spent, nothing is started any more."""
    tool.then(stall(), stall())
    call = calling(tool.url(), remaining_ms=1000)
    slow, spent, refused = fetches(
        ("GET", tool.url("/slow/node-1")), ("GET", tool.url("/node-2")), ("GET", tool.url("/node-3"))
    )
    assert slow["status"] == 504
    assert slow["fields"]["budget-outcome"].startswith(
        "deadline_exceeded; effect=none; retry=safe; reason=route_cap"
    )
    assert spent["status"] == 504
    assert spent["fields"]["x-should-retry"] == "false"
    assert json.loads(spent["body"])["reason"] == "budget_remaining"
    assert (refused["status"], json.loads(refused["body"])["reason"]) == (403, "budget_exhausted")
    assert [request.target for request in tool.requests] == ["/slow/node-1", "/node-2"]
    assert {step["kind"] for step in sidecar.records_of(call.budget, 3)} == {"read"}


def test_an_uncertain_write_is_not_repeated(
    sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]
) -> None:
    tool.then(stall())
    call = calling(tool.url())
    write = ("POST", tool.url("/slow/node-orders"), '{"item": "tea"}')
    cut, repeated = fetches(write, write)
    assert (cut["status"], cut["fields"]["x-should-retry"]) == (424, "false")
    assert cut["fields"]["budget-outcome"].startswith("deadline_exceeded; effect=uncertain; retry=verify")
    assert (repeated["status"], json.loads(repeated["body"])["reason"]) == (424, "unresolved_write")
    first, second = sidecar.records_of(call.budget, 2)
    assert cut["fields"]["budget-record"] == first["record"]
    assert json.loads(repeated["body"])["record"] == first["record"]
    assert (first["kind"], first["effect"], second["effect"]) == ("write", "uncertain", "none")
    assert len(tool.requests) == 1


def test_https_stays_between_the_two(
    sidecar: Sidecar, safe_tool: Upstream, calling: Callable[..., Call], ca_file: Path
) -> None:
    before = sidecar.samples().get(OPAQUE, 0)
    safe_tool.then(answer(b"tea"))
    call = calling(safe_tool.url(), ca=ca_file)
    (seen,) = fetches(("POST", safe_tool.url("/orders"), "{}"), ca=ca_file)
    assert (seen["status"], seen["body"]) == (200, "tea")
    assert not [name for name in seen["fields"] if name.startswith("budget-")]
    (step,) = sidecar.records_of(call.budget)
    assert (step["method"], step["kind"], step["target"]) == (
        "CONNECT",
        "opaque",
        f"tcp://{safe_tool.authority}",
    )
    assert sidecar.samples()[OPAQUE] == before + 1
