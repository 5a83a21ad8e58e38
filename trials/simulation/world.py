"""One run: a pod with its agents, its sidecar, its disk and its operators, the hosts that they call, and what befalls them."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proxy.core.units import MILLISECOND, SECOND
from proxy.core.writes import WriteRecord, WriteState
from trials.simulation import checks
from trials.simulation.actors import play
from trials.simulation.agents import Agents
from trials.simulation.clock import STARTS_AT, Clock
from trials.simulation.disk import Disk
from trials.simulation.draws import Draws
from trials.simulation.misfortunes import befall
from trials.simulation.model import Model
from trials.simulation.network import Network
from trials.simulation.operators import at_work
from trials.simulation.pipes import End
from trials.simulation.policies import APP, HOSTS, policy_of
from trials.simulation.process import Process
from trials.simulation.raw import Outcome
from trials.simulation.server import Server
from trials.simulation.trace import Trace

LONGEST: Final = 310 * SECOND
"""How long jobs may go on before they are left alone, and calls may last after that: longer than any budget."""
REST: Final = 25 * SECOND
"""How long nothing is asked before it is looked at what is left: linger, idle connections and looks are over by then."""
_NUMBER: Final = re.compile(rb"\r\nx-request-id: ([0-9]+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens in a run. `jobs` None, `misfortunes` None: as many as are drawn."""

    jobs: int | None = None
    misfortunes: int | None = None


WHOLE: Final = Size()


@dataclass
class Result:
    """What came of a run. `failures`: what did not hold, as `check: what`; `exercised`: how often each check looked at something."""

    seed: int
    size: Size
    failures: list[str]
    exercised: dict[str, int]
    digest: str
    jobs: int = 0
    calls: int = 0
    records: int = 0
    processes: int = 0
    simulated: int = 0


class World:
    """Everything of one run."""

    def __init__(self, seed: int, size: Size, folder: Path, *, whole: bool) -> None:
        """Draw what there is; nothing happens yet."""
        self.seed = seed
        draws = self.draws = Draws(seed, "world")
        self.size = size
        self.trace = Trace(whole=whole)
        self.clock = Clock(Draws(seed, "order"))
        self.network = Network(self.clock, Draws(seed, "network"), self.trace)
        self.network.wire = self._sent
        self.disk = Disk(self.clock, Draws(seed, "disk"), self.trace, folder)
        self.model = Model()
        self.checks = checks.Checks()
        self.calls_of: dict[str, int] = {}
        self.states: dict[str, list[tuple[int, WriteState]]] = {}
        """What each write's record has been, and since when."""
        self.processes: list[Process] = []
        self.talked: list[Outcome] = []
        self.winding_down = False
        self.closing = False
        self._lurking: dict[str, list[Callable[[], object]]] = {}
        self.disk.on_change = lambda: self.it_is("the disk changes")
        self.servers = [self._server(name, address) for name, address in [*HOSTS.items(), ("app", APP)]]
        self.policy = policy_of(draws)
        self.process = self._process()
        self.agents = Agents(self, Draws(seed, "agents"))
        jobs = draws.between(4, 30)
        self.servers[-1].on_request = lambda call, fields: self.agents.asked_by_entry(
            call, fields.get("budget-id")
        )
        self.jobs = jobs if size.jobs is None else min(jobs, size.jobs)

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let it all happen, and look at what is left."""
        self.process.start()
        draws = self.draws
        within = draws.span(SECOND, 30 * SECOND)
        begins = Draws(self.seed, "begins")
        rush = begins.one_of((within, within, 200 * MILLISECOND))
        for number in range(self.jobs):
            self.clock.after(int(rush * begins.random()), self.agents.begin, number)
        play(at_work(self, Draws(self.seed, "operators")))
        befall(self, Draws(self.seed, "misfortunes"), within, self.size.misfortunes)
        self.clock.run(self.clock.now + within)
        ends = self.clock.now + LONGEST
        while self.agents.busy and self.clock.now < ends:
            self.clock.run(self.clock.now + SECOND)
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Let everything be well, everybody leave, and the sidecar find out; then let it exit."""
        self.winding_down = True
        self.disk.trouble = None
        self.network.lookups_hang = False
        for server in self.servers:
            server.be_well()
        if not self.process.alive:
            self.clock.run(self.clock.now + 10 * SECOND)
        for line in self.agents.lines:
            line.leave(hard=False)
        ends = self.clock.now + LONGEST
        while self.clock.now < ends and not self._quiet():
            self.clock.run(self.clock.now + SECOND)
        self.clock.run(self.clock.now + REST)
        while self.clock.now < ends + REST and self._asks():
            self.clock.run(self.clock.now + MILLISECOND)
        checks.at_rest(self)
        self.closing = True
        self.process.terminate()
        self.clock.run(self.clock.now + 15 * SECOND)
        checks.at_the_end(self)

    def _quiet(self) -> bool:
        """Say whether no call is in flight. One whose client's leave nobody could see lasts as long as its budget."""
        plane = self.process.plane
        return self.process.ready and plane is not None and not plane.in_flight

    def _asks(self) -> bool:
        """Say whether the sidecar asks about a write just now, as it does now and then for as long as that is in doubt."""
        plane = self.process.plane
        return self.process.ready and plane is not None and plane.verifier._asking > 0

    # -- the processes -----------------------------------------------------------------------------------------------

    def _process(self) -> Process:
        process = Process(self, len(self.processes) + 1, self.policy)
        self.processes.append(process)
        return process

    def gone(self, process: Process) -> None:
        """Take note that a process has ended. Another one is started, unless the run ends too."""
        self.note(process.name, process.ended)
        for number in process.begun.values():
            call = self.model.calls.get(number)
            if call is not None and call.process == process.number and call.ended_at is None:
                call.ended_at = self.clock.now
        checks.when_gone(self, process)
        if process.ended != "exited":
            self.disk.crash()
            process.journal.database.close()
        if not self.closing:
            self.clock.after(self.draws.span(10 * MILLISECOND, 3 * SECOND), self._start_again)

    def _start_again(self) -> None:
        self.process = self._process()
        self.process.start()

    # -- what is seen of them ----------------------------------------------------------------------------------------

    def note(self, who: str, what: str) -> None:
        """Add to the trace."""
        self.trace.note(self.clock.now, who, what)

    def lie_in_wait(self, moment: str, strike: Callable[[], object]) -> None:
        """Have something happen at a moment: `a write leaves`, `the disk changes`."""
        self._lurking.setdefault(moment, []).append(strike)

    def it_is(self, moment: str) -> None:
        """Let that happen which has waited for this moment."""
        for strike in self._lurking.pop(moment, ()):
            strike()

    def began(self, process: Process, record: str, number: int) -> None:
        """A call has begun in a process, under the id of its record."""
        self.calls_of[record] = number
        call = self.model.calls.get(number)
        if call is not None:
            call.record = record
            call.process = process.number

    def left_its_record(self, process: Process, record: str) -> None:
        """A call has left its record."""
        process.ended_at[record] = self.clock.now
        call = self.model.calls.get(self.calls_of.get(record, 0))
        if call is not None and call.record == record:
            call.ended_at = self.clock.now

    def recovered(self, process: Process) -> None:
        """A process has read the journal, and is about to serve."""
        checks.when_recovered(self, process)

    def declared(self, process: Process, record: WriteRecord) -> None:
        """A record is on its way to the journal."""
        self.states.setdefault(record.id, []).append((self.clock.now, record.state))
        call = self.model.calls.get(self.calls_of.get(record.id, 0))
        if call is not None and record.state is WriteState.INTENT:
            call.declared_at = self.clock.now
        checks.when_declared(self, process, record)

    def _sent(self, end: End, data: bytes) -> None:
        """The sidecar has sent something, to a server or to a client."""
        if end is not end.conn.a:
            return
        found = _NUMBER.search(data, 0, 4096)
        if found is None:
            return
        call = self.model.calls.get(int(found[1]))
        if call is not None:
            call.ways.append(end)
            if call.sent_at is None:
                call.sent_at = self.clock.now
            if call.method == "POST":
                self.it_is("a write leaves")
            checks.when_sent(self, self.process, call)

    def _server(self, name: str, address: str) -> Server:
        distance = {"far": "far away", "app": "same host"}.get(name, "same cluster")
        draws = Draws(self.seed, f"server {name}")
        server = Server(name, address, distance, self.clock, draws, self.trace, self.model)
        self.network.add(server)
        return server


def simulate(seed: int, size: Size = WHOLE, *, whole: bool = False) -> tuple[Result, World]:
    """Run one seed. `whole`: keep the whole trace."""
    from trials.simulation.seams import in_place

    collected = gc.isenabled()
    gc.disable()  # what is thrown away, and when, is no part of a run
    shared = Path("/dev/shm")  # memory, where there is such a folder
    folder = Path(tempfile.mkdtemp(prefix="wc-simulation-", dir=shared if shared.is_dir() else None))
    try:
        world = World(seed, size, folder, whole=whole)
        with in_place(world):
            try:
                world.run()
                result = _result(world)
            finally:
                for process in world.processes:
                    process.bury()
        return result, world
    finally:
        if collected:
            gc.enable()
        shutil.rmtree(folder, ignore_errors=True)


def _result(world: World) -> Result:
    return Result(
        seed=world.seed,
        size=world.size,
        failures=world.checks.failures,
        exercised=dict(world.checks.exercised),
        digest=world.trace.digest(),
        jobs=world.agents.jobs,
        calls=len(world.model.calls),
        records=sum(len(process.records) for process in world.processes),
        processes=len(world.processes),
        simulated=world.clock.now - STARTS_AT,
    )
