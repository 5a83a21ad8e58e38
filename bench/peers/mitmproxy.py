"""mitmproxy, as a plain forward proxy: mitmdump, silent, one process of Python. For TLS it is told to call https instead."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.base import Site, apart
from bench.procs import HOST, Plan, free_port


@dataclass(frozen=True)
class Mitmproxy:
    name: str = "mitmproxy"

    def plan(self, site: Site) -> Plan:
        port = free_port()
        options = [
            f"confdir={site.room}",  # it makes an authority of its own there, which nothing here uses
            "flow_detail=0",
            "termlog_verbosity=error",
        ]
        if site.ca:
            options += [f"ssl_verify_upstream_trusted_ca={site.ca}", "map_remote=|^http:|https:"]
        return Plan(
            name=self.name,
            argv=(
                apart("mitmdump", "make bench installs it"),
                "--quiet",
                *("--listen-host", HOST, "--listen-port", str(port)),
                *(word for option in options for word in ("--set", option)),
            ),
            port=port,
            ready_port=port,
            ready_path="/",
            log=site.room / "output.log",
            room=site.room,
            ready_any=True,
        )
