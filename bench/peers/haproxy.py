"""HAProxy: one thread, connections to the server kept and shared, a JSON log line for each request to a file."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from bench.authority import NAME
from bench.peers.base import Site
from bench.procs import HOST, Plan, find, free_port

_LINE = (
    '{"time":"%trl","method":"%HM","target":"%HU","status":%ST,"received":%U,"sent":%B,'
    '"elapsed_ms":%Ta,"ended":"%ts","server":"%s"}'
)


def _tls(site: Site) -> str:
    """It compares names only, no addresses."""
    return f" ssl verify required ca-file {site.ca} sni str({NAME}) verifyhost {NAME}" if site.ca else ""


@dataclass(frozen=True)
class HAProxy:
    name: str = "haproxy"
    most: int = 1024
    streams: bool = False

    def plan(self, site: Site) -> Plan:
        port, health = free_port(), free_port()
        config = site.room / "haproxy.cfg"
        config.write_text(
            dedent(f"""\
            global
                nbthread 1
                maxconn {self.most}
                log stdout len 4096 format raw local0 info
            defaults
                mode http
                {"option http-no-delay" if self.streams else ""}
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
                server one {HOST}:{site.upstream}{_tls(site)}
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
