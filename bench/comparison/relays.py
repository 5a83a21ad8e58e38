"""Whether a proxy does what it is measured for. One that does less than relay must not be measured beside those that do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from bench.authority import issued
from bench.comparison.scenarios import Scenario
from bench.peers.base import Peer, Site, room_for
from bench.procs import HOST, Cores, Failed, free_port, running
from bench.upstream import bodies_kept


@dataclass(frozen=True)
class Far:
    """The far side: the port that requests name, and the folder in which nginx keeps bodies."""

    port: int
    room: Path


@dataclass(frozen=True)
class _Answer:
    status: int
    size: int
    closes: bool


def verify(scenario: Scenario, name: str, port: int, far: Far) -> None:
    """A request of the same form: its answer, what becomes of the connection, and its body as it arrived at nginx.

    Raises Failed, which says what is wrong.
    """
    body = _body(name, scenario.body_bytes)
    try:
        _check(scenario, _ask(scenario, port, far, scenario.path, body))
        if body:
            _ask(scenario, port, far, "/kept", body)
            if body not in bodies_kept(far.room):
                raise Failed(f"{scenario.method}: the body did not arrive as it was sent")
    except (Failed, HTTPException, OSError) as fault:
        raise Failed(f"it does not relay what it is sent: {fault}") from fault


def refuse_strangers(scenario: Scenario, peer: Peer, port: int, parent: Path, cores: Cores) -> None:
    """Another one of it, which trusts an authority that is not the upstream's, must get nothing from there.

    `port`: where nginx speaks TLS. Raises Failed where an answer comes all the same.
    """
    stranger = issued(room_for(parent, "stranger")).ca
    plan = peer.plan(Site(port, room_for(parent, peer.name), stranger))
    with running(plan, cores.proxy):
        try:
            answer = _ask(scenario, plan.port, Far(port, parent), scenario.path, b"")
        except (HTTPException, OSError):
            return
    if answer.status < 500:
        raise Failed(f"it takes any certificate: status {answer.status} through an authority of its own")


def _body(name: str, size: int) -> bytes:
    if not size:
        return b""
    text = json.dumps({"verify": name, "once": free_port()})[:-1] + ',"note":"'
    return (text + "x" * (size - len(text) - 2) + '"}').encode()


def _check(scenario: Scenario, answer: _Answer) -> None:
    if answer.status != 200 or answer.size != scenario.answer_bytes:
        got = f"status {answer.status} and {answer.size} bytes"
        raise Failed(f"{scenario.method} {scenario.path}: {got}; expected 200 and {scenario.answer_bytes}")
    if answer.closes is scenario.keep:
        raise Failed(f"the connection is {'closed' if answer.closes else 'kept'}, against what was asked for")


def _ask(scenario: Scenario, port: int, far: Far, path: str, body: bytes) -> _Answer:
    link = HTTPConnection(HOST, port, timeout=5)
    headers = {"Budget-Remaining-Ms": "30000", "Host": f"{HOST}:{far.port}"}
    if body:
        headers["Content-Type"] = "application/json"
    if not scenario.keep:
        headers["Connection"] = "close"
    try:
        link.request(scenario.method, f"http://{HOST}:{far.port}{path}", body=body or None, headers=headers)
        answer = link.getresponse()
        return _Answer(answer.status, len(answer.read()), answer.will_close)
    finally:
        link.close()
