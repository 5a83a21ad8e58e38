"""The control API is for the pod alone: it cannot be put elsewhere, and a web page in the pod gets nothing out of it."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from proxy.config import parse
from tests.config.said import faults
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.sidecar import PROGRAM
from tests.support.upstream import Upstream
from tests.ways.apart import within
from tests.ways.podnet import POD, WORLD, pod_network


@pytest.mark.parametrize("address", ["0.0.0.0:10802", "[::]:10802", "10.1.2.3:10802", "[fd00::1]:10802", "[::ffff:127.0.0.1]:10802"])  # fmt: skip
def test_it_cannot_be_opened_to_others(address: str) -> None:
    """An error with its line, and with how it is reached from elsewhere."""
    [fault] = faults(f"mode: enforce\nlisten:\n  control: '{address}'")
    assert (fault.line, fault.key) == (3, "listen.control")
    assert "reached from outside the pod" in fault.problem
    assert fault.remedy == "write 127.0.0.1:10802; from elsewhere it is reached with kubectl port-forward"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:2", "127.8.9.10:3"])
def test_any_address_of_the_loopback_will_do(address: str) -> None:
    assert str(parse(f"listen: {{control: '{address}'}}").listen.control) == address


def test_a_sidecar_does_not_start_with_it_open(tmp_path: Path) -> None:
    """It ends with the fault, and has listened nowhere."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text("listen: {control: 0.0.0.0:10802}\n")
    run = subprocess.run(
        [PROGRAM, "run", "-c", policy], capture_output=True, text=True, check=False, timeout=30
    )
    assert run.returncode == 2
    assert "listen.control" in run.stderr


def test_in_a_pod_others_reach_neither_it_nor_the_outbound_port() -> None:
    """As the injector sets it up: only what a scrape and a probe ask for is open to the world."""
    with (
        pod_network() as pod,
        pod.in_the_world(Upstream(answer(), host=WORLD[4])) as tool,
        pod.sidecar() as sidecar,
    ):
        assert call(sidecar, "GET", tool.url()).status == 200
        with within(pod.world):
            for address in POD.values():
                for port in (sidecar.outbound, sidecar.control):
                    with pytest.raises(ConnectionRefusedError):
                        socket.create_connection((address, port), 5)
                socket.create_connection((address, sidecar.metrics), 5).close()
        sidecar.stop()
