"""proxy.py, as a plain forward proxy: one acceptor that does all the work itself, no log of requests."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.base import Site, Unable, apart
from bench.procs import HOST, Plan, free_port


@dataclass(frozen=True)
class ProxyPy:
    name: str = "proxy.py"

    def plan(self, site: Site) -> Plan:
        if site.ca:
            raise Unable("as a forward proxy it speaks TLS to nobody that was asked for by http")
        port = free_port()
        return Plan(
            name=self.name,
            argv=(
                apart("proxy", "make bench installs it"),
                *("--hostname", HOST, "--port", str(port), "--data-dir", str(site.room)),
                *("--num-acceptors", "1", "--num-workers", "1", "--log-level", "warning"),
                # As much as the others have: its own are 100, 1,024 and 10 s.
                *("--backlog", "4096", "--open-file-limit", "8192", "--timeout", "3600"),
            ),
            port=port,
            ready_port=port,
            ready_path="/",
            log=site.room / "output.log",
            room=site.room,
            ready_any=True,
        )
