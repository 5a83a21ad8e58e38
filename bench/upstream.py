"""The servers behind the proxies: nginx, which answers at once, and one that never answers."""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from textwrap import dedent
from typing import Final

from bench.authority import Certificate
from bench.procs import HOST, Failed, Plan, file_limit, find, free_port

SMALL: Final = "water " * 16 + "ends"
LARGE: Final = 64 * 1024
_CONNECTIONS: Final = 16_384  # 1,000 from each proxy, which all keep theirs


@dataclass(frozen=True)
class Secured:
    """Where nginx speaks TLS besides, and with which certificate."""

    port: int
    certificate: Certificate


def nginx(room: Path, secured: Secured | None = None) -> Plan:
    """nginx with one worker, connections kept for ever, answers from memory.

    `/orders` answers when it has read the whole body, as a server does that wants it. A bare `return` would answer before
    that, upon which some proxies must close; so the body is read to be mirrored to nowhere, and the 405 of a location
    that takes no POST is turned into the answer. `/kept` answers like `/small`, and leaves the body that it was sent in a file: see `bodies_kept`.
    """
    (room / "large").write_bytes(b"x" * LARGE)
    port = free_port()
    served = f"""
        location = /small {{ return 200 "{SMALL}"; }}
        location = /orders {{ mirror /read; empty_gif; error_page 405 =200 /small; }}
        location = /read {{ internal; return 204; }}
        location = /large {{ open_file_cache max=10; }}
        location = /kept {{ client_body_in_file_only on; proxy_pass http://{HOST}:{port}/small; }}
        location = /status {{ stub_status; }}"""
    if secured:
        served += f"""
        listen {HOST}:{secured.port} ssl backlog=4096;
        ssl_certificate {secured.certificate.chain};
        ssl_certificate_key {secured.certificate.key};"""
    return nginx_serving("nginx", room, served, "/status", port)


def bodies_kept(room: Path) -> list[bytes]:
    """The bodies of all requests for `/kept`, in the order in which nginx read them."""
    return [file.read_bytes() for file in sorted((room / "body").iterdir()) if file.is_file()]


def nginx_serving(name: str, room: Path, served: str, ready_path: str, port: int | None = None) -> Plan:
    """nginx with one worker and connections kept for ever. `served`: its locations, as its configuration has them."""
    port = port or free_port()
    config = room / "nginx.conf"
    config.write_text(
        dedent(f"""\
        {user()}
        daemon off;
        worker_processes 1;
        pid {room}/nginx.pid;
        error_log stderr;
        worker_rlimit_nofile {file_limit()};
        events {{ worker_connections {min(_CONNECTIONS, file_limit() - 64)}; }}
        http {{
            access_log off;
            keepalive_requests 1000000000;
            keepalive_timeout 1h;
            client_body_temp_path {room}/body;
            proxy_temp_path {room}/proxy;
            fastcgi_temp_path {room}/fastcgi;
            uwsgi_temp_path {room}/uwsgi;
            scgi_temp_path {room}/scgi;
            sendfile on;
            server {{
                listen {HOST}:{port} backlog=4096;
                root {room};
        """)
        + served
        + "\n    }\n}\n"
    )
    return Plan(
        name=name,
        argv=(
            find("nginx", "apt install nginx (Debian)"),
            "-p",
            str(room),
            "-e",
            "stderr",
            "-c",
            str(config),
        ),
        port=port,
        ready_port=port,
        ready_path=ready_path,
        log=room / "nginx.log",
        room=room,
    )


def silent(room: Path) -> Plan:
    port = free_port()
    program = Path(__file__).parent / "cuts" / "silent.py"
    return Plan(
        name="silent",
        argv=(sys.executable, "-P", str(program), str(port)),
        port=port,
        ready_port=port,
        ready_path="/readyz",
        log=room / "silent.log",
        room=room,
    )


def user() -> str:
    """Started as root, nginx would give its worker to a user who cannot read the temporary folder."""
    return f"user {getpass.getuser()};" if os.geteuid() == 0 else ""


def requests_seen(port: int) -> int:
    """How many requests nginx has answered, so that what a proxy claims can be checked on the far side."""
    link = HTTPConnection(HOST, port, timeout=5)
    link.request("GET", "/status")
    lines = link.getresponse().read().decode().splitlines()
    link.close()
    try:
        return int(lines[2].split()[2])
    except (IndexError, ValueError):
        raise Failed(f"nginx has an unexpected status page: {lines!r}") from None
