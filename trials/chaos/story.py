"""The run: acts in which clients call, and what happens to the sidecar in the middle of them; each act is judged at its end."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.procs import Failed, progress
from proxy.core.writes import WriteState
from tests.support.ports import nobody_at
from trials.chaos.checks import judge
from trials.chaos.checks.effects import UNSETTLED
from trials.chaos.disk import Disk, disk
from trials.chaos.evidence import Evidence, Life, Trouble, Unsettled
from trials.chaos.extent import Extent, Outcome
from trials.chaos.facts import Account, Seen, Told
from trials.chaos.processes import Helper, clients, upstream
from trials.chaos.rest import Usual, at_rest, at_the_end, usual_of
from trials.chaos.sidecars import FAULTY, Chaotic, Incarnation

SHOWN: Final = 150
"""How many writes of unknown effect the control API is asked about after each act."""
_TOLD_AT_ONCE: Final = 3
_LOOK_SECONDS: Final = 0.02
_BROKEN_SECONDS: Final = 0.8
_HARM: Final = 5
_YOUNG: Final = 120_000_000
_TAIL_BYTES: Final = 65_536
_SETTLE_SECONDS: Final = 20.0
_ASKED_AGAIN: Final = 20


class Hung(Exception):
    """The run itself did not go on: names what was waited for."""


class Story:
    """One run. Use as a context manager: leaving it ends every process and gives the disk back."""

    def __init__(self, seed: int, extent: Extent, build: str, folder: Path) -> None:
        """Start nothing yet."""
        self.seed = seed
        self.extent = extent
        self.folder = folder
        self.outcome = Outcome()
        self._build = build
        self._chance = random.Random(f"{seed} story")
        self._stack = ExitStack()
        self._until = 0.0
        self._account_read = 0
        self._usual = Usual(0, 0)
        self._troubles: list[Trouble] = []
        self._recovered: dict[int, dict[str, str]] = {}
        self._remembered: list[Unsettled] = []
        self._refused: list[bool] = []
        self._disk: Disk
        self._sidecar: Chaotic
        self.incarnations: Sequence[Incarnation] = ()
        self._upstream: Helper
        self._clients: Sequence[Helper] = ()

    def __enter__(self) -> Story:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self) -> Outcome:
        """Play all acts. Raises Hung."""
        began = time.monotonic()
        self._until = began + self.extent.within
        self._begin()
        for act, events in enumerate(self.extent.events, 1):
            self._act(act, events)
            done = self.outcome
            progress(
                f"  act {act} of {len(self.extent.events)}: {done.calls:,} calls, {done.violations} violations, "
                f"{len(self.incarnations)} incarnations, {time.monotonic() - began:.0f} s"
            )
        self._sidecar.stop()
        last = self._evidence([], Account())
        last.rests.append(at_the_end(self._sidecar))
        self.outcome.take(judge(last))
        self.outcome.incarnations = len(self.incarnations)
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    # -- the cast --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        stack, folder, extent = self._stack, self.folder, self.extent
        self._disk = disk(folder / "volume")
        stack.callback(self._disk.close)
        self.outcome.disk = self._disk.what
        self._upstream, ports = upstream(folder, stack.enter_context(nobody_at()))
        stack.callback(self._upstream.stop)
        self._sidecar = Chaotic(self._build, folder, self._disk.folder)
        self.incarnations = self._sidecar.incarnations
        stack.callback(self._end_sidecar)
        self._sidecar.start()
        self._usual = usual_of(self._sidecar)
        self._clients = clients(
            extent.clients, extent.lanes, self.seed, self._sidecar.outbound, ports, folder
        )
        for helper in self._clients:
            stack.callback(helper.stop)
        self._wait(lambda: bool(self._upstream.words), "the upstream listens")

    def _end_sidecar(self) -> None:
        if not self._sidecar.incarnation.ended_by:
            self._sidecar.kill()

    # -- an act ----------------------------------------------------------------------------------------------------

    def _act(self, act: int, events: Sequence[str]) -> None:
        files = [self.folder / f"calls-{act}-{number}.jsonl" for number in range(len(self._clients))]
        each = self.extent.calls // len(self._clients)
        for helper, file in zip(self._clients, files, strict=True):
            file.touch()
            helper.tell({"act": act, "calls": each, "file": str(file)})
        marks = [(number + 0.7) / (len(events) + 1) for number in range(len(events))]
        made = _Counted(files)
        for mark, event in zip(marks, events, strict=True):
            wanted = int(mark * each * len(self._clients))
            self._wait(
                lambda wanted=wanted: made.lines() >= wanted or self._all_done(act),  # type: ignore[misc]
                f"{wanted} calls of act {act}, for {event} to happen; there are {made.lines()}",
            )
            progress(f"    {event} after {made.lines():,} calls of the act")
            self.outcome.events[event] = self.outcome.events.get(event, 0) + 1
            self._happen(event)
        self._wait(lambda: self._all_done(act), f"the clients are done with act {act}")
        rest = at_rest(self._sidecar, self._usual)
        calls = [Told.read(line) for file in files for line in file.read_text().splitlines()]
        evidence = self._evidence(calls, self._read_account())
        evidence.rests.append(rest)
        self._show(evidence)
        self._count(calls, evidence)
        looks = judge(evidence)
        for look in looks:
            for finding in look.findings[:_TOLD_AT_ONCE]:
                progress(f"    {finding.check}: {finding.call} {finding.words[:400]}")
        self.outcome.take(looks)
        self._sweep(files)

    def _all_done(self, act: int) -> bool:
        for helper in (self._upstream, *self._clients):
            if helper.failure is not None:
                raise Failed(f"a process of this trial {helper.failure}")
        return all(len(helper.words) >= act for helper in self._clients)

    def _happen(self, event: str) -> None:
        happen: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "reload": lambda: self._sidecar.reload(cap_factor=self._chance.choice((0.8, 0.9, 1.1))),
            "faulty": lambda: self._refused.append(self._sidecar.offer_faulty(self._chance.choice(FAULTY))),
            "full_refuse": lambda: self._fill("refuse", kill=False),
            "full_continue": lambda: self._fill("continue", kill=False),
            "full_kill": lambda: self._fill(self._chance.choice(("refuse", "continue")), kill=True),
        }
        happen[event]()

    def _kill(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Kill it, see what is left on its disk, and start it again. `meanwhile`: what is done while there is none."""
        killed = self._sidecar.incarnation
        self._wait_for_harm()
        self._sidecar.kill()
        if meanwhile is not None:
            meanwhile()
        found = self._recovered[killed.number] = {}
        left = self._sidecar.left_on_disk()
        for record in left:
            unit = record.target.rpartition("/")[2]
            if found.get(unit) not in UNSETTLED:
                found[unit] = record.state.value
        self._sidecar.start()
        for record in [each for each in left if each.state is WriteState.UNCERTAIN][-_ASKED_AGAIN:]:
            state = str(self._sidecar.uncertain(record.id).get("state", "unknown"))
            self._remembered.append(Unsettled(record.id, state))

    def _wait_for_harm(self) -> None:
        """Wait for a moment in which a kill does harm: some writes have just been done, and not answered.

        With every second that passes, one fewer will do.
        """
        began = time.monotonic()
        with (self.folder / "account.jsonl").open("rb") as file:
            while (enough := _HARM - int(time.monotonic() - began)) > 0:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                last = {seen.call: seen for seen in map(Seen.read, file.read().decode().splitlines()[1:-1])}
                young = time.monotonic_ns() - _YOUNG
                if sum(_unanswered(seen, young) for seen in last.values()) >= enough:
                    return
                time.sleep(_LOOK_SECONDS)

    def _stop(self) -> None:
        self._sidecar.stop()
        self._sidecar.start()

    def _fill(self, on_failure: str, *, kill: bool) -> None:
        """Let the disk be full for a while, and end that: by giving room back, or by a kill first."""
        self._sidecar.reload(on_failure=on_failure)
        since = time.monotonic_ns()
        self._disk.breaks(self._sidecar.pid)
        time.sleep(_BROKEN_SECONDS)
        pid = self._sidecar.pid
        if kill:
            self._kill(meanwhile=lambda: self._disk.mends(pid))
            self._troubles.append(Trouble(since, time.monotonic_ns(), on_failure))
            return
        self._disk.mends(pid)
        self._wait(lambda: self._healthy() or self._nobody_writes(), "the journal is written again")
        self._troubles.append(Trouble(since, time.monotonic_ns(), on_failure))

    def _healthy(self) -> bool:
        return self._sidecar.samples()["waterclock_journal_healthy"] == 1

    def _nobody_writes(self) -> bool:
        return all(helper.words[-1:] == ["done"] for helper in self._clients)

    # -- what is known of it ---------------------------------------------------------------------------------------

    def _read_account(self) -> Account:
        """Read what the upstream has added to its account. Nothing is under way any more, so its last line is whole."""
        with (self.folder / "account.jsonl").open() as file:
            file.seek(self._account_read)
            account = Account(Seen.read(line) for line in file)
            self._account_read = file.tell()
        return account

    def _evidence(self, calls: list[Told], account: Account) -> Evidence:
        sidecar, lives = self._sidecar, []
        for incarnation in sidecar.incarnations:
            over = bool(incarnation.ended_by)
            if over and incarnation.judged < 0:
                continue
            if not over:
                self._settle(incarnation)
            records = incarnation.records[max(0, incarnation.judged) :]
            lives.append(
                Life(
                    incarnation.number,
                    incarnation.started,
                    incarnation.ended_at,
                    incarnation.ended_by,
                    incarnation.status,
                    records,
                    incarnation.steps,
                    incarnation.total,
                    self._complaints(incarnation),
                )
            )
            incarnation.total = None
            incarnation.judged = -1 if over else len(incarnation.records)
        evidence = Evidence(calls, account, lives)
        evidence.troubles += self._troubles
        evidence.recovered, self._recovered = self._recovered, {}
        evidence.remembered, self._remembered = self._remembered, []
        evidence.refused_policies, self._refused = self._refused, []
        return evidence

    def _settle(self, incarnation: Incarnation) -> None:
        """Wait until the log is written, and note what the counters say."""
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            samples = self._sidecar.samples()
            counted = (value for name, value in samples.items() if name.startswith("waterclock_steps_total"))
            incarnation.total = sum(counted)
            if incarnation.total == incarnation.steps or time.monotonic() > end:
                return
            time.sleep(0.05)

    def _complaints(self, incarnation: Incarnation) -> list[str]:
        """Return what it said that it should not have; a journal that cannot be written is no fault of its own, once broken."""
        journal = str(self._disk.folder)
        logged = [event for event in incarnation.events if event["event"] == "log"]
        if self._troubles:
            logged = [event for event in logged if journal not in event["message"]]
        complaints = [str(event) for event in logged] + list(incarnation.noise)
        incarnation.events[:] = [event for event in incarnation.events if event["event"] != "log"]
        incarnation.noise.clear()
        return complaints

    def _show(self, evidence: Evidence) -> None:
        """Ask the control API about writes that were done and not answered."""
        found = [
            str(record["record"])
            for told in evidence.calls
            if told.ask.kind == "write" and evidence.account.first(told.ask.id, "committed")
            for record in evidence.records(told.ask.id)
            if record["outcome"] != "completed" and not evidence.unjournaled(told.heard.began)
        ]
        for id in self._chance.sample(found, min(SHOWN, len(found))):
            shown = self._sidecar.uncertain(id)
            evidence.shown.append(Unsettled(id, str(shown.get("state", "unknown"))))

    def _count(self, calls: Sequence[Told], evidence: Evidence) -> None:
        out = self.outcome
        out.calls += len(calls)
        out.verified += evidence.account.asked
        for told in calls:
            row = out.by_way.setdefault(told.ask.ways[0], {})
            record = evidence.record(told.ask.id)
            ended = str(record["outcome"]) if record is not None else told.heard.end
            row[ended] = row.get(ended, 0) + 1
            outcome = told.heard.outcome
            out.joined += outcome is not None and outcome.get("reason") == "joined"

    def _sweep(self, files: Sequence[Path]) -> None:
        """Keep what is known of acts in which something did not hold, and of nothing before them."""
        if self.outcome.violations:
            return
        for file in files:
            file.unlink()
        for incarnation in self.incarnations:
            incarnation.forget()

    def _wait(self, look: Callable[[], bool], what: str) -> None:
        while not look():
            if time.monotonic() > self._until:
                raise Hung(f"not within {self.extent.within:g} s in all: {what}")
            time.sleep(_LOOK_SECONDS)


def _unanswered(seen: Seen, since: int) -> bool:
    """Whether the last that was seen of a call is that a write was done, not long ago."""
    return seen.event == "committed" and seen.detail == "POST" and seen.at > since


class _Counted:
    """How many lines some files have by now."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = [file.open("rb") for file in files]
        self._lines = 0

    def lines(self) -> int:
        """Return it."""
        self._lines += sum(file.read().count(b"\n") for file in self._files)
        return self._lines
