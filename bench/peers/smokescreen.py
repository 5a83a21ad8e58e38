"""Smokescreen: an egress proxy in Go that looks each address up and decides on it, with a JSON log line for each request.

It has no list of who may call whom here. It refuses loopback addresses unless they are named, so one is.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.base import Site, Unable, apart
from bench.procs import HOST, Plan, free_port


@dataclass(frozen=True)
class Smokescreen:
    name: str = "smokescreen"

    def plan(self, site: Site) -> Plan:
        if site.ca:
            raise Unable("it speaks no TLS to the other side; clients bring theirs through CONNECT")
        port = free_port()
        log = site.room / f"{self.name}.err"  # it logs to standard error
        return Plan(
            name=self.name,
            argv=(
                apart("smokescreen", "install Go, then make bench installs it"),
                *("--listen-ip", HOST, "--listen-port", str(port), "--allow-address", HOST),
            ),
            port=port,
            ready_port=port,
            ready_path="/",
            log=log,
            room=site.room,
            ready_any=True,
        )
