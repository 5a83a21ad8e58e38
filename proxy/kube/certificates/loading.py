"""Serving with the Secret's certificate, from the moment it is there, without a restart.

New connections are greeted with what was loaded last; those that are open go on. A Secret that cannot be served with
changes nothing: the certificate in use stays, and the log says what to do.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from proxy.core.units import SECOND
from proxy.kube.certificates import pem
from proxy.kube.certificates.keeper import served_names
from proxy.kube.certificates.pem import Pair, Unusable
from proxy.kube.cluster import Object
from proxy.kube.log import Log
from proxy.kube.settings import CertificateMode, Settings
from proxy.observe.walltime import unix_ns


class ServedCertificate:
    """The certificate in use, and the TLS context that servers are given. `expires`: Unix nanoseconds, 0 without one.

    `chain` is the certificate and what stands above it in the Secret; `problem` is why none is loaded yet.
    """

    def __init__(
        self,
        settings: Settings,
        log: Log,
        *,
        on_load: Callable[[int], None] | None = None,
        clock: Callable[[], int] = unix_ns,
    ) -> None:
        """`on_load` is told when each certificate that is loaded expires. `clock`: Unix nanoseconds."""
        self.context = _context()
        self.chain: list[x509.Certificate] = []
        self.expires = 0
        self._settings = settings
        self._log = log
        self._on_load = on_load
        self._clock = clock
        self._loaded: Pair | None = None
        self.problem = f"The Secret {self._place} is not there yet; {_REMEDIES[settings.certificates.mode]}."

    def take(self, type: str, secret: Object) -> None:
        """Take a Secret as a mirror shows it. Never raises."""
        if type == "DELETED":
            self._log.event(
                "certificate_deleted", secret=self._place, consequence="the one in use stays until it expires"
            )
            return
        try:
            pair = Pair(pem.of_secret(secret, pem.CERTIFICATE), pem.of_secret(secret, pem.KEY))
            if pair == self._loaded:
                return
            chain = self._checked(pair)
            _load(_context(), pair)  # what fails here has not touched the living one
            _load(self.context, pair)
        except (Unusable, ssl.SSLError, OSError) as error:
            self._refuse(str(error))
            return
        self._loaded, self.chain, self.problem = pair, chain, ""
        self.expires = pem.ends(chain[0])
        if self._on_load is not None:
            self._on_load(self.expires)
        self._log.event("certificate_loaded", secret=self._place, expires=_shown(self.expires))

    def _checked(self, pair: Pair) -> list[x509.Certificate]:
        """Return the chain of a certificate that can be served with. Raises Unusable."""
        chain = pem.certificates(pair.certificate, pem.CERTIFICATE)
        leaf = chain[0]
        if pem.key(pair.key, pem.KEY).public_key() != leaf.public_key():
            raise Unusable(
                f"{pem.KEY} is the key of another certificate than the first one in {pem.CERTIFICATE}"
            )
        if pem.ends(leaf) <= self._clock():
            raise Unusable(f"the certificate expired on {_shown(pem.ends(leaf))}")
        name = served_names(self._settings)[0]
        if not pem.covers(leaf, name):
            found = ", ".join(pem.names_of(leaf)) or "no name"
            raise Unusable(f"the certificate is for {found}, and the API server asks for {name}")
        return chain

    def _refuse(self, problem: str) -> None:
        remedy = _REMEDIES[self._settings.certificates.mode]
        if self._loaded is None:
            self.problem = f"The Secret {self._place} cannot be served with: {problem}; {remedy}."
        self._log.event(
            "certificate_refused",
            secret=self._place,
            problem=problem,
            remedy=remedy,
            in_use_until=_shown(self.expires) if self.expires else None,
        )

    @property
    def _place(self) -> str:
        return f"{self._settings.namespace}/{self._settings.certificates.secret_name}"


_REMEDIES: Final = {
    CertificateMode.SELF: "the leader makes one; if it does not, its log says why",
    CertificateMode.SECRET: "put tls.crt, tls.key and ca.crt there, or set certificates.mode to self",
    CertificateMode.CERT_MANAGER: "look at the cert-manager Certificate that writes it (kubectl describe certificate)",
}


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    with _as_file(pair.key + b"\n" + pair.certificate) as path:
        context.load_cert_chain(path)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path that reads as `content`: `ssl` loads from files only, and a key has no business on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "certificate.pem")
        path.touch(0o600)
        path.write_bytes(content)
        yield str(path)


def _shown(ns: int) -> str:
    return datetime.fromtimestamp(ns // SECOND, UTC).isoformat().replace("+00:00", "Z")
