"""The two verdicts in the answer to an entry request: whether its work is complete, and whether it was closed in time."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import Retries, Route
from proxy.core.verdict import verdict_of
from proxy.core.writes import WriteEvent
from tests.dataplane.entrance import app_of, enters, inbound, tool_of
from tests.dataplane.world import FakeClient, World, response

CHUNKED: dict[str, Any] = {"Transfer_Encoding": "chunked"}
DONE = "complete; on_time"
UNDONE = "incomplete; on_time"


def said(client: FakeClient) -> tuple[str | None, str | None]:
    """Both fields of the last answer."""
    return client.field("Budget-Steps"), client.field("Budget-Verdict")


def kept(world: World, id: str = "job") -> str:
    """The verdict by the budget's own record."""
    budget = world.plane.budgets.get(id)
    assert budget is not None
    return verdict_of(budget, world.loop.now).field()


# -- where it stands -----------------------------------------------------------------------------------------------


def test_steps_and_verdict_of_a_job_that_ran_short() -> None:
    """Two of its steps were done and one was cut: the app's 200 is marked incomplete."""
    world = inbound()
    client = enters(world.entry_client(), "POST", Budget_Id="job")
    app = app_of(world)
    for path in ("/a", "/b"):
        world.client().asks("GET", f"http://tool{path}")
        tool_of(world).answers()
    world.client().asks("GET", "http://tool/c", Budget_Id="job")
    world.advance(9000)
    app.answers(b"what I have", 200)
    assert said(client) == ("total=3, completed=2, deadline_exceeded=1, uncertain=0", UNDONE)
    (entry,) = world.observed.entries
    assert (entry.steps, entry.verdict) == said(client)
    (closed,) = world.observed.budgets_closed
    assert (closed[0].field(), closed[1].total, closed[1].completed) == (UNDONE, 3, 2)


def test_no_app_can_say_it() -> None:
    """Not in its head, not in its trailers, not before its answer."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    world.client().asks("GET", "http://tool/")
    tool_of(world).breaks_off()
    forged = {"Budget_Verdict": "complete; on_time", "Budget_Steps": "total=0", "Budget_Outcome": "completed"}
    app = app_of(world).says(response(103, b"", **forged, Link="</a>"))
    wire = response(200, b"", **CHUNKED, **forged, Trailer="Budget-Verdict")
    app.says(wire + b"2\r\nok\r\n0\r\nBudget-Verdict: complete\r\nX-Sum: 1\r\n\r\n")
    assert client.statuses == [103, 200]
    assert client.received.count(b"Budget-Verdict: ") == 1
    assert said(client)[1] == UNDONE
    assert client.body.endswith(b"0\r\nX-Sum: 1\r\n\r\n")


def test_an_answer_that_passes_as_it_comes_says_it_in_trailers() -> None:
    """Its head leaves before anybody knows, and announces them."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    world.client().asks("GET", "http://tool/")
    app = app_of(world).says(response(200, b"", **CHUNKED, Content_Type="application/x-ndjson"))
    assert said(client) == (
        "total=1, completed=0, deadline_exceeded=0, in_flight=1, uncertain=0",
        "in_progress",
    )
    assert client.field("Trailer") == "Budget-Steps, Budget-Verdict"
    app.says(b"2\r\nok\r\n")
    tool_of(world).answers()
    app.says(b"0\r\nX-Sum: 1\r\n\r\n")
    trailers = client.body.partition(b"0\r\n")[2].decode().split("\r\n")
    assert trailers == [
        "X-Sum: 1",
        "Budget-Steps: total=1, completed=1, deadline_exceeded=0, uncertain=0",
        f"Budget-Verdict: {DONE}",
        "",
        "",
    ]


@pytest.mark.parametrize("length", [None, 4], ids=["chunked", "of known length"])
def test_an_answer_is_held_for_a_while(length: int | None) -> None:
    """So that its head can say it; but not for long."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    fields = CHUNKED if length is None else {"Content_Length": length}
    app = app_of(world).says(response(200, b"", **fields) + (b"2\r\nok\r\n" if length is None else b"ok"))
    world.advance(249)
    assert client.received == b""
    world.advance(1)
    assert said(client)[1] == "in_progress"
    app.says(b"0\r\n\r\n" if length is None else b"ok")
    assert (b"Budget-Verdict: complete" in client.body) is (length is None), (
        "there is no place for it behind a length"
    )
    assert world.observed.entries[0].verdict == DONE


def test_old_clients_get_it_in_the_head_or_not_at_all() -> None:
    """HTTP/1.0 has no trailers, and none are announced."""
    world = inbound()
    held, passed = world.entry_client(), world.entry_client()
    enters(held, version="1.0")
    app_of(world).says(response(200, b"", **CHUNKED) + b"2\r\nok\r\n0\r\n\r\n")
    assert (held.statuses, held.body, said(held)[1]) == ([200], b"ok", DONE)
    enters(passed, version="1.0")
    app = app_of(world).says(response(200, b"", **CHUNKED, Content_Type="application/x-ndjson"))
    app.says(b"2\r\nok\r\n0\r\n\r\n")
    assert (passed.body, passed.field("Trailer"), said(passed)[1]) == (b"ok", None, "in_progress")
    assert passed.transport.closing


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_answers_without_a_body(method: str, status: int) -> None:
    """They have a head, and that is enough."""
    world = inbound()
    client = enters(world.entry_client(), method)
    app_of(world).says(response(status, b"", Content_Length=5 if method == "HEAD" else None))
    assert (client.statuses, client.body, said(client)[1]) == ([status], b"", DONE)


def test_a_stream_that_is_cut_ends_in_its_own_form_and_says_nothing_more() -> None:
    """Its head said `in_progress`, and nothing else was promised."""
    world = inbound()
    client = enters(world.entry_client(), "POST", Budget_Id="job", Budget_Remaining_Ms=1000)
    app_of(world).says(
        response(200, b"", **CHUNKED, Content_Type="text/event-stream") + b"9\r\ndata: 1\n\n\r\n"
    )
    world.advance(1000)
    assert said(client)[1] == "in_progress"
    assert b"deadline_exceeded" in client.body
    assert not client.body.endswith(b"0\r\n\r\n")
    assert world.observed.entries[0].verdict == UNDONE


# -- what it says --------------------------------------------------------------------------------------------------


def test_a_step_that_was_repeated_and_succeeded_is_done() -> None:
    """By the app, as the same call again; by the sidecar; and another one is another."""
    world = inbound(Route("tool", retries=Retries(statuses=frozenset({503}))))
    client = enters(world.entry_client(), Budget_Id="job")
    world.client().asks("GET", "http://tool/a")
    tool_of(world).answers(status=503)
    world.advance(10)
    tool_of(world).answers()
    world.client().asks("GET", "http://other/b")
    tool_of(world).breaks_off()
    assert kept(world) == "in_progress"
    world.client().asks("GET", "http://other/b")
    tool_of(world).answers()
    app_of(world).answers()
    assert said(client)[1] == DONE
    assert "upstream_failed=1" in (said(client)[0] or "")


def test_steps_that_are_under_way_when_the_app_answers() -> None:
    """Nobody waits for them, so the job was answered before it was done, and its record goes on saying so."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    world.client().asks("GET", "http://tool/")
    app_of(world).answers()
    assert said(client) == ("total=1, completed=0, deadline_exceeded=0, in_flight=1, uncertain=0", UNDONE)
    tool_of(world).answers()
    assert kept(world) == UNDONE


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        (None, UNDONE),
        (WriteEvent.FOUND_APPLIED, DONE),
        (WriteEvent.ANSWERED, DONE),
        (WriteEvent.FOUND_ABSENT, UNDONE),
    ],
)
def test_a_write_in_doubt_leaves_a_job_incomplete_until_it_is_known_to_have_happened(
    event: WriteEvent | None, verdict: str
) -> None:
    """Found absent, it is known too, and still undone."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    world.client().asks("POST", "http://tool/orders", b"{}")
    tool_of(world).breaks_off()
    uncertain = 1
    if event is not None:
        (record,) = world.book.listed()
        world.plane.keep(record.after(event)._replace(resolved_by="test"))
        uncertain = 0
    app_of(world).answers()
    steps = f"total=1, completed=0, deadline_exceeded=0, upstream_failed=1, uncertain={uncertain}"
    assert said(client) == (steps, verdict)
    assert kept(world) == verdict


def test_a_write_that_is_resolved_after_the_job() -> None:
    """The record of the job follows; what was answered stays as it was true then."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    world.client().asks("POST", "http://tool/orders", b"{}")
    tool_of(world).breaks_off()
    app_of(world).answers()
    assert said(client)[1] == UNDONE
    (record,) = world.book.listed()
    world.plane.keep(record.after(WriteEvent.FOUND_APPLIED)._replace(resolved_by="test"))
    assert kept(world) == DONE


@pytest.mark.parametrize("how", ["cut", "broken", "left"])
def test_a_job_whose_app_gave_no_answer_is_not_done(how: str) -> None:
    """Though every step that it made is; until the entry request is repeated and answered."""
    world = inbound()
    client = enters(
        world.entry_client(), "POST", Budget_Id="job", Budget_Remaining_Ms=5000, Grpc_Timeout="1S"
    )
    world.client().asks("GET", "http://tool/")
    tool_of(world).answers()
    if how == "cut":
        world.advance(1000)
    elif how == "broken":
        app_of(world).breaks_off()
    else:
        client.leaves()
    if how != "left":
        assert said(client)[1] == UNDONE
    assert kept(world) == world.observed.entries[0].verdict == UNDONE
    again = enters(world.entry_client(), "POST", Budget_Id="job")
    app_of(world).answers()
    assert said(again)[1] == DONE
    assert kept(world) == DONE


def test_another_entry_request_does_not_make_up_for_it() -> None:
    """It is another piece of work, known by its key or its target."""
    world = inbound()
    enters(world.entry_client(), "POST", "/one", Budget_Id="job")
    app_of(world).breaks_off()
    other = enters(world.entry_client(), "POST", "/two", Budget_Id="job")
    app_of(world).answers()
    assert said(other)[1] == UNDONE
    again = enters(world.entry_client(), "POST", "/one", Budget_Id="job")
    app_of(world).answers()
    assert said(again)[1] == DONE


# -- jobs of others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["head", "trailers", "trailers of a stream"])
@pytest.mark.parametrize("theirs", ["incomplete; on_time", "incomplete", "complete; late", "in_progress"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_delegated_job_that_is_incomplete_makes_this_one_incomplete(
    method: str, theirs: str, where: str
) -> None:
    """Its own caller sees what was said of it, wherever that stands in the answer."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    caller = world.client().asks(method, "http://agent-b/", b"{}" if method == "POST" else b"")
    theirs_line = f"Budget-Verdict: {theirs}\r\n".encode()
    if where == "head":
        tool_of(world).answers(Budget_Verdict=theirs, Budget_Steps="total=1", Budget_Outcome="x")
    else:
        kind = "application/x-ndjson" if where == "trailers of a stream" else "text/plain"
        head = response(200, b"", **CHUNKED, Content_Type=kind, Budget_Verdict="in_progress")
        if where == "trailers":
            tool_of(world).says(head + b"2\r\nok\r\n0\r\n" + theirs_line + b"\r\n")
        else:
            tool_of(world).says(head + b"2\r\nok\r\n")
            tool_of(world).says(b"0\r\n" + theirs_line + b"\r\n")
    assert theirs_line in caller.received
    assert b"Budget-Outcome: x" not in caller.received
    partial = theirs.startswith("incomplete")
    assert (world.record.outcome, world.record.partial) == ("completed", partial)
    app_of(world).answers()
    assert said(client)[1] == (UNDONE if partial else DONE)


def test_a_tool_of_the_outside_world_says_nothing_of_jobs() -> None:
    """What it says under these names is not believed, and not passed on."""
    world = inbound()
    world.dialer.inside = False
    client = enters(world.entry_client(), Budget_Id="job")
    caller = world.client().asks("GET", "http://api.example.com/")
    head = response(200, b"", **CHUNKED, Budget_Verdict="incomplete")
    tool_of(world).says(head + b"2\r\nok\r\n0\r\nBudget-Verdict: incomplete\r\n\r\n")
    assert b"Verdict" not in caller.received
    app_of(world).answers()
    assert said(client)[1] == DONE


def test_an_answer_that_is_shared_is_as_incomplete_for_all() -> None:
    """A call that has joined an equal one in flight hears the same of the delegated job."""
    world = inbound()
    enters(world.entry_client(), Budget_Id="job")
    callers = [
        world.client().asks("POST", "http://agent-b/", b"{}", Idempotency_Key="k", Budget_Id="job")
        for _ in range(2)
    ]
    tool_of(world).answers(Budget_Verdict="incomplete; on_time")
    assert [caller.field("Budget-Verdict") for caller in callers] == ["incomplete; on_time"] * 2
    assert [record.partial for record in world.records] == [True, True]
    app_of(world).answers()
    assert world.observed.entries[0].verdict == UNDONE


@pytest.mark.parametrize("theirs", ["incomplete; on_time", "complete; on_time"])
def test_a_delegated_job_whose_answer_comes_late(theirs: str) -> None:
    """Both sides cut it at the same time, say: what the other one says a moment later is heard as well."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Id="job")
    caller = world.client().asks("POST", "http://agent-b/", b"{}", Budget_Id="job", Grpc_Timeout="1S")
    world.advance(1000)
    assert caller.statuses == [424]
    tool_of(world).answers(status=424 if theirs.startswith("in") else 200, Budget_Verdict=theirs)
    (record,) = world.book.listed()
    assert record.state == "reported"
    app_of(world).answers()
    assert said(client) == ("total=1, completed=0, deadline_exceeded=1, uncertain=0", theirs)
