"""Waterclock with everything on: budgets, step log to a file, journal on disk, metrics. Either build of it.

`most`: how many connections to the upstream it may hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Final

from bench.builds import PURE, interpreter
from bench.peers.base import Site
from bench.procs import HOST, Missing, Plan, free_port

_ROUTES: Final = """\
routes:
  - {{name: upstream, match: {{host: "{host}"}}, tls: originate, ca: {ca}}}
"""


@dataclass(frozen=True)
class Waterclock:
    name: str = PURE
    most: int = 1024

    def plan(self, site: Site) -> Plan:
        program = interpreter(self.name).with_name("waterclock")
        if not program.is_file():
            raise Missing("waterclock is not installed: pip install -e . in this checkout")
        outbound, control, metrics = free_port(), free_port(), free_port()
        config = site.room / "waterclock.yaml"
        config.write_text(
            dedent(f"""\
            listen:
              outbound: {HOST}:{outbound}
              control: {HOST}:{control}
              metrics: {HOST}:{metrics}
            journal: {{path: {site.room / "journal.db"}}}
            connections: {{max: {self.most}}}
            """)
            + (_ROUTES.format(host=HOST, ca=site.ca) if site.ca else "")
        )
        return Plan(
            name=self.name,
            argv=(str(program), "run", "-c", str(config)),
            port=outbound,
            ready_port=metrics,
            ready_path="/readyz",
            log=site.room / "steps.log",
            room=site.room,
        )


def lateness_ms(record: dict[str, Any]) -> float | None:
    """How late a cut was by the sidecar's own clock, out of one step record."""
    if record.get("outcome") != "deadline_exceeded":
        return None
    return float(record["elapsed_ms"]) - float(record["allowed_ms"])
