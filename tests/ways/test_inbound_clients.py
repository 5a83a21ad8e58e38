"""Apps that nobody has changed, called by clients that nobody has changed: the job is held to its time all the same."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

import aiohttp
import httpx
import pytest
import requests
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

from tests.support.behaviours import answer, stall
from tests.support.pod import Pod
from tests.support.upstream import Upstream
from tests.support.waiting import eventually
from tests.ways.apps import APPS, PIECES, App

POLICY = "budget: {default: 2s, reserve: 200ms}\nfallback: {cap: 300ms}"


class Place(NamedTuple):
    """A pod with a real app, and the tool that it calls."""

    pod: Pod
    tool: Upstream

    def run(self) -> str:
        """The address of the job, for clients."""
        tool, proxy = quote(self.tool.url("/facts"), safe=""), quote(self.pod.sidecar.proxy_url, safe="")
        return self.pod.url(f"/run?tool={tool}&proxy={proxy}")


@pytest.fixture(scope="module", params=APPS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    app: App = APPS[request.param]
    with app() as port, Upstream(answer(b"a fact")) as tool, Pod(policy=POLICY, app_port=port) as pod:
        yield Place(pod, tool)


class Got(NamedTuple):
    """What a client made of an answer: status, fields in lower case, body; None: it took it for broken."""

    status: int
    fields: dict[str, str]
    body: bytes | None


def by_requests(method: str, url: str, headers: dict[str, str]) -> Got:
    with requests.Session() as session:
        session.trust_env = False
        response = session.request(
            method, url, headers=headers, timeout=10, data=b"{}" if method == "POST" else None
        )
        return Got(
            response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content
        )


def by_httpx(method: str, url: str, headers: dict[str, str]) -> Got:
    with httpx.Client(trust_env=False) as client:
        response = client.request(
            method, url, headers=headers, timeout=10, content=b"{}" if method == "POST" else None
        )
        return Got(response.status_code, dict(response.headers), response.content)


def by_aiohttp(method: str, url: str, headers: dict[str, str]) -> Got:
    async def fetch() -> Got:
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, url, headers=headers, data=b"{}" if method == "POST" else None
            ) as response,
        ):
            fields = {name.lower(): value for name, value in response.headers.items()}
            return Got(response.status, fields, await response.read())

    return asyncio.run(fetch())


def by_curl(method: str, url: str, headers: dict[str, str]) -> Got:
    command = ["curl", "-s", "-i", "--raw", "-X", method, url]
    command += [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    command += ["-d", "{}"] if method == "POST" else []
    done = subprocess.run(command, capture_output=True, timeout=20, check=True)
    top, _, body = done.stdout.partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return Got(int(first.split(" ")[1]), fields, body)


_FETCH = """
const [method, url, headers] = process.argv.slice(1);
const response = await fetch(url, {method, headers: JSON.parse(headers), body: method === "POST" ? "{}" : undefined});
console.log(JSON.stringify([response.status, Object.fromEntries(response.headers), await response.text()]));
"""


def by_node(method: str, url: str, headers: dict[str, str]) -> Got:
    command = ["node", "--input-type=module", "-e", _FETCH, method, url, json.dumps(headers)]
    done = subprocess.run(command, capture_output=True, timeout=20, check=True)
    status, fields, body = json.loads(done.stdout)
    return Got(status, fields, body.encode())


CLIENTS: dict[str, Callable[[str, str, dict[str, str]], Got]] = {
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
}
if shutil.which("curl"):
    CLIENTS["curl"] = by_curl
if shutil.which("node"):
    CLIENTS["node"] = by_node
everybody = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
Client = Callable[[str, str, dict[str, str]], Got]


@everybody
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_job_that_is_done(place: Place, client: Client, method: str, budget: str) -> None:
    """Its one step belongs to it, though the app knows nothing of budgets."""
    got = client(method, place.run(), {"Budget-Id": budget, "Budget-Remaining-Ms": "5000"})
    assert (got.status, got.body) == (200, b"a fact")
    assert got.fields["budget-verdict"] == "complete; on_time"
    assert got.fields["budget-steps"] == "total=1, completed=1, deadline_exceeded=0, uncertain=0"
    (step,) = place.pod.sidecar.records_of(budget)
    assert (step["method"], step["outcome"], step["allowed_ms"]) == ("GET", "completed", 300.0)


@everybody
def test_a_job_whose_step_was_cut(place: Place, client: Client, budget: str) -> None:
    """Whatever the app makes of that: its answer is marked."""
    place.tool.on("/facts", stall())
    try:
        got = client("GET", place.run(), {"Budget-Id": budget, "Budget-Remaining-Ms": "5000"})
    finally:
        place.tool.on("/facts", answer(b"a fact"))
    assert got.fields["budget-verdict"] == "incomplete; on_time"
    assert got.fields["budget-steps"] == "total=1, completed=0, deadline_exceeded=1, uncertain=0"


@everybody
def test_a_job_that_hangs(place: Place, client: Client, budget: str) -> None:
    """Its caller is told at the end of the total, and not by a broken connection."""
    got = client("GET", place.pod.url("/hang"), {"Budget-Id": budget, "Budget-Remaining-Ms": "500"})
    assert got.status == 504
    assert got.fields["budget-verdict"].startswith("incomplete")
    assert json.loads(got.body or b"")["reason"] == "budget_remaining"
    place.pod.sidecar.at_rest()


@everybody
def test_a_job_that_answers_in_pieces(place: Place, client: Client, budget: str) -> None:
    """Clients that know nothing of trailers take the answer for whole; those who show them show the verdict."""
    got = client("GET", place.pod.url("/stream"), {"Budget-Id": budget})
    assert got.status == 200
    assert got.body is not None
    if client is by_curl:
        assert b"\r\n0\r\n" in got.body
        assert got.body.endswith(b"Budget-Verdict: complete; on_time\r\n\r\n")
    else:
        assert got.body == b"".join(PIECES)
    assert got.fields["budget-verdict"] in ("in_progress", "complete; on_time")


@pytest.fixture(scope="module")
def speaking() -> Iterator[Pod]:
    with APPS["aiohttp"]() as port, Pod(policy=POLICY, app_port=port) as pod:
        yield pod


def test_web_sockets_without_a_budget_last(speaking: Pod) -> None:
    """They are no job, however long they are open."""
    with connect(speaking.url("/ws").replace("http", "ws")) as socket:
        for number in range(3):
            socket.send(f"{number}")
            assert socket.recv(10) == f"heard {number}"
        assert speaking.sidecar.samples()["waterclock_budgets_open"] == 0
    (entry,) = speaking.entries()
    assert (entry["outcome"], entry["budget_id"], entry["verdict"]) == ("completed", None, None)
    eventually(lambda: speaking.sidecar.gauges()["opaque_connections_active"] == 0)


def test_web_sockets_with_a_budget_end_with_it(speaking: Pod, budget: str) -> None:
    """And say so by no clean end; a spent one does not begin."""
    stated = {"Budget-Id": budget, "Budget-Remaining-Ms": "500"}
    url = speaking.url("/ws").replace("http", "ws")
    with connect(url, additional_headers=stated) as socket:
        assert socket.response is not None
        assert socket.response.headers["Budget-Verdict"] == "in_progress"
        with pytest.raises(ConnectionClosedError):
            socket.recv(10)
    (entry,) = speaking.entries(budget)
    assert entry["outcome"] == "deadline_exceeded"
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(url, additional_headers={"Budget-Remaining-Ms": "0"}),
    ):
        pass
    assert refused.value.response.status_code == 403
