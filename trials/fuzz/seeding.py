"""`python -m trials.fuzz.seeding` writes the first inputs of each corpus: from the tables of the tests and the examples of the docs.

What runs have found since stands beside them and is left alone. An input that is too long to be kept is left out.
"""

from __future__ import annotations

import copy
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from proxy.degrade.cache.entry import Entry, encode
from tests.degrade.transcripts import TRANSCRIPTS
from tests.kube.injection.pods import GIVEN
from tests.wire import test_requests, test_responses, test_smuggling
from trials.fuzz.corpus import keep
from trials.fuzz.registry import load
from trials.fuzz.targets.redis import VALUE
from trials.fuzz.targets.relay import BETWEEN, INBOUND, LADDERED, REDIRECTED, STALL

_ROOT: Final = Path(__file__).parents[2]
_COMMENT: Final = re.compile(r" *#.*$", re.MULTILINE)
_SECTION: Final = re.compile(r"\n(?=[a-z_]+:)")
_LONGEST_STREAM: Final = 2500

Named = tuple[str, bytes]

_OK: Final = b"HTTP/1.1 200 OK\r\n"
_GET: Final = b"GET http://tool/a HTTP/1.1\r\nHost: tool\r\n"
_POST: Final = b"POST http://tool/a HTTP/1.1\r\nHost: tool\r\n"
_ENTRY: Final = Entry(200, ((b"Content-Type", b"a/b"),), b"x", 0, 5, None, 5, ((b"accept", bytes(16)),))


def requests() -> Iterator[Named]:
    """Whole connections of a client."""
    for case in [*test_requests.CASES, *test_smuggling.REQUESTS]:
        yield case.name, case.wire
    for case in test_smuggling.EITHER_WAY:
        yield case.name, b"POST / HTTP/1.1\r\nHost: a\r\n" + case.wire


def responses() -> Iterator[Named]:
    """Whole connections of a server."""
    for case in [
        *test_smuggling.RESPONSES,
        *test_responses.REUSABLE,
        *test_responses.NOT_REUSABLE,
        *test_responses.AT_EOF,
    ]:
        yield case.name, case.wire
    for case in test_smuggling.EITHER_WAY:
        yield case.name, _OK + case.wire


def relay() -> Iterator[Named]:
    """A client's bytes, and what the tool says."""
    body = b"Content-Length: 5\r\n\r\nhello"
    asked = {
        "a read": _GET + b"\r\n",
        "a write": _POST + body,
        "a write in chunks": _POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: 1\r\n\r\n",
        "a write that waits": _POST + b"Expect: 100-continue\r\n" + body,
        "a budget": _POST + b"Budget-Id: j\r\nBudget-Remaining-Ms: 900\r\nIdempotency-Key: k\r\n" + body,
        "two reads": 2 * (_GET + b"\r\n"),
        "a read and a smuggled one": _GET
        + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + _GET
        + b"\r\n",
        "a head": _GET.replace(b"GET", b"HEAD") + b"\r\n",
        "http 1 0": _GET.replace(b"1.1", b"1.0") + b"\r\n",
        "an upgrade": _GET + b"Connection: upgrade\r\nUpgrade: x\r\n\r\nraw",
        "a tunnel": b"CONNECT tool:443 HTTP/1.1\r\nHost: tool:443\r\n\r\n\x16\x03\x01\x00\x01",
    }
    answers = {
        "a length": _OK + b"Content-Length: 2\r\n\r\nok",
        "cut in a length": _OK + b"Content-Length: 5\r\n\r\nok",
        "chunks": _OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\n\r\n",
        "cut in chunks": _OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "until close": _OK + b"\r\nok",
        "interim": b"HTTP/1.1 103 Early Hints\r\n\r\n" + _OK + b"Content-Length: 2\r\n\r\nok",
        "an interim head with a body": b"HTTP/1.1 104 X\r\nContent-Length: 5\r\n\r\nHTTP/"
        + _OK
        + b"Content-Length: 0\r\n\r\n",
        "more than one": 2 * (_OK + b"Content-Length: 2\r\n\r\nok"),
        "events": _OK + b"Content-Type: text/event-stream\r\n\r\ndata: {}\n\ndata: {",
        "switching": b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw",
        "garbage": b"\x00\xffSSH-2.0\r\n",
        "nothing": b"",
    }
    for first, one in asked.items():
        yield f"{first}, a length", one + BETWEEN + answers["a length"]
    for first, one in answers.items():
        yield f"a write, {first}", asked["a write"] + BETWEEN + one
        yield f"a read, {first}", asked["a read"] + BETWEEN + one
    plain = b"POST /a HTTP/1.1\r\nHost: tool\r\n" + body
    for way in (REDIRECTED, INBOUND):
        yield f"{way.decode()} a write", way + plain + BETWEEN + answers["a length"]
        yield f"{way.decode()} cut", way + plain + BETWEEN + answers["cut in chunks"]
        yield f"{way.decode()} two", way + plain + plain.replace(b"POST", b"GET")
    asked_model = b'{"model":"large","messages":[]}'
    model = _POST + b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(asked_model)
    for first in ("a length", "cut in chunks", "garbage", "events"):
        given = answers[first].replace(b"OK\r\n", b"OK\r\nCache-Control: max-age=60\r\n")
        for left in (b"9000", b"350", b"100"):
            call = model + b"Budget-Remaining-Ms: " + left + b"\r\n\r\n" + asked_model
            yield f"a ladder, {left.decode()}, {first}", LADDERED + call + BETWEEN + given
    for name in ("a length", "chunks", "cut in chunks", "until close", "events"):
        for left in (b"150", b"500"):
            call = _POST + b"Budget-Remaining-Ms: " + left + b"\r\n" + body
            slow = answers[name].replace(b"\r\n\r\n", b"\r\n\r\n" + BETWEEN, 1)
            yield f"{left.decode()} ms, {name}, slowly", call + BETWEEN + slow + BETWEEN + STALL
    yield "led here with tls", REDIRECTED + b"\x16\x03\x01\x00\x01\x00" + BETWEEN + b"\x15\x03"
    yield "an upgrade, switching", asked["an upgrade"] + BETWEEN + answers["switching"]


def headers() -> Iterator[Named]:
    """One field each, and a few together."""
    for value in (
        b"Budget-Remaining-Ms: 8000",
        b"Budget-Remaining-Ms: 8000\nBudget-Remaining-Ms: 9000",
        b"Budget-Id: run-42\nBudget-Stage: llm\nBudget-Phase: cleanup\nBudget-Depth: 2",
        b"Budget-Reserve-Ms: 500\nBudget-Retry: confirmed\nIdempotency-Key: a key",
        b"grpc-timeout: 99S\nConnect-Timeout-Ms: 500\nX-Envoy-Expected-Rq-Timeout-Ms: 100",
        b"X-Stainless-Read-Timeout: 60.5\nX-Stainless-Retry-Count: 2",
        b"X-Server-Timeout: 30\namz-sdk-request: attempt=2; max=3",
        b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"Proxy-Authorization: Basic cnVuLTQyOjEwMDAw",
        b"Proxy-Authorization: Basic cnVuLTQy=",
        b"Retry-After: 120",
        b"Retry-After: Mon, 30 Nov 2026 10:01:00 GMT\nDate: Mon, 30 Nov 2026 10:00:00 GMT",
        b"Retry-After: Mon, 30 Nov 0001 10:01:00 +2359\nDate: x",
        b'Cache-Control: max-age=60, stale-if-error="5", no-cache="a, b"\nAge: 5\nVary: Accept, X-A',
        b"Expires: Mon, 30 Nov 2026 10:01:00 GMT\nDate: Mon, 30 Nov 2026 10:00:00 GMT",
        b"Connection: close, x-a\nX-A: 1\nVia: 1.1 w\nTE: trailers",
        b"Content-Type: text/event-stream; charset=utf-8",
        b"Content-Type: multipart/mixed; deferSpec=1",
        b"Host: a,b",
        b"Expect: 100-continue\nUpgrade: h2c\nConnection: upgrade",
    ):
        yield value.decode().replace("\n", " "), value


def streams() -> Iterator[tuple[str, Named]]:
    """Transcripts of the dialects: for what follows them, and for where they can be cut."""
    for transcript in TRANSCRIPTS:
        wire = transcript.wire[:_LONGEST_STREAM]
        first = f"{transcript.content_type} {transcript.path}\n".replace("; charset=utf-8", ";charset=utf-8")
        yield "endings", (transcript.name, first.encode() + wire)
    for name, wire in {
        "events": b"data: a\n\ndata: b\r\n\r\nevent: x\ndata: c\r\rid",
        "line ends in all ways": b"\n\r\n\r\r\n\r\n\n\r",
        "lines": b'{"a":1}\n{"b":2}\r\n\x1e{"c"',
        "characters": "茶 🫖 é".encode()[:-1],
        "not utf 8": b"\xff\xc3\x28\xed\xa0\x80\xf5\x80",
    }.items():
        yield "eventstream", (name, wire)


def bodies() -> Iterator[tuple[str, Named]]:
    """Bodies of requests."""
    for name, text in {
        "a query": '/graphql\n{"query":"query Q { a(b: \\"}\\") }"}',
        "a mutation": '/graphql\n{"query":"mutation { a }"}',
        "a mutation behind a string": '/graphql\n{"query":"{ a } \\"\\"\\" x \\"\\"\\" mutation { b }"}',
        "a comment": '/graphql\n{"query":"# mutation\\n{ a }"}',
        "two names": '/graphql\n{"query":"{a}","query":"mutation {a}"}',
        "tools list": '/mcp\n{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        "a batch": '/mcp\n[{"jsonrpc":"2.0","method":"ping"},{"jsonrpc":"2.0","result":1}]',
        "a call": '/mcp\n{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x"}}',
    }.items():
        yield "kinds", (name, text.encode())
    for name, text in {
        "numbers": "[1,-0,1.0,1e5,1E+400,12345678901234567890,0.10000000000000001]",
        "texts": '{"a":"\\u00e9\\ud83e\\uded6\\\\u0000","b":"\\/"}',
        "nul": '"\\u0000"',
        "half a pair": '"\\ud800"',
        "two names": '{"a":1,"a":2}',
        "deep": "[" * 200 + "]" * 200,
    }.items():
        yield "json", (name, text.encode())
    for name, text in {
        "a model": '$.model "small"\n{"model":"large","n":1.50,"a":[1e400]}',
        "new": '$.a.b 1\n{"a":{}}',
        "in a list": '$.a[-1].b null\n{"a":[{"b":1},{"b":2}]}',
        "nothing there": "$.a.b 1\n[]",
        "a name in quotes": '$[\'a b\'] {"x":1.0}\n{"a b":0}',
    }.items():
        yield "change", (name, text.encode())


def connections() -> Iterator[Named]:
    """First bytes."""
    yield from {
        "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00",
        "http 1": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "redis": b"GET key\r\n",
        "redis protocol": b"*1\r\n$4\r\nPING\r\n",
        "ssh": b"SSH-2.0-OpenSSH\r\n",
        "own method": b"LIST /a HTTP/1.1\r\n",
        "absolute": b"GET http://a/ HTTP/1.1\r\n",
    }.items()


def policies() -> Iterator[tuple[str, Named]]:
    """Policies as files, and as BudgetPolicies."""
    text = (_ROOT / "docs" / "examples" / "waterclock.yaml").read_text(encoding="utf-8")
    for part in filter(str.strip, _SECTION.split("\n" + _COMMENT.sub("", text))):
        said = yaml.safe_load(part)
        name = f"the example's {next(iter(said))}"
        yield "config", (name, part.encode())
        yield "policies", (name, json.dumps({"policy": said}).encode())
    blocks = re.findall(
        r"```yaml\n(.*?)```", (_ROOT / "docs" / "policy.md").read_text(encoding="utf-8"), re.DOTALL
    )
    for number, block in enumerate(blocks):
        yield "config", (f"policy {number}", block.encode())
        try:
            spec = {"policy": yaml.safe_load(block), "selector": {"matchLabels": {"app": "a"}}}
            yield "policies", (f"policy {number}", json.dumps(spec).encode())
        except (yaml.YAMLError, TypeError):
            continue
    laughs = b"a: &a [x, x]\n" + b"".join(
        b"%c: &%c [*%c, *%c]\n" % (at, at, at - 1, at - 1) for at in b"bcdefghijklmnopqrstuvw"
    )
    for name, wire in {
        "a billion laughs": laughs,
        "an alias within itself": b"&a [*a]\n",
        "deep": b"[" * 100,
        "a huge number": b"budget: {default: " + b"9" * 300 + b"s}\n",
        "a tag": b"budget: !!python/object/apply:os.system [x]\n",
        "two documents": b"budget: {}\n---\nbudget: {}\n",
        "nothing": b"# a\n",
        "a surrogate": b'"\\ud800": 1\n',
    }.items():
        yield "config", (name, wire)


def reviews() -> Iterator[Named]:
    """An AdmissionReview for each pod of the golden files that is short enough."""
    for given in GIVEN:
        yield given.name, json.dumps(_review(given.pod), separators=(",", ":")).encode()
    other = _review(copy.deepcopy(GIVEN[0].pod))
    other["request"] |= {"operation": "UPDATE", "kind": {"kind": "Deployment"}, "subResource": "scale"}
    yield "of something else", json.dumps(other).encode()
    yield "no review", b'{"kind":"AdmissionReview"}'


def _review(pod: Any) -> dict[str, Any]:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def others() -> Iterator[tuple[str, Named]]:
    """Logs, entries, questions of operators."""
    step = {
        "time": "2026-11-30T10:00:00.000Z",
        "budget_id": "b",
        "step": 1,
        "stage": "llm",
        "route": "chat",
        "started_ms": 1.5,
        "remaining_ms": 9000,
        "allowed_ms": 4000,
        "elapsed_ms": 900.25,
        "outcome": "completed",
        "reason": "ok",
        "record": "r",
    }
    plain = json.dumps(step).encode()
    yield "steplog", ("a step", plain + b"\n")
    yield "steplog", ("behind a time", b"2026-11-30T10:00:00Z stdout F " + plain + b"\n")
    yield "steplog", ("wrapped", json.dumps({"log": plain.decode()}).encode() + b"\n" + plain)
    yield (
        "steplog",
        (
            "early and late",
            plain.replace(b"2026", b"0001") + b"\n" + plain.replace(b"2026-11-30", b"9999-12-31"),
        ),
    )
    yield "entries", ("an entry", encode(_ENTRY))
    yield "entries", ("no content", encode(Entry(204, (), b"", 0, 5, 3, 5)))
    yield "entries", ("a question", b'{"partition":"p","text":"a b","threshold":0.92}')
    for name, wire in {
        "a state": b'state=all&limit=10\n{"applied":true}',
        "twice": b'limit=1&limit=2\n{"applied":true,"applied":false}',
        "no number": b'limit=%D9%A3\n{"applied":1}',
        "unknown": b"what=1\n[]",
    }.items():
        yield "control", (name, wire)


def services() -> Iterator[tuple[str, Named]]:
    """What a store, Prometheus, the shared cache and a service of embeddings answer."""
    bulk = b"$%d\r\n%b\r\n" % (len(VALUE), VALUE)
    for name, wire in {
        "an entry": bulk + b":8000\r\n",
        "nothing": b"$-1\r\n:-2\r\n",
        "an entry without an end": bulk + b":-1\r\n",
        "a refusal": b"-WRONGTYPE x\r\n:5\r\n",
        "a list": b"*2\r\n$1\r\na\r\n:1\r\n:5\r\n",
        "a long one": b"$99999999\r\nx",
        "cut": bulk[:40],
    }.items():
        yield "redis", (name, wire)
    buckets = [
        {"metric": {"stage": "llm", "le": edge}, "value": [1764496800, count]}
        for edge, count in (("0.5", "3"), ("1", "4.5"), ("+Inf", "5"))
    ]
    vector = {"status": "success", "data": {"resultType": "vector", "result": buckets}, "warnings": ["a"]}
    yield "answers", ("a vector", json.dumps(vector).encode())
    yield "answers", ("an error", b'{"status":"error","error":"parse error"}')
    found = {"found": True, "entry": b64encode(encode(_ENTRY)).decode(), "age_ms": 0, "similarity": 0.95}
    yield "answers", ("found", json.dumps(found).encode())
    yield "answers", ("not found", b'{"found":false}')
    yield (
        "answers",
        ("embeddings", b'{"data":[{"index":1,"embedding":[1.0,2]},{"index":0,"embedding":[0,0.5]}]}'),
    )


def main() -> None:
    """Write them all."""
    rows: list[tuple[str, Named]] = [
        *(("requests", each) for each in requests()),
        *(("responses", each) for each in responses()),
        *(("relay", each) for each in relay()),
        *(("headers", each) for each in headers()),
        *(("sniff", each) for each in connections()),
        *(("admission", each) for each in reviews()),
        *streams(),
        *bodies(),
        *policies(),
        *others(),
        *services(),
    ]
    written: dict[str, int] = {}
    for target, (name, data) in rows:
        if len(data) <= load(target).largest and keep(target, data, name) is not None:
            written[target] = written.get(target, 0) + len(data)
    for target, size in written.items():
        print(f"{target}: {size} bytes")


if __name__ == "__main__":
    main()
