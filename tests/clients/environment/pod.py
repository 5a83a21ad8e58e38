"""A pod for clients: network and names of its own, a sidecar on its standard ports, and the variables of the injector.

Everything has an address that is not the loopback's, since many clients never ask a proxy for that. Some of the places are
named in NO_PROXY, each in another of the ways in which people write it there.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from proxy.kube.injection.environment import merge, no_proxy_of
from proxy.kube.injection.wishes import Wishes
from proxy.kube.settings import Settings
from tests.clients.environment.programs import Program, built
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.ways.apart import apart, run

PORT, SAFE_PORT = free_port(), free_port()
PATIENCE_SECONDS: Final = 30.0
NAMED: Final = {
    "tool.example": "10.77.0.2",
    "named.example": "10.77.0.3",
    "below.named.example": "10.77.0.3",
    "dotted.example": "10.77.0.3",
    "below.dotted.example": "10.77.0.3",
    "below.starred.example": "10.77.0.3",
    "ported.example": "10.77.0.3",
    "ranged.example": "10.88.0.3",
    "kubernetes.default.svc": "10.77.0.3",
}
"""What /etc/hosts says in the pod, besides localhost."""
ADDRESSES: Final = ("10.77.0.2", "10.77.0.3", "10.77.0.4", "10.88.0.2", "10.88.0.3", "fd77::2", "fd77::3")
SETTINGS: Final = Settings(
    no_proxy=(
        "named.example",
        ".dotted.example",
        "*.starred.example",
        f"ported.example:{PORT}",
        "10.77.0.4",
        "fd77::3",
    ),
    cluster_ranges=("10.88.0.0/16", "fd88::/64"),
)
THROUGH: Final = {
    "a tool": "tool.example",
    "its address": "10.77.0.2",
    "a name in a network": "ranged.example",
}
"""Places that are called through the sidecar, whatever a client understands of NO_PROXY."""
PAST: Final = {
    "the API server": "kubernetes.default.svc",
    "localhost": "localhost",
    "127.0.0.1": "127.0.0.1",
}
"""Places that are called past it by every client that reads NO_PROXY."""
WRITTEN: Final = {
    "`name`": "named.example",
    "below `name`": "below.named.example",
    "below `.suffix`": "below.dotted.example",
    "`.suffix` itself": "dotted.example",
    "below `*.suffix`": "below.starred.example",
    "`name:port`": "ported.example",
    "IPv4 address": "10.77.0.4",
    "IPv4 network": "10.88.0.2",
    "IPv6 address": "[fd77::3]",
}
"""Places of which it depends on the client, by how they are written in NO_PROXY (docs/clients.md)."""
LAST: Final = f"http://127.0.0.1:{PORT}/last"
"""What is called when a client is done: with its record, all earlier ones have been written."""
JSON: Final = b'{"object": "list", "data": [], "has_more": false}'


class Seen(NamedTuple):
    """Which way a client's calls went, by place: `through`, `through, unseen`, `past`, or `nowhere`.

    `said`: what the client printed.
    """

    http: dict[str, str]
    https: dict[str, str]
    said: str


class StandardSidecar(Sidecar):
    """A sidecar on the ports that it has in every pod."""

    def __init__(self, entered: Sequence[str]) -> None:
        super().__init__()
        self._entered = entered
        self.outbound, self.control, self.metrics = 10800, 10802, 10803
        self.write_policy("")

    def _program(self) -> list[str | Path]:
        return [*self._entered, *super()._program()]


class Pod:
    """The pod, and who is called from it."""

    def __init__(
        self, folder: Path, ca: trustme.CA, sidecar: Sidecar, plain: Upstream, safe: Upstream
    ) -> None:
        self.folder = folder
        self.sidecar = sidecar
        self.plain, self.safe = plain, safe
        self._entered = entered(folder)
        self._trust = _trust(folder, ca)

    def environment(self) -> dict[str, str]:
        """The variables of a container that the injector has been at, and an authority to trust."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "NODE_PATH") if name in os.environ}
        return kept | merge((), no_proxy_of(SETTINGS, Wishes())).added | self._trust

    def run(self, program: Program, urls: Sequence[str], **more: str) -> str:
        """Let a client call URLs, one after the other; returns what it prints."""
        command = [str(built(self.folder)), *program.command] if program.go else [*map(str, program.command)]
        said = ""
        for some in [[url] for url in urls] if program.of_one else [urls]:
            try:
                ended = subprocess.run(
                    [*self._entered, *command, *some],
                    env=self.environment() | more,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=PATIENCE_SECONDS,
                )
            except subprocess.TimeoutExpired:  # which way it called is to be seen all the same
                said += f"{some}: {program.name} hangs\n"
            else:
                said += ended.stdout + ended.stderr
        return said

    def watch(self, program: Program) -> Seen:
        """Let a client call every place, and see which way each call takes."""
        places = THROUGH | PAST | WRITTEN
        urls = [f"http://{host}:{PORT}/x" for host in places.values()]
        urls += [f"https://{host}:{SAFE_PORT}/x" for host in (THROUGH["a tool"], WRITTEN["`name`"])]
        self.plain.requests.clear()
        self.safe.requests.clear()
        before = len(self.sidecar.records)
        said = self.run(program, urls)
        self._written()
        targets = [record["target"] for record in self.sidecar.records[before:]]
        targets.remove(LAST)
        http = {place: _way("http", f"{host}:{PORT}", targets, self.plain) for place, host in places.items()}
        https = {
            place: _way("tcp", f"{places[place]}:{SAFE_PORT}", targets, self.safe)
            for place in ("a tool", "`name`")
        }
        return Seen(http, https, said)

    def _written(self) -> None:
        """Wait until the sidecar has written all records of what was called before."""
        self.sidecar.at_rest()
        last = call(self.sidecar, "GET", LAST)
        self.sidecar.record(last.record)


def _way(scheme: str, authority: str, targets: Sequence[str], upstream: Upstream) -> str:
    """Say how a place was called. `scheme`: as what the sidecar sees a call to it, `tcp` where TLS hides it."""
    schemes = {
        known
        for known, _, rest in (target.partition("://") for target in targets)
        if rest.partition("/")[0] == authority
    }
    if schemes:
        return "through" if schemes == {scheme} else "through, unseen"
    arrived = any(
        request.get("host") == authority and request.target != "/last" for request in upstream.requests
    )
    return "past" if arrived else "nowhere"


@contextlib.contextmanager
def pod(folder: Path, ca: trustme.CA) -> Iterator[Pod]:
    """Be in a pod for a while. Skips, with the reason, where the machine does not allow it."""
    with apart():
        words = entered(folder)
        tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            pytest.skip(f"this machine allows no mounts of one's own: {tried.stderr.strip()}")
        for address in ADDRESSES:
            only = ("-6", f"{address}/128", "nodad") if ":" in address else ("-4", f"{address}/32")
            run("ip", only[0], "address", "add", only[1], "dev", "lo", *only[2:])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(*NAMED, *ADDRESSES).configure_cert(context)
        tool = answer(JSON, headers=[("Content-Type", "application/json")])
        with (
            Upstream(tool, host="", port=PORT) as plain,
            Upstream(tool, host="", port=SAFE_PORT, tls=context) as safe,
            StandardSidecar(words) as sidecar,
        ):
            yield Pod(folder, ca, sidecar, plain, safe)


def entered(folder: Path) -> list[str]:
    """Return the words before a command that run it with the pod's /etc/hosts."""
    hosts = folder / "hosts"
    lines = [
        "127.0.0.1 localhost",
        "::1 localhost",
        *(f"{address} {name}" for name, address in NAMED.items()),
    ]
    hosts.write_text("\n".join(lines) + "\n")
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(hosts)]


def _trust(folder: Path, ca: trustme.CA) -> dict[str, str]:
    """Return the variables that have each client trust an authority."""
    file, store = folder / "ca.pem", folder / "ca.p12"
    ca.cert_pem.write_to_path(str(file))
    certificate = pkcs12.PKCS12Certificate(load_pem_x509_certificate(file.read_bytes()), b"test")
    store.write_bytes(pkcs12.serialize_java_truststore([certificate], NoEncryption()))
    names = (
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "AWS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "GIT_SSL_CAINFO",
    )
    wget = folder / "wgetrc"
    wget.write_text(f"ca_certificate = {file}\n")
    java = f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStoreType=PKCS12"
    return dict.fromkeys(names, str(file)) | {"WGETRC": str(wget), "JDK_JAVA_OPTIONS": java}
