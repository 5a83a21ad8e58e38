"""The plan of certificates: at every moment what is served is trusted, however short they live."""

from __future__ import annotations

import ssl
from itertools import product

import pytest
from cryptography import x509

from proxy.core.units import HOUR, MINUTE, SECOND
from proxy.kube.certificates import pem
from proxy.kube.certificates.authority import make_authority, make_leaf, new_key
from proxy.kube.certificates.rotation import overlap, plan
from proxy.kube.settings import Certificates

NAMES = (
    "waterclock-injector.waterclock-system.svc",
    "waterclock-injector.waterclock-system.svc.cluster.local",
)
START = 1_900_000_000 * SECOND
MINUTE_LONG = Certificates(lifetime=60 * SECOND, authority_lifetime=60 * SECOND)
LEAF_ONLY = Certificates(lifetime=60 * SECOND, authority_lifetime=3650 * 24 * HOUR)
STANDARD = Certificates()


class Story:
    """A Secret and a `caBundle`, as a leader keeps them that looks when it said it would."""

    def __init__(self, terms: Certificates, now: int = START) -> None:
        self.terms = terms
        self.now = now
        self.data: dict[str, bytes] = {}
        self.bundle: list[x509.Certificate] = []
        self.again = now
        self.made: list[tuple[int, str]] = []

    def tick(self) -> None:
        """Look, if it is time."""
        if self.now < self.again:
            return
        planned = plan(self.data, self.bundle, NAMES, self.terms, self.now)
        self.again = planned.again
        assert self.again > self.now
        if planned.data is not None:
            self.data = dict(planned.data)
            self.made.append(((self.now - START) // SECOND, planned.why))
        self.bundle = pem.certificates(self.data[pem.TRUSTED], "here")

    @property
    def chain(self) -> list[x509.Certificate]:
        return pem.certificates(self.data[pem.CERTIFICATE], "here")

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.tick()
            self.now += SECOND


def test_first_plan_makes_all_of_it() -> None:
    story = Story(STANDARD)
    story.tick()
    assert story.made == [(0, "a new authority and a new certificate")]
    leaf = story.chain[0]
    assert pem.names_of(leaf) == list(NAMES)
    assert pem.ends(leaf) == START + STANDARD.lifetime
    assert pem.begins(leaf) == START - 5 * MINUTE
    assert pem.trusted_by(story.chain, story.bundle)
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [each.dotted_string for each in usage] == ["1.3.6.1.5.5.7.3.1"]
    authority = story.bundle[0]
    assert pem.ends(authority) == START + STANDARD.authority_lifetime
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_nothing_is_done_before_it_is_due() -> None:
    story = Story(STANDARD)
    story.tick()
    data = story.data
    for now in (START + SECOND, START + HOUR, START + STANDARD.lifetime * 2 // 3 - SECOND):
        planned = plan(data, story.bundle, NAMES, STANDARD, now)
        assert planned.data is None
        assert now < planned.again <= now + HOUR


def test_renewed_after_two_thirds_under_the_same_authority() -> None:
    story = Story(LEAF_ONLY)
    story.run(130)
    assert story.made == [(0, "a new authority and a new certificate"), (40, "a new certificate"), (80, "a new certificate"), (120, "a new certificate")]  # fmt: skip
    assert len(story.bundle) == 1


def test_authority_is_renewed_in_steps() -> None:
    story = Story(MINUTE_LONG)
    story.run(81)
    assert story.made == [
        (0, "a new authority and a new certificate"),
        (40, "a new authority"),
        (50, "a new certificate"),
        (60, "the old authority is no longer needed"),
        (80, "a new authority"),
    ]


@pytest.mark.parametrize("terms", [MINUTE_LONG, LEAF_ONLY, Certificates(lifetime=90 * SECOND, authority_lifetime=200 * SECOND)])  # fmt: skip
def test_what_is_served_is_always_trusted(terms: Certificates) -> None:
    """Even by an API server that learns of the `caBundle`, and by replicas that learn of the Secret, seconds later."""
    story = Story(terms)
    late = overlap(terms) // SECOND // 2
    served, trusted = [], []
    known: set[tuple[bytes, bytes]] = set()
    for _ in range(600):
        story.tick()
        served.append(story.data[pem.CERTIFICATE])
        trusted.append(pem.text(story.bundle))
        now = story.now
        for chain, bundle in set(product(served[-late:], trusted[-late:])) - known:
            at = f"at {(now - START) / SECOND:g} s"
            assert pem.trusted_by(pem.certificates(chain, "here"), pem.certificates(bundle, "here")), at
            known.add((chain, bundle))
        for chain in set(served[-late:]):
            leaf = x509.load_pem_x509_certificate(chain)
            assert pem.begins(leaf) < now < pem.ends(leaf)
        story.now += SECOND
    assert len(story.made) > 10


def test_no_new_certificate_until_its_authority_is_trusted() -> None:
    """While the `caBundle` cannot be written, the old certificate stays, to its end."""
    story = Story(MINUTE_LONG)
    story.run(40)
    old = story.bundle
    for _ in range(19):
        story.bundle = old
        planned = plan(story.data, old, NAMES, MINUTE_LONG, story.now)
        if planned.data is not None:
            assert planned.data[pem.CERTIFICATE] == story.data[pem.CERTIFICATE]
            story.data = dict(planned.data)
        story.now += SECOND
    planned = plan(story.data, old, NAMES, MINUTE_LONG, story.now + 2 * SECOND)
    assert planned.data is not None
    assert planned.data[pem.CERTIFICATE] != story.data[pem.CERTIFICATE]


def test_a_deleted_secret_leaves_what_is_served_trusted() -> None:
    story = Story(STANDARD)
    story.tick()
    old, old_bundle = story.chain, story.bundle
    story.data = {}
    story.now += HOUR
    story.again = story.now
    story.tick()
    assert pem.trusted_by(old, story.bundle)
    assert pem.trusted_by(story.chain, story.bundle)
    assert not pem.trusted_by(story.chain, old_bundle)
    story.now += 5 * MINUTE
    story.again = story.now
    story.tick()
    assert not pem.trusted_by(old, story.bundle)
    assert story.made[-1][1] == "the old authority is no longer needed"


@pytest.mark.parametrize("name", [pem.CERTIFICATE, pem.KEY, pem.TRUSTED, pem.AUTHORITY_KEY])
@pytest.mark.parametrize("value", [None, b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])  # fmt: skip
def test_what_is_missing_or_broken_is_made_again(name: str, value: bytes | None) -> None:
    story = Story(STANDARD)
    story.tick()
    broken = {key: text for key, text in story.data.items() if key != name or value is not None}
    if value is not None:
        broken[name] = value
    planned = plan(broken, story.bundle, NAMES, STANDARD, START + MINUTE)
    assert planned.data is not None
    leaf = pem.certificates(planned.data[pem.CERTIFICATE], "here")
    trusted = pem.certificates(planned.data[pem.TRUSTED], "here")
    assert pem.trusted_by(leaf, trusted)
    again = plan(planned.data, trusted, NAMES, STANDARD, START + 2 * MINUTE)
    assert again.data is None or again.why == "a new certificate"


def test_other_names_get_another_certificate_at_once() -> None:
    story = Story(STANDARD)
    story.tick()
    names = ("injector.elsewhere.svc", "injector.elsewhere.svc.cluster.local")
    planned = plan(story.data, story.bundle, names, STANDARD, START + MINUTE)
    assert planned.why == "a new certificate"
    assert planned.data is not None
    assert planned.data[pem.TRUSTED] == story.data[pem.TRUSTED]


def test_shorter_terms_take_hold_at_once() -> None:
    """Who sets a lifetime of 60 s does not want to wait for the end of one of 90 days."""
    story = Story(STANDARD)
    story.tick()
    story.now += HOUR
    planned = plan(story.data, story.bundle, NAMES, LEAF_ONLY, story.now)
    assert planned.why == "a new certificate"


def test_a_key_of_another_kind_is_no_authority_of_ours() -> None:
    story = Story(STANDARD)
    story.tick()
    other = make_authority(new_key(), START, HOUR)
    planned = plan(story.data | {pem.AUTHORITY_KEY: other.key}, story.bundle, NAMES, STANDARD, START)
    assert planned.why == "a new authority"


def test_certificate_ends_with_its_authority() -> None:
    key = new_key()
    authority = make_authority(key, START, MINUTE)
    certificate = x509.load_pem_x509_certificate(authority.certificate)
    made = make_leaf(certificate, key, new_key(), NAMES, START + 30 * SECOND, HOUR)
    assert pem.ends(x509.load_pem_x509_certificate(made.certificate)) == pem.ends(certificate)


def test_openssl_takes_them() -> None:
    """By its strict rules too, which Python 3.13 has on by default."""
    import time

    now = time.time_ns()
    key = new_key()
    authority = make_authority(key, now, HOUR)
    leaf = make_leaf(x509.load_pem_x509_certificate(authority.certificate), key, new_key(), NAMES, now, HOUR)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    from proxy.kube.certificates.loading import _load

    _load(server, leaf)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    talker = client.wrap_bio(theirs, ours, server_hostname=NAMES[0])
    listener = server.wrap_bio(ours, theirs, server_side=True)
    for _ in range(4):
        for side in (talker, listener):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert talker.version() == "TLSv1.3"
