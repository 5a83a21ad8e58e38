"""Whatever goes wrong on the way to a connection comes out as one type, with a place and a remedy."""

from __future__ import annotations

import errno
import socket
import ssl

import aiodns
import pytest

from proxy.core.reasons import Reason
from proxy.net.errors import DialError, translated

MIXED = OSError("Multiple exceptions: [Errno 101] Network is unreachable, [Errno 111] Connect call failed")


def unverified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    error.verify_message = message
    return error


@pytest.mark.parametrize(
    ("exc", "reason", "says"),
    [
        (OSError(errno.ECONNREFUSED, "x"), Reason.CONNECTION_REFUSED, "refuses connections"),
        (OSError(errno.ECONNRESET, "x"), Reason.CONNECTION_REFUSED, "reset"),
        (OSError(errno.ETIMEDOUT, "x"), Reason.CONNECTION_TIMEOUT, "does not answer"),
        (TimeoutError(), Reason.CONNECTION_TIMEOUT, "does not answer"),
        (OSError(errno.ENETUNREACH, "x"), Reason.DESTINATION_UNROUTABLE, "ENETUNREACH"),
        (OSError(errno.EPERM, "x"), Reason.DESTINATION_UNROUTABLE, "network policy"),
        (OSError("who knows"), Reason.DESTINATION_UNROUTABLE, "who knows"),
        (OSError(errno.EMFILE, "x"), Reason.BUSY, "file descriptors"),
        (MIXED, Reason.CONNECTION_REFUSED, "refuses connections"),
        (aiodns.error.DNSError(aiodns.error.ARES_ENOTFOUND, "x"), Reason.DNS_ERROR, "No address is known"),
        (aiodns.error.DNSError(aiodns.error.ARES_ETIMEOUT, "x"), Reason.DNS_ERROR, "does not answer"),
        (aiodns.error.DNSError(aiodns.error.ARES_ESERVFAIL, "failure"), Reason.DNS_ERROR, "(failure)"),
        (aiodns.error.DNSError(), Reason.DNS_ERROR, "could not look"),
        (socket.gaierror(-2, "x"), Reason.DNS_ERROR, "not a name"),
        (unverified(18, "self-signed certificate"), Reason.TLS_CERTIFICATE_ERROR, "the route's `ca`"),
        (unverified(20, "unable to get local issuer certificate"), Reason.TLS_CERTIFICATE_ERROR, "`ca`"),
        (unverified(10, "certificate has expired"), Reason.TLS_CERTIFICATE_ERROR, "renew it"),
        (unverified(62, "Hostname mismatch."), Reason.TLS_CERTIFICATE_ERROR, "another name"),
        (unverified(23, "certificate revoked"), Reason.TLS_CERTIFICATE_ERROR, "certificate revoked"),
        (ssl.SSLError(1, "handshake failure"), Reason.TLS_PROTOCOL_ERROR, "handshake failure"),
        (RuntimeError("a bug"), Reason.CONNECTION_TERMINATED, "a fault of its own"),
    ],
)
def test_each_failure_has_a_reason_the_place_and_a_remedy(exc: Exception, reason: Reason, says: str) -> None:
    error = translated(exc, "https://tool.example:443")
    assert error.reason is reason
    assert says in error.detail
    assert "https://tool.example:443" in error.detail
    assert error.detail.endswith(".")


def test_what_is_translated_stays_as_it_is() -> None:
    error = DialError(Reason.LOOP, "It leads back.")
    assert translated(error, "elsewhere") is error


@pytest.mark.parametrize("exc", [ConnectionResetError(), OSError(errno.EPIPE, "x")])
def test_a_connection_that_breaks_in_the_handshake_is_a_fault_of_tls(exc: Exception) -> None:
    assert translated(exc, "https://tool.example:443", tls=True).reason is Reason.TLS_PROTOCOL_ERROR
