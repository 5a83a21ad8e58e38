"""What goes wrong before a byte of a request is sent, and the one edge at which foreign exceptions become ours.

Everything that opens a connection raises `DialError` and nothing else: a reason of the wire contract, and a sentence
that says what happened where, and what to do about it.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from typing import Final

import aiodns
import aiodns.error as dns

from proxy.core.reasons import Reason


class DialError(Exception):
    """No connection could be opened. `detail` is whole sentences, fit for the caller; nothing was sent to the tool."""

    def __init__(self, reason: Reason, detail: str) -> None:
        """Keep the reason and the sentences. One that begins with its place (`the parent proxy …`) is capitalised."""
        if detail.startswith("the "):
            detail = "T" + detail[1:]
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


_UNROUTABLE: Final = (
    "There is no way to {place} from here ({words}); check the address, and the pod's network policy."
)
_OWN_LIMIT: Final = (
    "The sidecar is out of {words} and opens nothing to {place}; raise its limits or lower the load."
)

# The first row that fits one of the errors wins: of several addresses, the one that refused tells more than the one
# that had no route (a host without IPv6 fails that way each time).
_BY_ERRNO: Final[dict[int, tuple[Reason, str]]] = {
    errno.EMFILE: (Reason.BUSY, _OWN_LIMIT),
    errno.ENFILE: (Reason.BUSY, _OWN_LIMIT),
    errno.ENOBUFS: (Reason.BUSY, _OWN_LIMIT),
    errno.ENOMEM: (Reason.BUSY, _OWN_LIMIT),
    errno.ECONNREFUSED: (
        Reason.CONNECTION_REFUSED,
        "{place} refuses connections; check the port, and that the service behind it is ready.",
    ),
    errno.ECONNRESET: (
        Reason.CONNECTION_REFUSED,
        "{place} reset the connection while it was being opened; check that the service behind it is ready.",
    ),
    errno.EPIPE: (
        Reason.CONNECTION_REFUSED,
        "{place} closed the connection while it was being opened; check that the service behind it is ready.",
    ),
    errno.ECONNABORTED: (
        Reason.CONNECTION_REFUSED,
        "The connection to {place} was aborted while it was being opened; check that the service behind it is ready.",
    ),
    errno.ETIMEDOUT: (
        Reason.CONNECTION_TIMEOUT,
        "{place} does not answer; check the address, and that no firewall or network policy drops the packets.",
    ),
    errno.EACCES: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.EPERM: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.EHOSTUNREACH: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.EHOSTDOWN: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.ENETUNREACH: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.ENETDOWN: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.EADDRNOTAVAIL: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.EAFNOSUPPORT: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
    errno.EINVAL: (Reason.DESTINATION_UNROUTABLE, _UNROUTABLE),
}

_NO_ADDRESS: Final = (
    "No address is known for {place}; check the name, and that it is a name the pod's DNS resolves."
)
_DNS_FAILED: Final = (
    "The name server could not look {place} up ({words}); check the cluster's DNS and its upstreams."
)
_DNS_SILENT: Final = (
    "The name server does not answer for {place}; check the cluster's DNS and network policy (port 53)."
)
_DNS_CLOSED: Final = "The lookup of {place} was given up, since the sidecar is closing its resolver."
_NO_NAME: Final = "{place} is not a name that can be looked up; correct the host of the target."

_BY_ARES: Final[dict[int, str]] = {
    dns.ARES_ENODATA: _NO_ADDRESS,
    dns.ARES_ENOTFOUND: _NO_ADDRESS,
    dns.ARES_ETIMEOUT: _DNS_SILENT,
    dns.ARES_ECONNREFUSED: _DNS_SILENT,
    dns.ARES_EBADNAME: _NO_NAME,
    dns.ARES_EBADSTR: _NO_NAME,
    dns.ARES_ECANCELLED: _DNS_CLOSED,
    dns.ARES_EDESTRUCTION: _DNS_CLOSED,
}

_UNKNOWN_CA: Final = (
    "The certificate of {place} is signed by an authority that is not known here ({words}); "
    "set the route's `ca` to a PEM file that holds it."
)
_EXPIRED: Final = (
    "The certificate of {place} is outside its period of validity ({words}); renew it, and check the clocks."
)
_OTHER_NAME: Final = (
    "The certificate of {place} is for another name ({words}); name the tool by a host of its certificate."
)

# X509_V_ERR_*, the codes that OpenSSL gives (openssl/x509_vfy.h).
_BY_VERIFY_CODE: Final[dict[int, str]] = {
    2: _UNKNOWN_CA,
    18: _UNKNOWN_CA,
    19: _UNKNOWN_CA,
    20: _UNKNOWN_CA,
    21: _UNKNOWN_CA,
    9: _EXPIRED,
    10: _EXPIRED,
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}

_BY_SSL_REASON: Final[dict[str, str]] = {
    "WRONG_VERSION_NUMBER": "{place} does not speak TLS; use http:// or leave out `originateTLS`, or name its TLS port.",
    "UNSUPPORTED_PROTOCOL": "{place} offers nothing newer than TLS 1.1; it has to speak TLS 1.2 or 1.3.",
    "TLSV1_ALERT_PROTOCOL_VERSION": "{place} refuses TLS 1.2 and 1.3; it has to speak one of them.",
    "TLSV1_UNRECOGNIZED_NAME": "{place} has no certificate for that name; check the host, it is sent as the server name.",
    "NO_APPLICATION_PROTOCOL": "{place} does not speak HTTP/1.1, which is all that the sidecar offers (ALPN).",
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": "{place} does not speak HTTP/1.1, which is all that the sidecar offers (ALPN).",
}


def translated(exc: BaseException, place: str = "the upstream", *, tls: bool = False) -> DialError:
    """Return the DialError that says the same, about `place` (a host, an origin as a URL, or `the …`).

    `tls`: the TCP connection stood, and the TLS handshake was going on. A DialError is returned as it is.
    """
    if isinstance(exc, DialError):
        return exc
    if isinstance(exc, ssl.SSLCertVerificationError):
        return _certificate(exc, place)
    if isinstance(exc, ssl.SSLError):
        return _handshake(exc, place)
    if isinstance(exc, aiodns.error.DNSError):
        code, words = (*exc.args, "", "")[:2]
        return DialError(Reason.DNS_ERROR, _BY_ARES.get(code, _DNS_FAILED).format(place=place, words=words))
    if isinstance(exc, socket.gaierror):
        return DialError(Reason.DNS_ERROR, _NO_NAME.format(place=place))
    if tls and isinstance(exc, ConnectionError):
        return DialError(
            Reason.TLS_PROTOCOL_ERROR,
            f"{place} closed the connection during the TLS handshake; check that the port speaks TLS 1.2 or 1.3.",
        )
    if tls and isinstance(exc, ValueError):  # a host that cannot stand in a certificate, or as a server name
        return DialError(
            Reason.TLS_PROTOCOL_ERROR, f"{place} cannot be asked for by TLS ({exc}); correct the host."
        )
    if isinstance(exc, OSError):
        return _connect(exc, place)
    return DialError(
        Reason.CONNECTION_TERMINATED,
        f"The sidecar failed to open a connection to {place} ({type(exc).__name__}: {exc}); this is a fault of its own.",
    )


def _connect(exc: OSError, place: str) -> DialError:
    """Translate by errno. When several addresses failed differently, the numbers stand in the text only."""
    numbers = (
        [exc.errno] if exc.errno else [int(number) for number in re.findall(r"\[Errno (\d+)\]", str(exc))]
    )
    if not numbers and isinstance(exc, TimeoutError):
        numbers = [errno.ETIMEDOUT]
    for number, (reason, sentence) in _BY_ERRNO.items():
        if number in numbers:
            return DialError(reason, sentence.format(place=place, words=_words(number)))
    return DialError(
        Reason.DESTINATION_UNROUTABLE, _UNROUTABLE.format(place=place, words=exc.strerror or exc)
    )


def _words(number: int) -> str:
    """Return an errno in words, those of an own limit as the thing that ran out."""
    if number in (errno.EMFILE, errno.ENFILE):
        return "file descriptors"
    if number in (errno.ENOBUFS, errno.ENOMEM):
        return "memory"
    return errno.errorcode.get(number, str(number))


def _certificate(exc: ssl.SSLCertVerificationError, place: str) -> DialError:
    sentence = _BY_VERIFY_CODE.get(
        exc.verify_code,
        "The certificate of {place} is not accepted ({words}); correct it, or the route's `ca`.",
    )
    words = exc.verify_message.rstrip(".")
    return DialError(Reason.TLS_CERTIFICATE_ERROR, sentence.format(place=place, words=words))


def _handshake(exc: ssl.SSLError, place: str) -> DialError:
    name: str = getattr(exc, "reason", None) or str(exc)
    sentence = _BY_SSL_REASON.get(
        name, "The TLS handshake with {place} failed ({words}); check what it expects of a client."
    )
    return DialError(
        Reason.TLS_PROTOCOL_ERROR, sentence.format(place=place, words=name.replace("_", " ").lower())
    )
