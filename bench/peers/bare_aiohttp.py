"""The bare aiohttp proxy of `aiohttp_proxy.py`, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.builds import best_interpreter
from bench.peers.base import Site
from bench.procs import Missing, Plan, free_port


@dataclass(frozen=True)
class BareAiohttp:
    name: str = "aiohttp"

    def plan(self, site: Site) -> Plan:
        if find_spec("aiohttp") is None:
            raise Missing("aiohttp is not installed: pip install aiohttp (PyPI)")
        port = free_port()
        program = Path(__file__).with_name("aiohttp_proxy.py")
        # -P keeps this folder off the import path, where envoy.py would stand for the package of that name.
        return Plan(
            name=self.name,
            argv=(
                str(best_interpreter()),
                "-P",
                str(program),
                str(port),
                *([str(site.ca)] if site.ca else []),
            ),
            port=port,
            ready_port=port,
            ready_path="/readyz",
            log=site.room / "output.log",
            room=site.room,
        )
