"""Certificates and keys as PEM texts (RFC 7468), read and judged."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from proxy.core.units import SECOND

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
TRUSTED: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"


class Unusable(Exception):
    """A certificate that cannot be served with, or trusted. The message says what is wrong, and what helps."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, with the chain above it where there is one, and its key: both PEM."""

    certificate: bytes
    key: bytes


def certificates(text: bytes, where: str) -> list[x509.Certificate]:
    """Return every certificate of a PEM text, in order. Raises Unusable when there is none, naming `where`."""
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise Unusable(f"{where} holds no certificate in PEM form: {error}") from None


def key(text: bytes, where: str) -> PrivateKeyTypes:
    """Return a private key. Raises Unusable, naming `where`."""
    try:
        return serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Unusable(f"{where} holds no private key without a password, in PEM form: {error}") from None


def text(found: Sequence[x509.Certificate]) -> bytes:
    """Return certificates as one PEM text."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in found)


def ends(certificate: x509.Certificate) -> int:
    """Return when a certificate ends, in Unix nanoseconds."""
    return int(certificate.not_valid_after_utc.timestamp()) * SECOND


def begins(certificate: x509.Certificate) -> int:
    """Return when a certificate begins to be valid, in Unix nanoseconds."""
    return int(certificate.not_valid_before_utc.timestamp()) * SECOND


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.DNSName)


def covers(certificate: x509.Certificate, name: str) -> bool:
    """Say whether a certificate is for a name; a wildcard stands for one label (RFC 6125 §6.4.3)."""
    wild = "*." + name.partition(".")[2]
    return any(each.lower() in (name, wild) for each in names_of(certificate))


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Say whether an authority has issued a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def trusted_by(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Say whether a certificate, the first of the chain, leads to one of the authorities, or is one itself."""
    reached = chain[0]
    for above in (*chain[1:], None):
        if reached in authorities or any(signed_by(reached, each) for each in authorities):
            return True
        if above is None or not signed_by(reached, above):
            return False
        reached = above
    return False


def of_secret(secret: Mapping[str, Any], name: str) -> bytes:
    """Return one value of a Secret. Raises Unusable when it is missing, empty or not Base64."""
    try:
        value = base64.b64decode((secret.get("data") or {}).get(name) or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Unusable(f"{name} is not Base64") from None
    if not value.strip():
        raise Unusable(f"{name} is missing")
    return value
