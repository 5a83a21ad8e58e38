"""What the tests of redirected connections share: two sidecars that are led to, and what is known of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from tests.support.callers import Caller
from tests.support.upstream import Upstream, Wire
from tests.support.waiting import eventually
from tests.ways.apart import Redirected, Space, apart

CAP: Final = 300
QUIET: Final = 50
IDLE: Final = 800
FIRST: Final = 100
"""How long a client may be silent before its server is given the chance to speak first (ms)."""

CLIENT_HELLO = b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03" + bytes(range(200))


@pytest.fixture(scope="module")
def space() -> Iterator[Space]:
    """A network namespace for the tests of one file."""
    with apart() as space:
        yield space


@pytest.fixture(scope="module")
def running_led(space: Space, ca: trustme.CA) -> Iterator[Redirected]:
    with tempfile.TemporaryDirectory() as folder:
        ca_file = Path(folder, "ca.pem")
        ca.cert_pem.write_to_path(str(ca_file))
        Path(folder).chmod(0o755)  # the sidecar is another user
        ca_file.chmod(0o644)
        with space.sidecar(the_policy(ca_file)) as sidecar:
            yield sidecar


def the_policy(ca_file: Path) -> dict[str, Any]:
    """Some routes; and rules that are for CONNECT alone, since what is redirected was never asked for by name."""
    return {
        "routes": [
            {"name": "originated", "match": {"host": "*.internal"}, "tls": "originate", "ca": str(ca_file)},
            {"name": "named", "match": {"host": "named.example"}, "cap": "5s"},
        ],
        "tunnel": {"deny": ["*"], "ports": []},
    }


@pytest.fixture
def led(running_led: Redirected) -> Iterator[Redirected]:
    """A sidecar with time for everything. What it has to say of itself fails a test, and so does what is left."""
    before = len(running_led.faults)
    yield running_led
    running_led.at_rest()
    assert not running_led.faults[before:]


@pytest.fixture(scope="module")
def led_hastily(space: Space) -> Iterator[Redirected]:
    """A sidecar with little time: each burst has its cap, and patience with silence is short."""
    tunnel = {"quiet": f"{QUIET}ms", "idle": f"{IDLE}ms"}
    with space.sidecar({"fallback": {"cap": f"{CAP}ms"}, "tunnel": tunnel}) as sidecar:
        yield sidecar
        sidecar.at_rest()


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def inside(request: pytest.FixtureRequest, running_led: Redirected) -> str:
    """An address whose connections are led to the first of them."""
    return running_led.inside if request.param == 4 else running_led.inside6


def to(upstream: Upstream) -> Caller:
    """A connection to a server, as far as the client knows."""
    return Caller((upstream.host, upstream.port))


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def opaque_ones(sidecar: Redirected, host: str, port: int, count: int = 1) -> list[dict[str, Any]]:
    """The records of connections to a place that were not HTTP, once there are so many. Nobody is told their ids."""

    def found() -> list[dict[str, Any]]:
        records = [
            record for record in list(sidecar.records) if record["target"] == f"tcp://{shown(host, port)}"
        ]
        return records if len(records) >= count else []

    records = eventually(found, what=f"{count} records of {shown(host, port)}")
    assert len(records) == count
    return records


async def smtp(wire: Wire) -> None:
    """A server that speaks first, and answers each line."""
    await wire.send(b"220 mail.example ready\r\n")
    while line := await wire.receive():
        await wire.send(b"250 " + line)
