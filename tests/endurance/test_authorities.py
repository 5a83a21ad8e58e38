"""A route's authorities that change, or go, under a running sidecar."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

from tests.support.behaviours import answer
from tests.support.callers import Answer, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream


def test_file_that_comes_and_goes(tmp_path: Path) -> None:
    """Calls that need it are refused with its path and what to do, and nothing else is; mended, it is read again."""
    right, wrong = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    right.issue_cert("127.0.0.1").configure_cert(context)
    ca = tmp_path / "ca.pem"
    right.cert_pem.write_to_path(str(ca))
    routes = [{"name": "ledger", "match": {"path": "/ledger"}, "tls": "originate", "ca": str(ca)}]
    policy = {"routes": routes, "connections": {"idle": "1ms"}}
    with (
        Sidecar(policy) as sidecar,
        Upstream(answer(keep=False), tls=context) as ledger,
        Upstream(answer()) as other,
    ):

        def ask() -> Answer:
            assert call(sidecar, "GET", other.url()).status == 200
            return call(sidecar, "POST", f"http://{ledger.authority}/ledger", body=b"{}")

        assert ask().status == 200
        ca.unlink()
        _refused(ask(), str(ca), "No such file or directory", "correct the route's `ca`, or mount the file")
        ca.write_text("nothing of use")
        _refused(ask(), str(ca), "it holds no certificate in PEM form", "correct the route's `ca`")
        wrong.cert_pem.write_to_path(str(ca))
        _refused(
            ask(), ledger.authority, "signed by an authority that is not known here", "set the route's `ca`"
        )
        right.cert_pem.write_to_path(str(ca))
        assert ask().status == 200
        assert len(ledger.whole) == 2


def _refused(answered: Answer, *words: str) -> None:
    assert (answered.status, answered.outcome.outcome) == (502, "connect_failed")
    assert (answered.outcome.reason, answered.outcome.effect) == ("tls_certificate_error", "none")
    assert all(each in answered.problem["detail"] for each in words), answered.problem["detail"]
