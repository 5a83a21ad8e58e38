"""HAProxy: one thread, connections to the server kept and shared, a JSON log line for each request to a file."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from bench.peers.base import Site
from bench.procs import HOST, Plan, find, free_port

_LINE = (
    '{"time":"%trl","method":"%HM","target":"%HU","status":%ST,"received":%U,"sent":%B,'
    '"elapsed_ms":%Ta,"ended":"%ts","server":"%s"}'
)


@dataclass(frozen=True)
class HAProxy:
    name: str = "haproxy"

    def plan(self, site: Site) -> Plan:
        port, health = free_port(), free_port()
        config = site.room / "haproxy.cfg"
        config.write_text(
            dedent(f"""\
            global
                nbthread 1
                maxconn 1024
                log stdout len 4096 format raw local0 info
            defaults
                mode http
                timeout connect 5s
                timeout client 60s
                timeout server 30s
            frontend outbound
                bind {HOST}:{port}
                log global
                log-format '{_LINE}'
                default_backend upstream
            frontend health
                bind {HOST}:{health}
                monitor-uri /readyz
            backend upstream
                http-reuse always
                server one {HOST}:{site.upstream}
            """)
        )
        return Plan(
            name=self.name,
            argv=(find("haproxy", "apt install haproxy (Debian)"), "-db", "-f", str(config)),
            port=port,
            ready_port=health,
            ready_path="/readyz",
            log=site.room / "requests.log",
            room=site.room,
        )
