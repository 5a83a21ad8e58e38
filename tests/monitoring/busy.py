"""A sidecar to which everything has happened that rules and dashboards look at, by real calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from tests.support.behaviours import answer, hang_up, stall
from tests.support.callers import Caller, call
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

POLICY: Final[dict[str, Any]] = {
    "writes": {"linger": "50ms"},
    "budget": {"stages": {"quick": "3s"}},  # of five minutes, and of a shorter budget in proportion
    "routes": [
        {
            "name": "chat",
            "match": {"path": "/chat/**"},
            "effect": "read",
            "cache": {"ttl": "1m"},
            "ladder": [
                {"name": "full"},
                {"name": "cached", "cache": {"exact": True}},
                {"name": "sorry", "answer": {"status": 200, "json": {}}},
            ],
        },
        {"name": "staged", "match": {"path": "/staged"}, "stage": "quick"},
        {"name": "slow", "match": {"path": "/slow"}, "cap": "50ms"},
        {"name": "one", "match": {"path": "/one"}, "concurrency": 1, "queue": {"size": 0}, "cap": "2s"},
        {
            "name": "again",
            "match": {"path": "/again"},
            "retries": {"max": 1, "on": [503], "backoff": {"base": "1ms", "cap": "1ms"}},
        },
        {"name": "given-up", "match": {"path": "/given-up"}, "max_attempts": 1},
        {"name": "asked", "match": {"path": "/asked"}, "cap": "50ms", "verify": {"path": "/orders"}},
    ],
}


@contextlib.contextmanager
def busy() -> Iterator[Sidecar]:
    """Start one, whose store of cached answers is not there, and let it all happen."""
    store = {"cache": {"store": f"redis://127.0.0.1:{free_port()}/0"}}
    with Upstream(answer()) as tool, Sidecar(POLICY | store) as sidecar:
        tool.on("/chat/down", answer(status=503)).on("/staged", stall()).on("/slow", stall()).on(
            "/asked", stall()
        ).on("/one", stall()).on("/gone", hang_up())
        tool.on("/again", answer(status=503)).on("/orders", answer(status=500))
        happen(sidecar, tool)
        yield sidecar


def happen(sidecar: Sidecar, tool: Upstream) -> None:
    """A job done and closed, and calls that are cut, refused, shed, repeated, in doubt, given up, tunnelled, malformed.

    And one that is answered with less, since its tool is no better than its cache.
    """
    job = {"Budget-Id": "job", "Budget-Remaining-Ms": 10_000}
    assert call(sidecar, "GET", tool.url("/"), headers=job).status == 200
    assert call(sidecar, "GET", tool.url("/slow"), headers=job).status == 504
    assert call(sidecar, "GET", tool.url("/chat/up"), headers=job).status == 200
    assert call(sidecar, "GET", tool.url("/chat/down"), headers=job).get("budget-degraded")
    assert call(sidecar, "GET", tool.url("/staged"), headers=job).status == 504
    assert sidecar.ask("/budgets/job/close", {})["verdict"] == "incomplete; on_time; degraded=1"
    assert call(sidecar, "GET", tool.url("/"), headers={"Budget-Remaining-Ms": 0}).status == 403
    with Caller(sidecar) as first:
        first.request("GET", tool.url("/one"))
        eventually(lambda: tool.seen("/one"))
        assert call(sidecar, "GET", tool.url("/one")).outcome.outcome == "shed"
    assert call(sidecar, "GET", tool.url("/again")).status == 503
    assert call(sidecar, "POST", tool.url("/again")).status == 503
    assert call(sidecar, "GET", f"http://127.0.0.1:{free_port()}/").status == 502
    assert call(sidecar, "POST", tool.url("/gone"), body=b"tea").status == 424
    assert call(sidecar, "POST", tool.url("/asked"), body=b"tea").status == 424
    nowhere = f"http://127.0.0.1:{free_port()}/given-up"
    assert [call(sidecar, "POST", nowhere, body=b"tea").status for _ in range(2)] == [502, 424]
    _joined(sidecar, tool)
    with Caller(sidecar) as tunnel:
        tunnel.request("CONNECT", tool.authority).until(b"\r\n\r\n")
        tunnel.send(b"\x16\x03\x01 as if it were TLS").half_close()
    with Caller(sidecar) as stranger:
        stranger.send(b"what is this\r\n\r\n").rest()
    wanted = 'waterclock_verifications_total{result="unknown",route="asked"}'
    eventually(lambda: sidecar.samples().get(wanted), what="the sidecar asks about a write in doubt")


def _joined(sidecar: Sidecar, tool: Upstream) -> None:
    """Two calls under one key at the same time are one."""
    headers = {"Idempotency-Key": "k", "Budget-Remaining-Ms": 1000}
    with Caller(sidecar) as first, Caller(sidecar) as second:
        first.request("POST", tool.url("/one"), headers, b"tea")
        eventually(lambda: [seen for seen in tool.seen("/one") if seen.method == "POST"])
        second.request("POST", tool.url("/one"), headers, b"tea")
        first.answer("POST")
        second.answer("POST")
