"""The servers behind the proxies: nginx, which answers at once, and one that never answers."""

from __future__ import annotations

import getpass
import os
import sys
from http.client import HTTPConnection
from pathlib import Path
from textwrap import dedent
from typing import Final

from bench.procs import HOST, Failed, Plan, find, free_port

SMALL: Final = "water " * 16 + "ends"
LARGE: Final = 64 * 1024


def nginx(room: Path) -> Plan:
    """nginx with one worker, connections kept for ever, answers from memory."""
    (room / "large").write_bytes(b"x" * LARGE)
    served = f"""
        location = /small {{ return 200 "{SMALL}"; }}
        location = /orders {{ return 200 "{SMALL}"; }}
        location = /large {{ open_file_cache max=10; }}
        location = /status {{ stub_status; }}"""
    return nginx_serving("nginx", room, served, "/status")


def nginx_serving(name: str, room: Path, served: str, ready_path: str) -> Plan:
    """nginx with one worker and connections kept for ever. `served`: its locations, as its configuration has them."""
    port = free_port()
    config = room / "nginx.conf"
    config.write_text(
        dedent(f"""\
        {user()}
        daemon off;
        worker_processes 1;
        pid {room}/nginx.pid;
        error_log stderr;
        events {{ worker_connections 1024; }}
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
                listen {HOST}:{port} backlog=1024;
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
    program = Path(__file__).with_name("silent.py")
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
