"""TLS to tools: 1.2 at least, verified always, by name always. Where it fails, nothing of a write has been sent."""

from __future__ import annotations

import datetime
import re
import ssl
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from proxy.net.tls import client_context
from tests.config.keys import ROWS
from tests.config.said import faults
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

Made = Callable[[trustme.CA], ssl.SSLContext]

_YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


def with_certificate(cert: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    return context


def expired(ca: trustme.CA) -> ssl.SSLContext:
    return with_certificate(ca.issue_cert("127.0.0.1", not_after=_YESTERDAY))


def not_yet_valid(ca: trustme.CA) -> ssl.SSLContext:
    tomorrow = _YESTERDAY + datetime.timedelta(days=2)
    return with_certificate(
        ca.issue_cert("127.0.0.1", not_before=tomorrow, not_after=tomorrow.replace(year=tomorrow.year + 1))
    )


def of_another_host(ca: trustme.CA) -> ssl.SSLContext:
    return with_certificate(ca.issue_cert("tool.example", "*.example"))


def with_no_name_but_a_common_one(ca: trustme.CA) -> ssl.SSLContext:
    return with_certificate(ca.issue_cert("x@example.com", common_name="127.0.0.1"))


def of_an_unknown_authority(_: trustme.CA) -> ssl.SSLContext:
    return with_certificate(trustme.CA().issue_cert("127.0.0.1"))


def self_signed(_: trustme.CA) -> ssl.SSLContext:
    """An authority's own certificate, which nobody here trusts."""
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with ca.private_key_pem.tempfile() as key, ca.cert_pem.tempfile() as cert:
        context.load_cert_chain(cert, key)
    return context


def of_tls_1_1(ca: trustme.CA) -> ssl.SSLContext:
    context = with_certificate(ca.issue_cert("127.0.0.1"))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return context


def without_that_name(ca: trustme.CA) -> ssl.SSLContext:
    """It hangs up on a server name that it does not know."""
    context = with_certificate(ca.issue_cert("localhost"))
    context.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    return context


CASES: dict[str, tuple[Made, str, str]] = {
    "expired": (expired, "tls_certificate_error", "outside its period of validity"),
    "not yet valid": (not_yet_valid, "tls_certificate_error", "outside its period of validity"),
    "of another host": (of_another_host, "tls_certificate_error", "for another name"),
    "a common name is no name": (with_no_name_but_a_common_one, "tls_certificate_error", "for another name"),
    "of an unknown authority": (of_an_unknown_authority, "tls_certificate_error", "not known here"),
    "self-signed": (self_signed, "tls_certificate_error", "not known here"),
    "of TLS 1.1": (of_tls_1_1, "tls_protocol_error", "TLS 1.2"),
    "without that name": (without_that_name, "tls_protocol_error", "TLS handshake"),
}


@pytest.fixture(scope="module")
def trusting(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar that speaks TLS for every caller, and trusts one authority besides the system's."""
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    policy = {"routes": [{"name": "tls", "match": {"host": "*"}, "tls": "originate", "ca": str(file)}]}
    with Sidecar(policy) as sidecar:
        yield sidecar


@pytest.mark.parametrize("case", CASES)
def test_a_server_that_is_not_who_it_says_gets_nothing(trusting: Sidecar, ca: trustme.CA, case: str) -> None:
    """The reason is in the answer and in the record; the write did not happen, and may be sent again."""
    made, reason, words = CASES[case]
    host = "localhost" if case == "without that name" else "127.0.0.1"
    with Upstream(answer(), tls=made(ca)) as upstream:
        told = call(trusting, "POST", f"http://{host}:{upstream.port}/orders", body=b'{"secret": 1}')
        assert (told.status, told.outcome.reason, told.outcome.effect) == (502, reason, "none")
        assert words in told.problem["detail"]
        record = trusting.record(told.record)
        assert (record["reason"], record["effect"], record["phase"]) == (reason, "none", "not_sent")
        assert (upstream.requests, upstream.bytes) == ([], 0)
        assert trusting.uncertain()["writes"] == []


def test_a_server_that_speaks_no_tls_gets_no_request(trusting: Sidecar) -> None:
    """It sees a handshake, and nothing of the call."""
    with Upstream(answer()) as upstream:
        told = call(trusting, "POST", upstream.url("/orders"), body=b'{"secret": 1}')
        assert (told.status, told.outcome.reason) == (502, "tls_protocol_error")
        assert not any(b"secret" in connection.received for connection in upstream.connections)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_good_server_is_spoken_to(trusting: Sidecar, ca: trustme.CA, version: ssl.TLSVersion) -> None:
    """So that the refusals above are for what they say."""
    context = with_certificate(ca.issue_cert("127.0.0.1"))
    context.minimum_version = context.maximum_version = version
    with Upstream(answer(), tls=context) as upstream:
        assert call(trusting, "POST", f"http://127.0.0.1:{upstream.port}/", body=b"{}").status == 200
        assert len(upstream.whole) == 1


def test_no_context_is_without_verification() -> None:
    """There is one way to make one, and it checks all there is to check."""
    context = client_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_no_key_of_a_policy_switches_it_off() -> None:
    """A route may trust one more authority, and that is all that can be said of TLS."""
    about = re.compile(r"(?:\A|[._])(tls|ca|certs?|certificates?|insecure|hostname|sni)(?:[._]|\Z)")
    found = {key.removeprefix("fallback.").removeprefix("routes[].") for key in ROWS if about.search(key)}
    assert found == {"ca", "tls"}
    assert faults("routes: [{name: a, tls: off}]")


def test_an_authority_that_is_gone_is_no_reason_to_trust_all(ca: trustme.CA, tmp_path: Path) -> None:
    """A CA file that cannot be read any more is a failed call."""
    file = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    policy = {
        "fallback": {"cap": "5s"},
        "routes": [{"name": "tls", "match": {"host": "*"}, "tls": "originate", "ca": str(file)}],
    }
    context = with_certificate(ca.issue_cert("127.0.0.1"))
    with Sidecar(policy) as sidecar, Upstream(answer(keep=False), tls=context) as upstream:
        file.write_text("nothing")
        told = call(sidecar, "GET", f"http://127.0.0.1:{upstream.port}/")
        assert (told.status, told.outcome.reason) == (502, "tls_certificate_error")
        assert upstream.requests == []
