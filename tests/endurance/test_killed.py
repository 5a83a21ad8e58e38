"""`kill -9` in the middle of a hundred writes: what may have left is known afterwards, and what was answered is not held
against anybody.

The server's own record says what has left the sidecar, the clients' own what was answered. In between is an answer that
has reached the sidecar and dies with it: such a write is either uncertain afterwards or known to have been answered.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.behaviours import head
from tests.support.callers import NOTHING, Answer, Caller, Headers, call, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Exchange, Request, Upstream
from tests.support.waiting import eventually

POLICY = "writes: {fingerprint_bytes: 4KiB, linger: 300ms}"
SMALL = b'{"item": "tea"}'
LARGE = b"x" * 100_000
WRITES = 100


class Server(Upstream):
    """Answers at once, late or never, as the path says, and knows what it has begun to answer."""

    def __init__(self) -> None:
        super().__init__(self._behave)
        self.answered: set[str] = set()

    async def _behave(self, exchange: Exchange) -> None:
        target = exchange.request.target
        await exchange.read_all()
        if target.endswith("/stall"):
            await exchange.until_left()
            return
        if target.endswith("/slow"):
            await exchange.sleep(0.25)
        self.answered.add(target)
        await exchange.send(head(headers=[("Content-Length", "2")]) + b"ok")


class Writes:
    """A hundred writes at once, of five sorts, and what their callers saw of each."""

    def __init__(self, sidecar: Sidecar, upstream: Server, turn: int) -> None:
        self.sidecar = sidecar
        self.upstream = upstream
        self.turn = turn
        self.answers: dict[str, Answer] = {}
        self._threads: list[threading.Thread] = []
        self._dead = threading.Event()
        for number in range(WRITES):
            write, path = self._SORTS[number % len(self._SORTS)], f"/{turn}/{number}"
            self._threads.append(threading.Thread(target=self._run, args=(write, path), daemon=True))

    def start(self) -> None:
        """Send them all."""
        for thread in self._threads:
            thread.start()

    def under_way(self) -> bool:
        """Whether all that will never be answered has reached the server."""
        return len(unanswered(self.reached)) == 2 * WRITES // len(self._SORTS)

    def join(self) -> None:
        """Wait until each caller knows how it ended."""
        self._dead.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()

    def _run(self, write: Callable[[Writes, str], None], path: str) -> None:
        try:
            write(self, path)
        except OSError:
            self.answers.setdefault(path, NOTHING)  # connected too late, or to nobody

    # -- the sorts ---------------------------------------------------------------------------------------------------

    def _answered(self, path: str) -> None:
        """Answered at once, one after the other, until there is nobody who answers."""
        for number in range(100_000):
            each = f"{path}/{number}"
            self.answers[each] = call(self.sidecar, "POST", self.upstream.url(each), body=SMALL)
            if not self.answers[each].complete:
                return

    def _stalled(self, path: str) -> None:
        """Done by the server, and not answered."""
        self.answers[path] = call(self.sidecar, "POST", self.upstream.url(path + "/stall"), body=SMALL)

    def _slow(self, path: str) -> None:
        """Done by the server, and answered at about the time of the kill."""
        self.answers[path] = call(self.sidecar, "POST", self.upstream.url(path + "/slow"), body=SMALL)

    def _held(self, path: str) -> None:
        """Half of its body has arrived, so it is held: not a byte has left."""
        with Caller(self.sidecar) as caller:
            caller.send(render("POST", self.upstream.url(path + "/held"), body=SMALL)[:-5])
            self._dead.wait(20)

    def _streamed(self, path: str) -> None:
        """Too large to be held: a part of it has left."""
        target = self.upstream.url(path + "/streamed")
        with Caller(self.sidecar) as caller:
            caller.send(render("POST", target, self.key(path), LARGE)[:-50_000])
            self._dead.wait(20)

    @staticmethod
    def key(path: str) -> Headers:
        """The idempotency key that a streamed write has."""
        return {"Idempotency-Key": f"key-{path}"}

    _SORTS = (_answered, _stalled, _slow, _held, _streamed)

    # -- what was seen -----------------------------------------------------------------------------------------------

    @property
    def reached(self) -> set[str]:
        """Of which the server has at least the head."""
        return {
            request.target
            for request in self.upstream.requests
            if request.target.startswith(f"/{self.turn}/")
        }

    @property
    def answered(self) -> set[str]:
        """Which the server has answered, whether or not a caller has heard of it."""
        return {target for target in self.upstream.answered if target.startswith(f"/{self.turn}/")}

    @property
    def settled(self) -> set[str]:
        """Of which a caller has the server's whole answer."""
        return {
            request.target
            for request in self.upstream.requests
            if (seen := self.answers.get(_caller_of(request))) is not None
            and seen.complete
            and seen.status == 200
        }


def _caller_of(request: Request) -> str:
    parts = request.target.split("/")
    return request.target if parts[-1].isdigit() else "/".join(parts[:-1])


@pytest.fixture
def upstream() -> Iterator[Server]:
    """The server."""
    server = Server()
    with server:
        yield server


def uncertain(sidecar: Sidecar) -> dict[str, dict[str, Any]]:
    """What the journal holds against anybody, by path."""
    said = sidecar.ask("/uncertain?state=uncertain")
    assert said["total"] <= 500, "more than is shown at once"
    return {"/" + write["target"].split("/", 3)[3]: write for write in said["writes"]}


def listed(sidecar: Sidecar, state: str) -> set[str]:
    """The paths of the writes that are on record in a state."""
    writes = sidecar.ask(f"/uncertain?state={state}")["writes"]
    return {"/" + write["target"].split("/", 3)[3] for write in writes}


@pytest.mark.parametrize("sync", ["normal", "full"])
def test_killed_in_the_middle_of_a_hundred_writes(sync: str, upstream: Server, tmp_path: Path) -> None:
    """Twice on the same journal, each time somewhere else in the middle."""
    chance = random.Random()
    with Sidecar(f"{{{POLICY}, journal: {{sync: {sync}}}}}", folder=tmp_path) as sidecar:
        known: set[str] = set()
        for turn in range(2):
            writes = Writes(sidecar, upstream, turn)
            writes.start()
            eventually(writes.under_way)
            time.sleep(chance.uniform(0.05, 0.3))
            sidecar.kill()
            sidecar.noise[:] = [
                line for line in sidecar.noise if line.endswith("\n")
            ]  # it died in the middle of one
            writes.join()
            sidecar.restart()
            found = uncertain(sidecar)
            fresh = found.keys() - known
            known |= fresh
            assert fresh >= writes.reached - writes.answered, "whatever may have left is known"
            assert listed(sidecar, "reported") | fresh >= writes.reached - writes.settled, (
                "nothing is forgotten"
            )
            assert fresh.isdisjoint(writes.settled), "what was answered is held against nobody"
            assert not [path for path in fresh if path.endswith("/held")], (
                "nor what was not complete enough to be sent"
            )
            assert len(unanswered(fresh)) == 40
            assert writes.settled, "some were answered before"
            assert all(found[path]["reason"] == "recovered" for path in fresh)
            refuse_all(sidecar, upstream, {path: found[path] for path in fresh})
            for path in (next(iter(writes.settled)), f"/{turn}/3/held"):
                again = call(sidecar, "POST", upstream.url(path), body=SMALL)
                assert again.status == 200, "what is settled, or never left, may be sent"


def unanswered(paths: set[str]) -> list[str]:
    """Those that the server leaves without an answer."""
    return [path for path in paths if path.endswith(("/stall", "/streamed"))]


def refuse_all(sidecar: Sidecar, upstream: Server, found: dict[str, dict[str, Any]]) -> None:
    """The guard remembers: each repetition is refused with the record of the first, and nothing of it is sent."""
    before = len(upstream.requests)
    for path, write in found.items():
        large = path.endswith("/streamed")
        headers = Writes.key(path.removesuffix("/streamed")) if large else {}
        again = call(sidecar, "POST", upstream.url(path), headers=headers, body=LARGE if large else SMALL)
        assert again.status == 424, (path, again, sidecar.faults)
        assert again.outcome.reason == "unresolved_write"
        assert again.problem["record"] == write["id"]
    assert len(upstream.requests) == before
