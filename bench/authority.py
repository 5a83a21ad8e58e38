"""A certificate authority for one run, which nobody else trusts: what a proxy verifies its upstream with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.procs import HOST, Missing

NAME: Final = "localhost"  # for proxies that compare names only; the others compare the address


@dataclass(frozen=True)
class Certificate:
    """Three PEM files: the authority's own certificate, the server's with what leads to it, and the server's key."""

    ca: Path
    chain: Path
    key: Path


def issued(room: Path) -> Certificate:
    """A new authority, and a certificate of it for the loopback address and `localhost`. Raises Missing."""
    try:
        import trustme
    except ImportError:
        raise Missing(
            "trustme is not installed: pip install trustme (PyPI); without it nothing speaks TLS here"
        ) from None
    authority = trustme.CA()
    leaf = authority.issue_cert(NAME, HOST)
    found = Certificate(room / "ca.pem", room / "chain.pem", room / "key.pem")
    authority.cert_pem.write_to_path(str(found.ca))
    for number, part in enumerate(leaf.cert_chain_pems):
        part.write_to_path(str(found.chain), append=number > 0)
    leaf.private_key_pem.write_to_path(str(found.key))
    return found
