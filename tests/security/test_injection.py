"""Nothing that arrives becomes a line, a header or an event of its own in what is sent, logged or recorded."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.config import ConfigError, parse
from proxy.core.degrading import Degraded
from proxy.core.policy import Policy, Route
from proxy.core.upstream import Upstream
from proxy.dataplane.answers import annotation, error_payload, outcome_item
from proxy.observe.lines import event_line, step_line
from proxy.wire.eventstream import error_event
from proxy.wire.render import UnsafeLine, line, request_head, response_head
from tests.admin.jobs import step
from tests.config.keys import ROWS, read_alone
from tests.dataplane.doubts import doubt, questions, verifying
from tests.dataplane.world import World, request

BREAKS = ["a\r\nX-Injected: 1", "a\nX-Injected: 1", "a\rX-Injected: 1", "a\0b", "\r\n\r\nGET / HTTP/1.1", "a\x0b", "a\x85X: 1", "a\u2028X: 1", "č\u010aX: 1"]  # fmt: skip
"""The last ones are no line ends to HTTP, but are to some readers of text; and one loses its upper bits to become one."""

TEXTS = st.text(max_size=60) | st.sampled_from(BREAKS)
OCTETS = st.binary(max_size=60) | st.sampled_from([each.encode() for each in BREAKS])
_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t\x20-\x7e\x80-\xff]*\Z")


def answers(received: bytes, *methods: str) -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
    """What another reader of HTTP makes of what a client got; it fails on what is no sequence of answers."""
    connection, found = h11.Connection(h11.CLIENT), []
    connection.receive_data(received)
    for method in methods:
        connection.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
        connection.send(h11.EndOfMessage())
        body = b""
        status, fields = 0, []
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                status = event.status_code
                fields = [(bytes(name), bytes(value)) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                found.append((status, fields, body))
                break
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            break
        connection.start_next_cycle()
    return found


def sound(head: bytes) -> None:
    """Every line of a head is a field, whichever way its reader finds the ends of lines."""
    first, *lines = head.partition(b"\r\n\r\n")[0].removesuffix(b"\r\n").split(b"\r\n")
    assert re.fullmatch(rb"[\t\x20-\x7e\x80-\xff]+", first), first  # RFC 9112 §4 lets a tab stand in a reason
    for each in lines:
        assert _LINE.match(each), each
        assert not each.lower().startswith(b"x-injected"), each


# -- the functions that render ---------------------------------------------------------------------------------------------


@given(TEXTS, TEXTS, OCTETS, OCTETS)
@example("GET", "/", b"X", b"a\r\nX-Injected: 1")
def test_a_request_head_is_one_or_none(method: str, target: str, name: bytes, value: bytes) -> None:
    """It says no rather than write a line that nobody meant."""
    try:
        head = request_head(method, target, [line(name, value)])
    except UnsafeLine:
        return
    assert head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == 3
    assert head.partition(b"\r\n")[0].count(b" ") == 2
    assert b"\0" not in head


@given(st.integers(100, 999), TEXTS | st.none(), OCTETS, OCTETS)
def test_a_response_head_is_one_or_none(status: int, reason: str | None, name: bytes, value: bytes) -> None:
    """The reason phrase of an upstream among it."""
    try:
        head = response_head(status, reason, [line(name, value)])
    except UnsafeLine:
        return
    assert head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == 3
    assert b"\0" not in head


@given(TEXTS, TEXTS, TEXTS)
def test_an_annotation_with_a_break_in_it_is_not_sent(budget: str, outcome: str, record: str) -> None:
    """Ids and outcomes are words; if one ever were not, no head would come of it."""
    try:
        item = outcome_item(outcome, reason=outcome, effect="none")
        lines = annotation(budget, 1, 1, 1, item, record)
        head = response_head(200, None, lines)
    except (UnsafeLine, UnicodeEncodeError):
        return
    assert head.count(b"\n") == len(lines) + 2


@given(TEXTS, TEXTS, TEXTS)
def test_the_event_that_ends_a_stream_is_one(outcome: str, reason: str, detail: str) -> None:
    """An empty line in it would be its end, and the beginning of another one."""
    event = error_event(error_payload(outcome, reason, detail, "none", "sent", "id"))
    assert (event.count(b"\n"), event.count(b"\r")) == (3, 0)
    assert event.isascii()
    assert json.loads(event.partition(b"data: ")[2])["error"]["message"] == detail


@given(st.fixed_dictionaries(dict.fromkeys(("target", "stage", "method", "budget_id", "record", "reason", "route", "unit", "rung"), TEXTS)))  # fmt: skip
def test_a_log_line_is_one_line_of_ascii(texts: dict[str, str]) -> None:
    """Whatever the caller has put in a target, a stage, a method or a key."""
    record = step("run-1", 1, 0.0, 1.0)._replace(
        **texts, degraded=Degraded(1, texts["rung"], "time", texts["stage"])
    )
    text = step_line(record, "2026-01-01T00:00:00.000Z")
    assert (text.count("\n"), text.endswith("\n"), text.isascii()) == (1, True, True)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text) is None
    shown = json.loads(text)
    assert {name: shown[name] for name in texts} == texts


@given(TEXTS, st.dictionaries(st.text(max_size=10), TEXTS | st.lists(TEXTS, max_size=3), max_size=4))
def test_a_log_event_is_one_line_of_ascii(name: str, fields: dict[str, Any]) -> None:
    text = event_line(name, "t", fields)
    assert (text.count("\n"), text.isascii()) == (1, True)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text) is None


# -- the whole data plane --------------------------------------------------------------------------------------------------

FIELDS = ["Budget-Id", "Budget-Remaining-Ms", "Budget-Stage", "Budget-Phase", "Budget-Depth", "Budget-Retry", "Budget-Reserve-Ms", "Idempotency-Key", "traceparent", "X-Stainless-Timeout", "grpc-timeout", "Via", "Host", "X-Other", "Accept", "Content-Type", "Cookie", "Proxy-Authorization", "Connection"]  # fmt: skip


@settings(max_examples=100)
@given(
    st.dictionaries(st.sampled_from(FIELDS), OCTETS, max_size=4),
    st.sampled_from(["GET", "POST", "CONNECT", "HEAD"]),
)
@example({"Budget-Id": b"a\x0bX-Injected: 1"}, "POST")
def test_what_a_client_says_of_itself_breaks_no_answer(fields: dict[str, bytes], method: str) -> None:
    """Each head that comes back is sound, and so is each that goes on."""
    world = World()
    lines = [
        f"{method} http://tool/ HTTP/1.1".encode() if method != "CONNECT" else b"CONNECT tool:443 HTTP/1.1"
    ]
    given_names = {name.lower() for name in fields}
    lines += [] if "host" in given_names else [b"Host: tool"]
    # A line end of its own is its own line: what is asked here is whether anything else becomes one.
    lines += [name.encode() + b": " + re.sub(rb"[\r\n]", b"", value) for name, value in fields.items()]
    client = world.client().sends(b"\r\n".join([*lines, b"", b""]))
    world.loop.settle()
    for upstream in world.upstreams:
        if upstream.received and method != "CONNECT":
            sound(upstream.received)
            upstream.answers(b"ok")
    world.loop.settle()
    if client.received:
        sound(client.received)
    for record in world.records:
        assert step_line(record, "t").count("\n") == 1


@given(OCTETS)
@example(b"run\r\nX-Injected: 1:1000")
def test_a_user_name_of_the_proxy_becomes_no_header(pair: bytes) -> None:
    """It is the name of a job, comes in Base64, and goes back as `Budget-Id`."""
    world = World()
    credentials = base64.b64encode(pair).decode()
    client = world.client().sends(request(Proxy_Authorization=f"Basic {credentials}"))
    for upstream in world.upstreams:
        sound(upstream.received)
        upstream.answers(b"ok")
    sound(client.received)
    assert len(answers(client.received, "GET")) == 1


REASON = st.binary(max_size=30).map(lambda octets: re.sub(rb"[\r\n]", b"", octets))


@settings(max_examples=100)
@given(REASON, OCTETS, OCTETS)
@example(b"OK\x00", b"X", b"v")
@example(b"\x1b[31m", b"X-A", b"\x85X-Injected: 1")
def test_what_an_upstream_says_breaks_no_answer(reason: bytes, name: bytes, value: bytes) -> None:
    """Reason, names, values: passed on sound, or answered with 502. A line that it sends itself is its own field."""
    world = World()
    client = world.client().asks("GET", "http://tool/")
    field = b"X-" + re.sub(rb"[\r\n]", b"", name) + b": " + re.sub(rb"[\r\n]", b"", value)
    world.upstream().says(b"HTTP/1.1 200 " + reason + b"\r\n" + field + b"\r\nContent-Length: 2\r\n\r\nok")
    world.loop.settle()
    sound(client.received.replace(b"X-Injected", b"X-Own"))
    assert [status for status, _, _ in answers(client.received, "GET")] in ([200], [502])


@given(OCTETS)
def test_a_trailer_of_an_upstream_breaks_no_answer(value: bytes) -> None:
    world = World()
    client = world.client().asks("GET", "http://tool/")
    value = re.sub(rb"[\r\n]", b"", value)
    world.upstream().says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: " + value + b"\r\n\r\n"
    )
    world.loop.settle()
    found = answers(client.received, "GET")
    assert found == [] or found[0][0] == 502 or found[0][2] == b"ok"
    tail = client.received.partition(b"\r\n\r\n")[2]
    assert b"\r\n\r\n" not in tail.removesuffix(b"\r\n\r\n")


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40))
@example("k&key=other")
@example("../../admin?x=1#")
@example("%0d%0aX-Injected:%201")
def test_a_key_in_the_question_about_a_write_stays_in_its_hole(key: str) -> None:
    """It is one value of the query: no further parameter, no other path, no line."""
    world = verifying()
    doubt(world, key)
    world.loop.settle()
    [head] = questions(world)
    sound(head)
    target = head.split(b" ")[1].decode()
    path, _, query = target.partition("?")
    assert (path, query.count("&"), query.count("="), query.count("#")) == ("/orders", 0, 1, 0)


@pytest.mark.parametrize("path", ["/a%0d%0aX-Injected:%201", "/%0a", "/a%00", "/%2e%2e/x", "/?q=%0d%0aX: 1"])
@pytest.mark.parametrize("prefix", [True, False])
def test_escapes_in_a_target_stay_escapes(path: str, prefix: bool) -> None:
    """They are passed on as they came, by a base-URL route too; undone, they would be lines."""
    world = World(Policy(routes=(Route("api", prefix="/api", upstream=Upstream("http", "tool", 80)),)))
    target = f"/api{path}" if prefix else f"http://tool{path}"
    path = path.replace(" ", "%20")
    client = world.client().asks(
        "GET", target.replace(" ", "%20"), Host="127.0.0.1:10800" if prefix else "tool"
    )
    assert world.upstream().received.startswith(f"GET {path} HTTP/1.1\r\n".encode())
    sound(world.upstream().received)
    world.upstream().answers()
    assert client.statuses == [200]


def test_what_was_sent_of_a_budget_under_its_names_is_never_passed_on() -> None:
    """Nor in other spellings of them."""
    world = World()
    stated: dict[str, Any] = {"bUdGeT-iD": "run", "BUDGET-Other": "x", "Budget-Verdict": "complete"}
    world.client().sends(request(**stated))
    head = world.upstream().received.lower()
    assert b"budget-other" not in head
    assert b"budget-verdict" not in head
    assert head.count(b"budget-id") == 1


# -- the policy's own texts ------------------------------------------------------------------------------------------------

MAY_HOLD_LINES = {"json", "body", "text", "truncate_mark"}
"""What is of a body, and not of a head: JSON, texts of fixed answers, the mark in a stream's text (which JSON escapes)."""


@pytest.mark.parametrize("evil", BREAKS[:5])
def test_no_key_of_a_policy_takes_a_line_break(evil: str) -> None:
    """Names of routes, of stages and of headers, hosts, paths, globs: whatever may stand in a head one day."""
    for key, row in ROWS.items():
        if key.rpartition(".")[2].strip("[]") in MAY_HOLD_LINES or ".json" in key:
            continue
        for text in (
            json.dumps(evil),
            json.dumps([evil]),
            json.dumps({evil: "1s"}),
            json.dumps({"X-A": evil}),
        ):
            value, faults = read_alone(row.reader, text)
            assert faults, f"{key} takes {text}: {value}"


def test_a_header_of_a_rung_is_one_header() -> None:
    """`set.headers`, and the headers of a fixed answer."""
    for where in ("set: {headers: {X-A: %s}}", "answer: {status: 200, text: hi, headers: {X-A: %s}}"):
        with pytest.raises(ConfigError):
            parse(
                f"fallback: {{effect: read, ladder: [{{name: a}}, {{name: b, {where % json.dumps(BREAKS[0])}}}]}}"
            )
