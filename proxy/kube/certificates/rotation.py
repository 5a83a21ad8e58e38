"""What becomes of the certificate that the injector makes itself, as a pure function of what is there and the time.

A certificate is renewed when two thirds of its life are over. Its authority is, too, and then in steps, so that at
every moment what a replica serves with is trusted by the API server:

1. the new authority joins the old one among the trusted; nothing is signed by it yet;
2. once it is in the webhook's `caBundle`, and has been for a while (the overlap), it signs a new certificate;
3. once every replica has had time to load that one, the old authority is dropped.

Each step can be told from the Secret, so whoever leads next goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from proxy.core.units import HOUR, MINUTE, SECOND
from proxy.kube.certificates import pem
from proxy.kube.certificates.authority import EARLY, make_authority, make_leaf, new_key
from proxy.kube.certificates.pem import Unusable
from proxy.kube.settings import Certificates

_KEPT: Final = (
    2  # older authorities among the trusted: more come together only when Secrets are deleted again and again
)


@dataclass(frozen=True, slots=True)
class Plan:
    """`data`: what the Secret shall hold, None when it is well as it is. `again`: when to look next, Unix nanoseconds."""

    data: Mapping[str, bytes] | None
    again: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    key_text: bytes


def overlap(terms: Certificates) -> int:
    """Return how long old and new stand side by side, in nanoseconds."""
    return min(5 * MINUTE, _lifetime(terms) // 6)


def plan(
    data: Mapping[str, bytes],
    bundle: Sequence[x509.Certificate],
    names: Sequence[str],
    terms: Certificates,
    now: int,
) -> Plan:
    """Say what to do. `data`: what the Secret holds; `bundle`: whom the API server trusts at present."""
    authority, trusted = _authority(data, bundle, now)
    why = ""
    if authority is None or _due(authority.certificate, terms.authority_lifetime, now):
        authority = _fresh(now, terms.authority_lifetime)
        trusted = [authority.certificate, *trusted[:_KEPT]]
        why = "a new authority"
    leaf = _leaf(data, names, now)
    renewal = leaf is None or _due(leaf, _lifetime(terms), now) or not _signed(leaf, authority)
    settled = _made(authority.certificate) + overlap(terms)
    certificate, key = data.get(pem.CERTIFICATE, b""), data.get(pem.KEY, b"")
    if leaf is None or (renewal and authority.certificate in bundle and settled <= now):
        made = make_leaf(authority.certificate, authority.key, new_key(), names, now, _lifetime(terms))
        certificate, key = made.certificate, made.key
        why = " and ".join(filter(None, (why, "a new certificate")))
    elif len(trusted) > 1 and not renewal and _made(leaf) + overlap(terms) <= now:
        trusted = [authority.certificate]
    wanted = {
        pem.CERTIFICATE: certificate,
        pem.KEY: key,
        pem.TRUSTED: pem.text(trusted),
        pem.AUTHORITY_KEY: authority.key_text,
    }
    if any(data.get(name) != value for name, value in wanted.items()):
        return Plan(wanted, now + SECOND, why or "the old authority is no longer needed")
    assert leaf is not None
    return Plan(None, _again(authority.certificate, leaf, trusted, renewal, terms, now))


def _again(
    authority: x509.Certificate,
    leaf: x509.Certificate,
    trusted: Sequence[x509.Certificate],
    renewal: bool,
    terms: Certificates,
    now: int,
) -> int:
    """Return when there will be something to do; a clock that jumps is noticed within the hour."""
    moments = [pem.ends(authority) - terms.authority_lifetime // 3, now + HOUR]
    moments.append(
        _made(authority) + overlap(terms) if renewal else pem.ends(leaf) - _lifetime(terms) // 3,
    )
    if len(trusted) > 1:
        moments.append(_made(leaf) + overlap(terms))
    return max(min(moments), now + SECOND)


def _authority(
    data: Mapping[str, bytes], bundle: Sequence[x509.Certificate], now: int
) -> tuple[_Authority | None, list[x509.Certificate]]:
    """Return the authority that signs, if there is one, and all that are trusted, that one first."""
    try:
        trusted = pem.certificates(data.get(pem.TRUSTED, b""), pem.TRUSTED)
        key = pem.key(data.get(pem.AUTHORITY_KEY, b""), pem.AUTHORITY_KEY)
    except Unusable:
        # The Secret is new, or was deleted: what replicas still serve with stays trusted for the overlap.
        return None, _valid(bundle, now)
    trusted = _valid(trusted, now)
    signs = [each for each in trusted if each.public_key() == key.public_key()]
    if not signs or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None, trusted
    others = [each for each in trusted if each != signs[0]]
    return _Authority(signs[0], key, data[pem.AUTHORITY_KEY]), [signs[0], *others]


def _leaf(data: Mapping[str, bytes], names: Sequence[str], now: int) -> x509.Certificate | None:
    """Return the certificate, None unless it can be served with now."""
    try:
        leaf = pem.certificates(data.get(pem.CERTIFICATE, b""), pem.CERTIFICATE)[0]
        key = pem.key(data.get(pem.KEY, b""), pem.KEY)
    except Unusable:
        return None
    fits = key.public_key() == leaf.public_key() and all(pem.covers(leaf, name) for name in names)
    return leaf if fits and pem.ends(leaf) > now else None


def _fresh(now: int, lifetime: int) -> _Authority:
    key = new_key()
    made = make_authority(key, now, lifetime)
    return _Authority(x509.load_pem_x509_certificate(made.certificate), key, made.key)


def _lifetime(terms: Certificates) -> int:
    """Return how long a certificate lives: no longer than who signs it."""
    return min(terms.lifetime, terms.authority_lifetime)


def _due(certificate: x509.Certificate, lifetime: int, now: int) -> bool:
    """Say whether to renew: two thirds are over, or it lives longer than the terms (now) allow."""
    left = pem.ends(certificate) - now
    return left <= lifetime // 3 or left > lifetime + MINUTE


def _made(certificate: x509.Certificate) -> int:
    return pem.begins(certificate) + EARLY


def _signed(leaf: x509.Certificate, authority: _Authority) -> bool:
    return pem.signed_by(leaf, authority.certificate)


def _valid(certificates: Sequence[x509.Certificate], now: int) -> list[x509.Certificate]:
    return [each for each in certificates if pem.ends(each) > now]
