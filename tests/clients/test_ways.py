"""Every way in, as real clients take it.

Proxy settings with and without a job's id, tunnels, TLS spoken by the sidecar, and base URLs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import botocore.config
import botocore.session
import pytest

from tests.clients.calls import Call
from tests.clients.speakers import SPEAKERS, Seen, Speaker
from tests.support.behaviours import answer, interim
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

ORDER = b'{"item": "tea"}'
ANSWER = b'{"order": 1}'

every_speaker = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
every_method = pytest.mark.parametrize(
    ("method", "body"), [("GET", b""), ("POST", ORDER)], ids=["GET", "POST"]
)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    if "speaker" in request.fixturenames and (reason := request.getfixturevalue("speaker").missing):
        pytest.skip(reason)


def arrived(tool: Upstream, method: str, body: bytes, path: str) -> None:
    """The tool was called once, with what the client meant."""
    (request,) = tool.whole
    assert (request.method, request.body, request.target) == (method, body, path)
    assert request.get("host") == tool.authority
    assert request.get("proxy-authorization") is None


def told(seen: Seen, *, effect: str) -> str:
    """The client has its answer, and is told how the step went. Returns the budget's id."""
    assert (seen.status, seen.body) == (200, ANSWER)
    assert seen.fields["budget-outcome"].startswith(f"completed; effect={effect}")
    return seen.fields["budget-id"]


@every_speaker
@every_method
def test_proxy_with_a_job(
    speaker: Speaker, method: str, body: bytes, sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]
) -> None:
    """`HTTP_PROXY=http://run-42:10000@127.0.0.1:10800` opens a budget for a client whose headers nobody can change."""
    tool.then(answer(ANSWER))
    path = f"/{speaker.name}/{method}"
    call = calling(tool.url())
    seen = speaker.speak(call, method, tool.url(path), body)
    assert told(seen, effect="none" if method == "GET" else "reported") == call.budget
    assert 0 < int(seen.fields["budget-remaining-ms"]) < 10_000
    arrived(tool, method, body, path)
    (step,) = sidecar.records_of(call.budget)
    assert step["record"] == seen.fields["budget-record"]


@every_speaker
def test_proxy_without_a_job(
    speaker: Speaker, sidecar: Sidecar, tool: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`HTTP_PROXY=http://127.0.0.1:10800`: the configured default holds."""
    tool.then(answer(ANSWER))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, sidecar.proxy_url)
    call = Call(tool.url(), sidecar.proxy_url, "")
    seen = speaker.speak(call, "POST", tool.url("/plain"), ORDER)
    told(seen, effect="reported")
    assert 290_000 < int(seen.fields["budget-allowed-ms"]) <= 300_000
    arrived(tool, "POST", ORDER, "/plain")


@every_speaker
@every_method
def test_tunnel(
    speaker: Speaker,
    method: str,
    body: bytes,
    sidecar: Sidecar,
    safe_tool: Upstream,
    calling: Callable[..., Call],
    ca_file: Path,
) -> None:
    """`HTTPS_PROXY`: the client speaks TLS with the tool itself, through a CONNECT that the job pays for."""
    safe_tool.then(answer(ANSWER))
    call = calling(safe_tool.url(), ca=ca_file)
    seen = speaker.speak(call, method, safe_tool.url("/orders"), body)
    assert (seen.status, seen.body) == (200, ANSWER)
    assert "budget-outcome" not in seen.fields, "nobody but the two ends has read it"
    arrived(safe_tool, method, body, "/orders")
    (step,) = sidecar.records_of(call.budget)
    assert (step["method"], step["kind"]) == ("CONNECT", "opaque")
    # Some clients reset the connection when they are done with it, which looks as if they had left in the middle.
    assert step["outcome"] in ("completed", "client_gone")
    assert step["target"] == f"tcp://{safe_tool.authority}"


@every_speaker
@every_method
def test_tls_spoken_by_the_sidecar(
    speaker: Speaker, method: str, body: bytes, safe_tool: Upstream, calling: Callable[..., Call]
) -> None:
    """`tls: originate`: the client says http://, and knows nothing of the authority."""
    safe_tool.then(answer(ANSWER))
    call = calling(safe_tool.url())
    path = f"/secure/{speaker.name}"
    seen = speaker.speak(call, method, f"http://{safe_tool.authority}{path}", body)
    assert told(seen, effect="none" if method == "GET" else "reported") == call.budget
    arrived(safe_tool, method, body, path)


@every_speaker
@every_method
@pytest.mark.parametrize("prefix", ["/tool", "/safe-tool"])
def test_base_url(
    speaker: Speaker,
    method: str,
    body: bytes,
    prefix: str,
    sidecar: Sidecar,
    tool: Upstream,
    safe_tool: Upstream,
) -> None:
    """`TOOL_URL=http://127.0.0.1:10800/tool`: for a client that has a base URL, and no need of a proxy."""
    called = tool if prefix == "/tool" else safe_tool
    called.then(answer(ANSWER))
    path = f"/{speaker.name}/orders?urgent=1"
    seen = speaker.speak(Call("", "", ""), method, f"{sidecar.proxy_url}{prefix}{path}", body)
    told(seen, effect="none" if method == "GET" else "reported")
    arrived(called, method, body, path)


@pytest.mark.parametrize("size", [10, 300_000])
def test_s3_asks_before_it_sends(
    size: int, sidecar: Sidecar, tool: Upstream, calling: Callable[..., Call]
) -> None:
    """botocore sends `Expect: 100-continue` with an upload, and signs what it sends: the tool gets both as they are."""
    tool.then(interim(100, then=answer(b"", headers=[("ETag", '"tea"')])))
    call = calling(tool.url())
    session = botocore.session.Session()
    client = session.create_client(
        "s3",
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        endpoint_url=tool.url(),
        config=botocore.config.Config(proxies={"http": call.proxy}),
    )
    body = bytes(range(250)) * (size // 250 or 1)
    said = client.put_object(Bucket="orders", Key="tea", Body=body)
    client.close()
    assert said["ETag"] == '"tea"'
    (request,) = tool.whole
    assert (request.method, request.target, request.get("host")) == ("PUT", "/orders/tea", tool.authority)
    assert request.get("expect") == "100-continue"
    assert body in request.body
    assert "SignedHeaders=" in (request.get("authorization") or "")
    (step,) = sidecar.records_of(call.budget)
    assert (step["kind"], step["outcome"]) == ("idempotent", "completed")
