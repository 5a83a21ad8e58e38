"""Secrets are passed on, and are nowhere else: not in the log, the metrics, the control API, the journal, nor in what commands print.

Each secret that a call may carry is a canary, sent through a real sidecar on every way there is; then all that the sidecar
leaves behind is searched for them.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from proxy.cli import main
from proxy.config import ConfigError, parse
from proxy.core.target import hide_query
from tests.support.behaviours import head
from tests.support.callers import Caller, call, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Exchange, Upstream
from tests.support.waiting import eventually


class Canaries:
    """Texts that nobody else would write, by what they stand for."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.encoded: dict[str, str] = {}

    def pair(self, user: str, what: str) -> str:
        """The credentials of a user, as HTTP sends them."""
        text = self.encoded[f"{what} in Base64"] = base64.b64encode(f"{user}:{self(what)}".encode()).decode()
        return text

    def __call__(self, what: str) -> str:
        return self.made.setdefault(what, f"canary{len(self.made):02}zq")

    def found(self, text: str | bytes) -> list[str]:
        """What they stand for, of those that are in a text."""
        haystack = text if isinstance(text, bytes) else text.encode()
        found = {what for what, canary in self.made.items() if canary.encode() in haystack}
        return sorted(found | {what for what, text in self.encoded.items() if text.encode() in haystack})


@dataclass
class Left:
    """All that a sidecar has left behind, and told."""

    canaries: Canaries
    log: str = ""
    noise: str = ""
    metrics: str = ""
    control: dict[str, str] = field(default_factory=dict)
    journal: bytes = b""
    answers: str = ""
    commands: str = ""
    passed_on: bytes = b""


async def answers_with_secrets(exchange: Exchange) -> None:
    """As a login does."""
    await exchange.read_all()
    fields = [(name, value) for name, value in _SECRETS_BACK]
    await exchange.send(head(200, [*fields, ("Content-Length", "2")]) + b"ok")


async def breaks_off(exchange: Exchange) -> None:
    await exchange.read_all()
    exchange.reset()


async def answers_late(exchange: Exchange) -> None:
    """After its caller was told that nobody knows."""
    await exchange.read_all()
    await exchange.wire.sleep_regardless(0.35)
    fields = [(name, value) for name, value in _SECRETS_BACK]
    await exchange.send(head(201, [*fields, ("Content-Length", "4")]) + b"made")


_CANARIES = Canaries()
_SECRETS_BACK = [
    ("Set-Cookie", f"session={_CANARIES('Set-Cookie')}"),
    ("X-Subject-Token", _CANARIES("a token in an answer")),
    ("WWW-Authenticate", f"Basic realm={_CANARIES('WWW-Authenticate')}"),
]


def secret_fields() -> dict[str, str]:
    """Header fields of a request that carry secrets."""
    canary = _CANARIES
    return {
        "Authorization": f"Bearer {canary('Authorization')}",
        "Cookie": f"session={canary('Cookie')}",
        "X-Api-Key": canary("X-Api-Key"),
        "api-key": canary("api-key"),
        "X-Goog-Api-Key": canary("X-Goog-Api-Key"),
        "X-Amz-Security-Token": canary("X-Amz-Security-Token"),
        "X-Other": canary("any other field"),
        "Referer": f"http://a/?token={canary('Referer')}",
    }


def query() -> str:
    """A query that is made of secrets, with names and without."""
    canary = _CANARIES
    return f"?api_key={canary('a query value')}&{canary('a query without a name')}&sig=a%3D{canary('an escaped query value')}"


def the_policy(port: int) -> str:
    """One that holds secrets itself, in each place that may."""
    canary = _CANARIES
    return f"""
budget: {{default: 20s}}
writes: {{linger: 5s}}
connections: {{proxy: "http://user:{canary("the password of the parent proxy")}@127.0.0.1:9", no_proxy: [127.0.0.1, localhost]}}
cache: {{store: "redis://user:{canary("the password of the store")}@127.0.0.1:9/0", timeout: 50ms}}
routes:
- name: late
  match: {{path: /late}}
  cap: 250ms
- name: api
  prefix: /api
  upstream: http://127.0.0.1:{port}/base
- name: laddered
  match: {{path: /laddered}}
  effect: read
  ladder:
  - name: first
    set:
      headers: {{Authorization: "Bearer {canary("a header that a rung sets")}"}}
      query: {{key: {canary("a parameter that a rung sets")}}}
  - name: last
    cache: {{exact: true}}
"""


def use(sidecar: Sidecar, upstream: Upstream, left: Left) -> None:
    """Send the secrets on every way."""
    canary = _CANARIES
    fields = secret_fields()
    user = canary.pair("run-1", "the password of the proxy URL")
    answered: list[str] = []

    def send(method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        told = call(sidecar, method, target, headers={**fields, **(headers or {})}, body=body)
        if told.get("content-type") == "application/problem+json":
            answered.append(f"{told.fields}{told.body!r}")

    body = json.dumps({"password": canary("a body")}).encode()
    send("GET", upstream.url("/good") + query(), {"Budget-Id": "run-1", "Budget-Remaining-Ms": "9000"})
    send("GET", upstream.url("/laddered") + query())
    send("POST", upstream.url("/good") + query(), {"Idempotency-Key": "k-1"}, body)
    send("POST", upstream.url("/broken") + query(), {"Idempotency-Key": "k-2"}, body)
    send("POST", upstream.url("/broken") + query(), {"Idempotency-Key": "k-2"}, body)  # refused: a repetition
    send("POST", upstream.url("/late") + query(), {"Idempotency-Key": "k-3"}, body)
    send("GET", "/api/x" + query())
    send("GET", f"http://user:{canary('a password in a target')}@127.0.0.1:{upstream.port}/" + query())
    send("GET", "http://far.example/" + query())  # by the parent proxy, which is not there
    send("POST", "http://127.0.0.1:9/" + query(), None, body)  # nobody is there
    send("GET", f"http://127.0.0.1:{sidecar.control}/" + query())  # itself
    send("GET", upstream.url("/good") + query(), {"Proxy-Authorization": f"Basic {user}"})
    send("GET", upstream.url("/good") + query(), {"Budget-Remaining-Ms": f"1x{canary('a malformed limit')}"})
    send("GET", upstream.url("/good") + query(), {"Budget-Remaining-Ms": "0"})
    send("GET", upstream.url("/good") + query(), {"Upgrade": "websocket", "Connection": "Upgrade"})
    for raw in (
        f"GET /{canary('a line that is no request')}\r\n\r\n",
        f"GET http://a/ HTTP/1.1\r\nHost: a\r\nX-Bad Name: {canary('a field that is none')}\r\n\r\n",
        f"GET http://a/{query()} HTTP/9.9\r\nHost: a\r\n\r\n",
        f"POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {canary('a coding that is none')}\r\n\r\n",
    ):
        with Caller(sidecar) as caller:
            answered.append(caller.send(raw.encode()).rest().decode("latin-1"))
    with Caller(sidecar) as caller:  # through a tunnel, in the clear
        stated = {**fields, "Proxy-Authorization": f"Basic {user}"}
        caller.send(render("CONNECT", upstream.authority, stated)).exactly(1)
        caller.add(render("GET", "/good" + query(), {**fields, "Host": upstream.authority}))
        caller.half_close().rest()
    left.answers = "\n".join(answered)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    """What a sidecar has left behind that has seen them all, and was stopped."""
    left = Left(_CANARIES)
    folder = tmp_path_factory.mktemp("secrets")
    upstream = Upstream(answers_with_secrets).on("/broken", breaks_off).on("/late", answers_late)
    with upstream, Sidecar(the_policy(upstream.port), folder=folder) as sidecar:
        use(sidecar, upstream, left)
        eventually(lambda: sidecar.uncertain()["writes"] and any(
            each["state"] == "reported" for each in sidecar.uncertain()["writes"]
        ), what="the late answer")  # fmt: skip
        base = f"http://127.0.0.1:{sidecar.metrics}"
        left.metrics = "".join(_fetch(f"{base}{path}") for path in ("/metrics", "/readyz", "/healthz"))
        paths = ["/", "/budgets?state=all&limit=500", "/uncertain", "/dead-letters", "/config", "/budgets/run-1", "/budgets/run-1/timeline"]  # fmt: skip
        paths += [f"/uncertain/{each['id']}" for each in sidecar.uncertain()["writes"]]
        left.control = {path: _fetch(f"http://127.0.0.1:{sidecar.control}{path}") for path in paths}
        left.control["a path that is none"] = _fetch(f"http://127.0.0.1:{sidecar.control}/none{query()}")
        left.commands = _commands(sidecar.config)
        sidecar.write_policy("budget: {default: nonsense}\n")
        sidecar.event("reload_failed")
        sidecar.stop()
        left.journal = b"".join(path.read_bytes() for path in folder.glob("journal.db*"))
        left.log = json.dumps([sidecar.records, sidecar.events])
        left.noise = "\n".join(sidecar.noise)
        left.passed_on = b"".join(bytes(each.received) for each in upstream.connections)
        yield left


def _fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            text: bytes = response.read()
    except urllib.error.HTTPError as error:
        text = error.read()
    return text.decode()


def _commands(config: Path) -> str:
    """What people are shown, of a policy that holds secrets and of a sidecar that has seen some."""
    asked = (
        ["check", str(config)],
        ["explain", "-c", str(config), "GET", "http://tool/laddered" + query(), "-H", f"Authorization: {_CANARIES('Authorization')}"],
        ["explain", "-c", str(config), "GET", f"http://u:{_CANARIES('a password in a target')}@tool/"],
        ["budgets", "-c", str(config), "--all"],
        ["budgets", "-c", str(config), "run-1"],
        ["timeline", "-c", str(config), "run-1"],
        ["uncertain", "list", "-c", str(config), "--all"],
        ["uncertain", "list", "-c", str(config), "--all", "--json"],
    )  # fmt: skip
    return "\n".join(CliRunner().invoke(main, words).output for words in asked)


def test_they_were_sent(left: Left) -> None:
    """The search below would find nothing if nothing had been sent: these have reached the tool."""
    reached = set(left.canaries.found(left.passed_on))
    assert {"Authorization", "Cookie", "X-Api-Key", "a query value", "a query without a name", "a body", "a header that a rung sets", "a parameter that a rung sets"} <= reached  # fmt: skip
    assert len(left.canaries.made) >= 25


def test_proxy_credentials_go_no_further(left: Left) -> None:
    """They were for this hop, and the parent's for that one."""
    reached = left.canaries.found(left.passed_on)
    assert not {each for each in reached if "proxy" in each}


def test_the_log_holds_none(left: Left) -> None:
    """Neither its records of steps and writes, nor its events."""
    assert '"target": "http' in left.log
    assert "api_key=\\u2026" in left.log, "a query keeps its names"
    assert left.canaries.found(left.log) == []


def test_standard_error_holds_none(left: Left) -> None:
    assert left.noise == ""


def test_the_metrics_hold_none(left: Left) -> None:
    assert "waterclock_steps_total" in left.metrics
    assert left.canaries.found(left.metrics) == []


def test_the_control_api_holds_none(left: Left) -> None:
    """Every endpoint: jobs, steps, writes with their late answers, the policy in force, and its errors."""
    assert {path: found for path, text in left.control.items() if (found := left.canaries.found(text))} == {}
    assert "made" in "".join(left.control.values()), "a late answer is kept, with its body"


def test_the_journal_holds_none(left: Left) -> None:
    """The bytes of its files: of a late answer its body is kept, and no field that tells who asks."""
    assert b"http://127.0.0.1" in left.journal
    assert b"made" in left.journal
    assert left.canaries.found(left.journal) == []


def test_answers_of_the_sidecars_own_hold_none(left: Left) -> None:
    """What a refusal explains, agents put into their context, and their own logs."""
    assert left.answers.count("urn:waterclock:problem") > 8
    assert left.canaries.found(left.answers) == []


def test_commands_print_none(left: Left) -> None:
    """`check`, `explain`, `budgets`, `timeline`, `uncertain`."""
    assert "decision" in left.commands
    assert "k-2" in left.commands or "run-1" in left.commands
    assert left.canaries.found(left.commands) == []


def test_the_search_can_fail(left: Left) -> None:
    """Each canary is found where it is."""
    for what, canary in left.canaries.made.items():
        assert left.canaries.found(f"x{canary}y") == [what]


SECRET = "canaryzq"


@pytest.mark.parametrize(
    "policy",
    [
        f"connections: {{proxy: 'https://user:{SECRET}@a:1'}}",
        f"connections: {{proxy: 'user:{SECRET}@a:1'}}",
        f"connections: {{no_proxy: http://user:{SECRET}@a:1}}",
        f"connections: {{proxy: [http://user:{SECRET}@a:1]}}",
        f"cache: {{store: 'redis://user:{SECRET}@h:99999'}}",
        f"cache: {{store: 'redis://user:{SECRET}@h/0?ssl=no'}}",
        f"cache: {{service: 'http://user:{SECRET}@h'}}",
        f"routes: [{{name: a, prefix: /a, upstream: 'http://user:{SECRET}@h'}}]",
        f"routes: [{{name: a, prefix: /a, upstream: 'http://user:{SECRET}@h/@x'}}]",
        f"fallback: {{effect: read, ladder: [{{name: a}}, {{name: b, upstream: 'https://user:{SECRET}@h/?x'}}]}}",
        f"fallback: {{effect: read, ladder: [{{name: a}}, {{name: b, set: {{headers: {{X-Key: ' {SECRET} '}}}}}}]}}",
        f"fallback: {{effect: read, ladder: [{{name: a}}, {{name: b, set: {{headers: {{Host: {SECRET}}}}}}}]}}",
        f"egress: {{deny: ['http://user:{SECRET}@h']}}",
        f"egress: {{deny: ['user:{SECRET}@h']}}",
        f"cache: {{store: 'redis://user:{SECRET}@10.0.0.1'}}\negress: {{deny: [10.0.0.0/8]}}",
    ],
)
def test_no_fault_shows_a_secret_of_the_policy(policy: str) -> None:
    """Faults are logged by a reload, printed by `check`, and stand in the status of a BudgetPolicy."""
    with pytest.raises(ConfigError) as error:
        parse(policy)
    assert SECRET not in str(error.value)
    assert SECRET not in repr(error.value.faults)


def test_percent_encoded_secrets_are_hidden_as_values() -> None:
    """Whatever stands behind the question mark but names."""
    assert hide_query(f"/a?b={quote(SECRET)}&{SECRET}&c") == "/a?b=…&…&…"
