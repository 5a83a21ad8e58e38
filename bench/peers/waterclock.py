"""Waterclock with everything on: budgets, step log to a file, journal on disk, metrics. Either build of it.

`most`: how many connections to the upstream it may hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.builds import PURE, program
from bench.peers.base import Site
from bench.procs import HOST, Plan, free_ports

_ROUTES: Final = """\
routes:
  - {{name: upstream, match: {{host: "{host}"}}, tls: originate, ca: {ca}}}
"""


def sidecar_plan(room: Path, policy: str, build: str = PURE) -> Plan:
    """A sidecar with ports of its own, and its journal in its room. `policy`: what else its file says. Raises Missing."""
    command = program(build)
    outbound, control, metrics = free_ports(3)
    config = room / "waterclock.yaml"
    config.write_text(
        f"listen: {{outbound: {HOST}:{outbound}, control: {HOST}:{control}, metrics: {HOST}:{metrics}}}\n"
        f"journal: {{path: {room / 'journal.db'}}}\n"
        f"{policy}"
    )
    argv = (str(command), "run", "-c", str(config))
    return Plan(build, argv, outbound, metrics, "/readyz", room / "steps.log", room)


@dataclass(frozen=True)
class Waterclock:
    name: str = PURE
    most: int = 1024

    def plan(self, site: Site) -> Plan:
        routes = _ROUTES.format(host=HOST, ca=site.ca) if site.ca else ""
        return sidecar_plan(site.room, f"connections: {{max: {self.most}}}\n{routes}", self.name)


def lateness_ms(record: dict[str, Any]) -> float | None:
    """How late a cut was by the sidecar's own clock, out of one step record."""
    if record.get("outcome") != "deadline_exceeded":
        return None
    return float(record["elapsed_ms"]) - float(record["allowed_ms"])
