"""Making certificates: an authority of our own, and what it signs for the webhook.

Elliptic curve keys (P-256, SHA-256), which every API server knows and which cost a handshake the least. Certificates
begin five minutes before they are made, for clocks that are behind.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from proxy.core.units import MINUTE, SECOND
from proxy.kube.certificates.pem import Pair

EARLY: Final = 5 * MINUTE


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh key."""
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(key: ec.EllipticCurvePrivateKey, now: int, lifetime: int) -> Pair:
    """Return an authority that signs itself, and may sign webhooks' certificates only. Times in Unix nanoseconds."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Waterclock"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"waterclock-injector {_fingerprint(key)[:8].hex()}"),
        ]
    )
    builder = (
        _begun(key, name, now, now + lifetime)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_leaf(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: int,
    lifetime: int,
) -> Pair:
    """Return a server's certificate for DNS names. It ends with its authority at the latest. Times in Unix nanoseconds."""
    until = min(now + lifetime, int(authority.not_valid_after_utc.timestamp()) * SECOND)
    # A common name has at most 64 characters (RFC 5280, Appendix A); the names that count are the alternative ones.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = (
        _begun(key, subject, now, until)
        .issuer_name(authority.subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
    )
    return _pair(builder.sign(authority_key, hashes.SHA256()), key)


def _begun(
    key: ec.EllipticCurvePrivateKey, subject: x509.Name, now: int, until: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        # Unique as the key is (RFC 5280 §4.1.2.2: positive, 20 octets at most).
        .serial_number(int.from_bytes(b"\x01" + _fingerprint(key)[:18]))
        .not_valid_before(_date(now - EARLY))
        .not_valid_after(_date(until))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _fingerprint(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_key().public_bytes(*form)).digest()


def _date(ns: int) -> datetime.datetime:
    """Return Unix nanoseconds as a certificate has them, in whole seconds."""
    return datetime.datetime.fromtimestamp(ns // SECOND, datetime.UTC)
