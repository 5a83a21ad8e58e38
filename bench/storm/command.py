"""What admission is for: many agents at once, a tool that is slow and cannot do more, and callers that try again.

`python -m bench storm`, or `make storm`. Every variant of a round has the same jobs to do, on a tool of its own, one
variant after the other. `tool` is the tool, `agents` the agents, each in its own process, and `figures` what
is made of their counts. README.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

from bench import part, report
from bench.machine import versions
from bench.peers.base import room_for
from bench.peers.waterclock import sidecar_plan
from bench.procs import HOST, Failed, Plan, Running, free_port, progress, running
from bench.settings import add_options, number, settings_of
from bench.storm.agents import Job, Orders
from bench.storm.figures import ADMISSION, BUDGET, HOLDS, NO_SIDECAR, RETRIES, Round, Row, floors, table
from bench.storm.tool import Counts

RESULTS: Final = report.RESULTS / "storm.json"
_HERE: Final = Path(__file__).parent
_LONGER: Final = 1_000


@dataclass(frozen=True)
class Setting:
    """Times are milliseconds, but for `seconds`."""

    agents: int = number(200, "agents that begin at once")
    arrivals: int = number(40, "agents a second that come after that")
    seconds: int = number(10, "for how long they come")
    calls: int = number(5, "calls of an agent, one after the other")
    deadline: int = number(3_000, "ms in which they are to be done: the budget")
    fast: int = number(20, "ms that the tool works on two calls in three")
    slow: int = number(400, "ms that it works on the third")
    workers: int = number(32, "calls that the tool works on at once")
    limit: int = number(1_000, "ms that a caller waits for one try")
    retries: int = number(3, "times that it tries a call again")
    concurrency: int = number(32, "admission: calls of the route in flight")
    queue: int = number(64, "admission: calls that may wait")
    min_start: int = number(400, "admission: ms without which no call is started")
    rounds: int = number(3, "rounds, each with other jobs")
    seed: int = number(1, "of the first round")

    @property
    def capacity(self) -> float:
        """Calls a second that the tool can do."""
        return self.workers * 1000 * 3 / (2 * self.fast + self.slow)


SHORT: Final = {
    "agents": 50,
    "arrivals": 10,
    "seconds": 2,
    "deadline": 2_000,
    "slow": 300,
    "workers": 8,
    "limit": 600,
    "concurrency": 8,
    "queue": 16,
    "min_start": 300,
    "rounds": 1,
}
SHORT_ROWS: Final = (NO_SIDECAR, BUDGET, ADMISSION)


@dataclass(frozen=True)
class Variant:
    """`keys`: what the policy says of the route, None without a sidecar. `holds`: agents stop at their deadline by
    themselves. `leaves`: the callers leave it to the sidecar to try again and to end what takes too long.
    """

    name: str
    keys: str | None = None
    holds: bool = False
    leaves: bool = False


def variants(setting: Setting) -> list[Variant]:
    admission = (
        f"concurrency: {setting.concurrency}, queue: {{size: {setting.queue}}}, "
        f"min_start: {setting.min_start}ms"
    )
    retries = f"cap: {setting.limit}ms, retries: {{on: [connect_failed, deadline_exceeded]}}"
    return [
        Variant(NO_SIDECAR),
        Variant(HOLDS, holds=True),
        Variant(BUDGET, "effect: read"),
        Variant(ADMISSION, admission),
        Variant(RETRIES, f"{admission}, {retries}", leaves=True),
    ]


# -- one round of one variant --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """What the storm falls on, and how its callers are."""

    workers: int
    notices: bool
    tells: bool


def play(variant: Variant, setting: Setting, seed: int, tool: Tool, parent: Path) -> Round:
    with running(_tool(tool, parent), None) as server, _sidecar(variant, parent) as sidecar:
        entrance = sidecar or server
        orders = Orders(
            port=entrance.plan.port,
            tool=server.plan.port,
            budgets=sidecar is not None,
            holds=variant.holds,
            tells=tool.tells,
            seed=seed,
            agents=setting.agents,
            arrivals=setting.arrivals,
            seconds=setting.seconds,
            calls=setting.calls,
            deadline=setting.deadline,
            limit=setting.deadline + _LONGER if variant.leaves else setting.limit,
            retries=0 if variant.leaves else setting.retries,
            fast=setting.fast,
            slow=setting.slow,
            burst=200,
        )
        began = time.monotonic()
        told = _agents(orders, room_for(parent, "agents") / "jobs.json")
        took = time.monotonic() - began
        counts = Counts(**json.loads(_get(server.plan.port, "/counts")))
        attempts = _attempts(sidecar.plan.ready_port) if sidecar else None
        busy = {"the agents": told["cpu_seconds"] / took, "the tool": server.cpu_seconds() / took}
        if sidecar is not None:
            sidecar.must_run()
            busy["the sidecar"] = sidecar.cpu_seconds() / took
    return Round(orders, [_job(job) for job in told["jobs"]], counts, attempts, busy)


def _tool(tool: Tool, parent: Path) -> Plan:
    port, room = free_port(), room_for(parent, "tool")
    program = (sys.executable, "-P", str(_HERE / "tool.py"), str(port), str(tool.workers))
    argv = (*program, "notices") if tool.notices else program
    return Plan("tool", argv, port, port, "/readyz", room / "tool.log", room)


@contextmanager
def _sidecar(variant: Variant, parent: Path) -> Iterator[Running | None]:
    if variant.keys is None:
        yield None
        return
    policy = f"routes:\n  - {{name: tool, match: {{host: {HOST}}}, {variant.keys}}}\n"
    with running(sidecar_plan(room_for(parent, "sidecar"), policy), None) as it:
        yield it


def _agents(orders: Orders, file: Path) -> dict[str, Any]:
    program = (sys.executable, "-P", str(_HERE / "agents.py"), str(file))
    allowed = orders.seconds + orders.deadline / 1000 + 30
    done = subprocess.run(
        program,
        input=json.dumps(asdict(orders)),
        capture_output=True,
        text=True,
        timeout=allowed,
        check=False,
    )
    if done.returncode:
        raise Failed(f"the agents ended with {done.returncode}\n{done.stderr[-1500:]}")
    told: dict[str, Any] = json.loads(file.read_text())
    return told


def _job(told: dict[str, Any]) -> Job:
    return Job(**{**told, "ends": Counter(told["ends"])})


def _get(port: int, path: str) -> str:
    link = HTTPConnection(HOST, port, timeout=10)
    link.request("GET", path)
    text = link.getresponse().read().decode()
    link.close()
    return text


def _attempts(port: int) -> int:
    """How many attempts the sidecar counts at the tool."""
    for line in _get(port, "/metrics").splitlines():
        if line.startswith("waterclock_attempts_total{") and 'route="tool"' in line:
            return int(float(line.split()[-1]))
    raise Failed("the metrics of the sidecar have no waterclock_attempts_total of the route")


# -- all rounds of all variants ------------------------------------------------------------------------------------


def storm(setting: Setting, names: Sequence[str], tool: Tool) -> list[Row]:
    chosen = [variant for variant in variants(setting) if variant.name in names]
    rows = [Row(variant.name) for variant in chosen]
    with tempfile.TemporaryDirectory(prefix="waterclock-storm-") as folder:
        for number in range(setting.rounds):
            for variant, row in zip(chosen, rows, strict=True):
                progress(f"  round {number + 1} of {setting.rounds}: {variant.name}")
                row.rounds.append(play(variant, setting, setting.seed + number, tool, Path(folder)))
    return rows


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench storm", description="Many agents, a slow tool, with and without admission."
    )
    parser.add_argument("--short", action="store_true", help="a small storm, three variants, one round")
    add_options(parser, Setting, SHORT)
    parser.add_argument("--rows", metavar="NAMES", help="only these, separated by semicolons")
    parser.add_argument("--notices", action="store_true", help="the tool passes over callers that have left")
    parser.add_argument("--silent", action="store_true", help="callers do not say how long they wait")
    part.add_output(parser, RESULTS)
    return parser.parse_args(argv)


def _chosen(names: str | None, setting: Setting, *, short: bool) -> list[str]:
    known = [variant.name for variant in variants(setting)]
    wanted = [name.strip() for name in names.split(";")] if names else list(SHORT_ROWS) if short else known
    unknown = set(wanted) - set(known)
    if unknown:
        raise Failed(f"no such row: {'; '.join(sorted(unknown))}. There are: {'; '.join(known)}")
    return wanted


def _said(setting: Setting) -> str:
    load = setting.arrivals * setting.calls
    return (
        f"{setting.workers} workers can do {setting.capacity:.0f} such calls a second. The agents that keep coming ask for "
        f"{load} ({load / setting.capacity:.0%}), those at the beginning for {setting.agents * setting.calls:,} more."
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    setting = settings_of(arguments, Setting, SHORT)
    _, about = part.surroundings()
    progress(_said(setting))
    with part.measuring():
        names = _chosen(arguments.rows, setting, short=arguments.short)
        tool = Tool(setting.workers, notices=arguments.notices, tells=not arguments.silent)
        rows = storm(setting, names, tool)
    found = floors(rows)
    promised = [report.promises("What is promised of admission", found)] if found else []
    whole = {
        "machine": about,
        "versions": versions(),
        "setting": asdict(setting),
        "tool": asdict(tool),
        "rows": {row.name: [each.summary() for each in row.rounds] for row in rows},
    }
    return part.concluded(
        arguments, [table(rows), *promised], whole, "every round", kept=all(each.met for each in found)
    )
