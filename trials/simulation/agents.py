"""The agents of the pod: jobs of several calls under one budget, made by clients of every kind that there is.

Some resend blindly what has failed, as SDKs do; some read the sidecar's advice; the careful ones ask the other side
whether a write has happened, and send it again with `Budget-Retry: confirmed` when it has not. Some leave in the middle,
end their side, send in small pieces, or ask again before they have been answered.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy.core.units import MILLISECOND, SECOND
from trials.simulation.actors import Script, Waits, first_of, pause, play
from trials.simulation.client import Line
from trials.simulation.draws import Draws
from trials.simulation.model import Call
from trials.simulation.policies import HOSTS as POLICY_HOSTS
from trials.simulation.policies import INBOUND, OUTBOUND
from trials.simulation.raw import talk
from trials.simulation.requests import wire_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from trials.simulation.world import World

HOSTS: Final = {
    "plain": 6.0,
    "narrow": 2.0,
    "serial": 2.0,
    "again": 3.0,
    "honoured": 3.0,
    "few": 2.0,
    "verified": 3.0,
    "keyed": 2.0,
    "open": 2.0,
    "model": 4.0,
    "far": 1.0,
    "nowhere": 0.2,
}
_BODIES: Final = (10, 40, 40, 200, 70_000)
_FAILED: Final = frozenset({408, 409, 429, 500, 502, 503, 504})


class Work(NamedTuple):
    """What one step of a job asks for, however often it has to be asked."""

    host: str
    method: str
    path: str
    body: bytes
    key: str | None
    stage: str | None


class Habits(NamedTuple):
    """How one client is. `resends`: how often it repeats what failed; `reads_advice`: only where the sidecar says so."""

    who: str
    resends: int
    reads_advice: bool
    careful: bool
    patience: int
    keeps: bool
    leaves: float
    pieces: int
    pipelines: bool
    ends_side: bool
    way: str


class Agents:
    """All agents of one run."""

    def __init__(self, world: World, draws: Draws) -> None:
        """Begin with nobody at work."""
        self.world = world
        self.draws = draws
        self.jobs = 0
        self.done = 0
        self._numbers = itertools.count(1)
        self._units = itertools.count(1)
        self._known: list[Work] = []
        self.lines: list[Line] = []

    def asked_by_entry(self, number: int, budget: str | None) -> None:
        """Let the app do its job, which an entry request has asked it for. Its calls name its budget, or say nothing."""
        self.jobs += 1
        draws = Draws(self.world.seed, f"job of call {number}")
        play(self._job(draws, number, budget if draws.happens(0.7) else None, stated=False), self._over)

    def begin(self, number: int) -> None:
        """Let a job begin."""
        self.jobs += 1
        draws = Draws(self.world.seed, f"job {number}")
        if draws.happens(0.1):
            play(self._enter(draws, number), self._over)
        elif draws.happens(0.06):
            work = Work(draws.one_of(sorted(POLICY_HOSTS)), "GET", "/raw", b"", None, None)
            call = self._call(work, "dave", confirmed=False, inbound=False)
            play(talk(self.world, draws, call), self._over)
        else:
            budget = f"job-{number}" if draws.happens(0.8) else None
            play(self._job(draws, number, budget, stated=draws.happens(0.8)), self._over)

    @property
    def busy(self) -> bool:
        """Whether some job has not ended."""
        return self.done < self.jobs

    def _over(self) -> None:
        self.done += 1

    # -- a job -------------------------------------------------------------------------------------------------------

    def _job(self, draws: Draws, number: int, budget: str | None, *, stated: bool) -> Script:
        habits = _habits(draws)
        total = draws.span(5 * MILLISECOND, 30 * SECOND) if stated else None
        ends_at = self.world.clock.now + (total if total is not None else 60 * SECOND)
        line: Line | None = None
        for _ in range(draws.between(1, 5)):
            if self.world.clock.now >= ends_at and draws.happens(0.7):
                break
            works = [self._work(draws) for _ in range(draws.one_of((1, 1, 1, 2, 3)))]
            if len(works) > 1 and (not habits.pipelines or habits.way != "proxy"):
                yield _all([self._step(draws, habits, work, budget, ends_at, None) for work in works])
                continue
            if (
                line is None
                or not line.free
                or not habits.keeps
                or line.leads_to not in (None, works[0].host)
            ):
                line = self._line(habits, works[0].host, budget)
            if len(works) > 1:
                yield _all([self._step(draws, habits, work, budget, ends_at, line) for work in works])
            else:
                yield _all([self._step(draws, habits, works[0], budget, ends_at, line)])
            yield pause(self.world.clock, draws.span(MILLISECOND // 100, 200 * MILLISECOND))
        if line is not None and not line.over:
            line.leave(hard=draws.happens(0.2))

    def _step(
        self, draws: Draws, habits: Habits, work: Work, budget: str | None, ends_at: int, line: Line | None
    ) -> Script:
        """Ask for one piece of work, again and again as the client's habits are."""
        confirmed = False
        for attempt in range(habits.resends + 1):
            if line is None or not line.free:
                line = self._line(habits, work.host, budget)
            call = self._call(work, habits.who, confirmed=confirmed, inbound=False)
            left = ends_at - self.world.clock.now
            absolute = line.leads_to is None
            wire = wire_of(draws, call, budget, left, attempt, work.stage, absolute=absolute)
            if draws.happens(0.02):
                line.spoil(draws, wire)
                return
            answer = yield self._asked(draws, habits, line, call, wire)
            confirmed = False
            if answer is None:
                line.leave(hard=draws.happens(0.3))
            if answer is not None and answer.whole and answer.status not in _FAILED and answer.status != 424:
                return
            if habits.careful and work.method == "POST" and work.host != "model":
                yield pause(self.world.clock, draws.span(MILLISECOND, 3 * SECOND))
                if any(each.committed for each in self._same(call)):
                    return
                if any(self.world.model.in_doubt(each) for each in self._same(call)):
                    continue
                confirmed = draws.happens(0.8)
            elif (
                answer is not None and habits.reads_advice and answer.fields.get("x-should-retry") == "false"
            ):
                return
            yield pause(self.world.clock, draws.span(MILLISECOND, SECOND))

    def _same(self, call: Call) -> list[Call]:
        """Return the calls that ask for the same work."""
        return list(self.world.model.by_unit[call.unit])

    def _asked(self, draws: Draws, habits: Habits, line: Line, call: Call, wire: bytes) -> Waits:
        """Ask, and wait for the answer as long as the client's patience lasts; or leave, or end its side."""
        world = self.world
        leaves = draws.span(MILLISECOND // 10, 5 * SECOND) if draws.happens(habits.leaves) else None
        gap = draws.span(1_000, 20 * MILLISECOND)

        def ask(tell: Callable[[Any], None]) -> None:
            line.ask(call, wire, tell, most_pieces=habits.pieces, gap=gap)
            if habits.ends_side and habits.pieces == 1:
                line.end_side()
            if leaves is not None:
                hard = draws.happens(0.5)
                world.clock.after(leaves, lambda: line.leave(hard=hard))

        return first_of(world.clock, habits.patience, ask)

    # -- an entry request --------------------------------------------------------------------------------------------

    def _enter(self, draws: Draws, number: int) -> Script:
        """Ask the pod's own app for something, from outside."""
        habits = _habits(draws)
        line = self._entrance(habits.who)
        for attempt in range(draws.between(1, 3)):
            if not line.free:
                line = self._entrance(habits.who)
            method = draws.one_of(("GET", "POST"))
            body = b"x" * draws.one_of(_BODIES) if method == "POST" else b""
            work = Work("app", method, f"/job/{number}/{attempt}", body, None, None)
            call = self._call(work, habits.who, confirmed=False, inbound=True)
            left = draws.span(5 * MILLISECOND, 20 * SECOND)
            budget = draws.one_of((f"entry-{number}", None))
            answer = yield self._asked(
                draws, habits, line, call, wire_of(draws, call, budget, left, attempt, None, absolute=False)
            )
            if answer is None:
                line.leave(hard=draws.happens(0.3))
        line.leave(hard=draws.happens(0.3))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _work(self, draws: Draws) -> Work:
        """Return work: mostly new, sometimes what another has asked for before."""
        if self._known and draws.happens(0.12):
            return draws.one_of(self._known[-8:])
        host = draws.weighted(HOSTS)
        method = draws.weighted({"POST": 6.0, "GET": 3.0, "PUT": 1.0, "DELETE": 0.7, "HEAD": 0.5})
        unit = next(self._units)
        body = b""
        if host == "model":
            method, body = "POST", draws.one_of((b'{"model":"big"}', b'{"model": "big", "n": 2}', b"no json"))
        elif method in ("POST", "PUT"):
            body = b'{"unit": %d, "a": "%b"}' % (unit, b"a" * draws.one_of(_BODIES))
        key = f"k{unit}" if draws.happens(0.7 if host in ("honoured", "verified", "keyed") else 0.3) else None
        stage = draws.one_of((None, None, "retrieval", "llm"))
        path = f"/w/{unit}" if host != "model" else "/chat"
        work = Work(host, method, path, body, key, stage)
        self._known.append(work)
        return work

    def _call(self, work: Work, who: str, *, confirmed: bool, inbound: bool) -> Call:
        call = Call(
            next(self._numbers),
            work.host,
            work.method,
            work.path,
            work.body,
            work.key,
            who,
            confirmed,
            inbound,
            self.world.clock.now,
        )
        self.world.model.add(call)
        return call

    def _line(self, habits: Habits, host: str, budget: str | None) -> Line:
        """Return a new connection to the outbound port, in the way that the client is used to."""
        if habits.way == "proxy" or host not in POLICY_HOSTS:
            return self._opened(habits.who, OUTBOUND)
        if habits.way == "redirect":
            return self._opened(habits.who, OUTBOUND, leads_to=host, original=(POLICY_HOSTS[host], 80))
        named = f"Budget-Id: {budget}\r\n" if budget is not None else ""
        connect = f"CONNECT {host}:80 HTTP/1.1\r\nHost: {host}:80\r\n{named}\r\n".encode()
        return self._opened(habits.who, OUTBOUND, leads_to=host, connect=connect)

    def _entrance(self, who: str) -> Line:
        """Return a new connection to the inbound port."""
        return self._opened(who, INBOUND)

    def _opened(self, who: str, port: int, **given: Any) -> Line:
        world = self.world
        line = Line(world.network, world.clock, self.draws, world.model, port, who, **given)
        self.lines.append(line)
        return line


def _habits(draws: Draws) -> Habits:
    return Habits(
        who=draws.one_of(("alice", "bob", "carol")),
        resends=draws.one_of((0, 0, 1, 2)),
        reads_advice=draws.happens(0.5),
        careful=draws.happens(0.4),
        patience=draws.span(30 * MILLISECOND, 40 * SECOND),
        keeps=draws.happens(0.7),
        leaves=draws.one_of((0.0, 0.0, 0.1, 0.5)),
        pieces=draws.one_of((1, 1, 1, 1, 3, 12)),
        pipelines=draws.happens(0.1),
        ends_side=draws.happens(0.05),
        way=draws.weighted({"proxy": 8.0, "tunnel": 1.0, "redirect": 1.5}),
    )


def _all(scripts: list[Script]) -> Waits:
    """Wait for several scripts, which begin now."""

    def waits(tell: Callable[[Any], None]) -> None:
        left = len(scripts)

        def one_over() -> None:
            nonlocal left
            left -= 1
            if not left:
                tell(None)

        for script in scripts:
            play(script, one_over)

    return waits
