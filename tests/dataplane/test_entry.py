"""Entry requests: what they open, what the app is told, when they are cut, and which calls belong to them."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.policy import LedgerBounds, Mode, OnMissing
from proxy.core.units import MILLISECOND
from tests.dataplane.entrance import APP, app_of, enters, inbound
from tests.dataplane.world import request, response

# -- what it opens, and what the app is told -----------------------------------------------------------------------


def test_the_app_is_told_the_budget_of_the_job() -> None:
    """Its id, what is left of all of it, and how deep it is."""
    world = inbound()
    enters(world.entry_client(), Budget_Id="job", Budget_Remaining_Ms=4000, Budget_Depth=2)
    app = app_of(world)
    assert (app.origin.host, app.origin.port) == (APP.host, APP.port)
    assert app.heads[0].startswith(b"GET /run HTTP/1.1\r\nHost: agent\r\n")
    told = [app.field(name) for name in ("Budget-Id", "Budget-Remaining-Ms", "Budget-Depth")]
    assert told == ["job", "4000", "2"]
    assert (world.observed.budgets_opened, world.plane.budgets.open) == (1, 1)


def test_without_a_header_the_default_holds() -> None:
    """Under an id that nobody else has."""
    world = inbound()
    client = enters(world.entry_client())
    told = app_of(world).field("Budget-Id")
    assert told is not None
    assert told.startswith("w-")
    assert app_of(world).field("Budget-Remaining-Ms") == "10000"
    app_of(world).answers()
    assert client.field("Budget-Id") == told


@pytest.mark.parametrize("on_missing", [OnMissing.REFUSE, OnMissing.PASS])
def test_without_a_header_it_is_as_the_policy_says(on_missing: OnMissing) -> None:
    """Refused, or passed on without any budget; a stated one is taken either way."""
    world = inbound(on_missing=on_missing)
    client = enters(world.entry_client())
    if on_missing is OnMissing.REFUSE:
        assert client.statuses == [403]
        assert b"send Budget-Remaining-Ms" in client.body
        assert world.upstreams == []
    else:
        assert b"budget-" not in app_of(world).received.lower()
        world.advance(60_000)
        app_of(world).answers()
        assert client.statuses == [200]
        assert client.field("Budget-Verdict") is None
    assert world.observed.budgets_opened == 0
    stated = enters(world.entry_client(), Budget_Remaining_Ms=1000)
    app_of(world).answers()
    assert stated.field("Budget-Verdict") == "complete; on_time"


def test_nothing_that_the_caller_says_of_budgets_passes() -> None:
    """Not unchanged, and not under other spellings of the same name."""
    world = inbound()
    said: dict[str, Any] = {
        "Budget_Id": "job",
        "BUDGET_REMAINING_MS": 60_000,
        "Budget_Reserve_Ms": 77,
        "Budget_Stage": "llm",
        "Budget_Phase": "cleanup",
        "Budget_Retry": "confirmed",
        "Budget_Verdict": "complete",
        "budget_anything": "x",
        "Connection": "budget-id, keep-alive",
    }
    enters(world.entry_client(), **said)
    lines = app_of(world).heads[0].lower().split(b"\r\n")
    told = sorted(line for line in lines if line.startswith(b"budget-"))
    assert told == [b"budget-depth: 0", b"budget-id: job", b"budget-remaining-ms: 60000"]


def test_what_is_left_is_told_as_of_the_moment_it_is_sent() -> None:
    """The wait for a connection counts, and the hop's allowance is taken off; it is never negative."""
    world = inbound(hop_allowance=50 * MILLISECOND)
    world.dialer.held = True
    enters(world.entry_client(), Budget_Remaining_Ms=1000)
    world.advance(100)
    world.dialer.release()
    assert app_of(world).field("Budget-Remaining-Ms") == "850"
    enters(world.entry_client(), Budget_Remaining_Ms=1020)
    world.advance(1000)
    world.dialer.release()
    assert app_of(world).field("Budget-Remaining-Ms") == "0"


@pytest.mark.parametrize(("stated", "left"), [(1000, "850"), (None, "10000")])
def test_half_of_the_round_trip_is_taken_off_what_is_stated(stated: int | None, left: str) -> None:
    """And off nothing else: a default has not travelled."""
    world = inbound(measure=True, transit_allowance=50 * MILLISECOND)
    client = world.entry_client()
    client.socket.round_trip = 200_000
    enters(client, Budget_Remaining_Ms=stated)
    assert app_of(world).field("Budget-Remaining-Ms") == left


def test_no_round_trip_is_taken_off_unless_the_policy_says_so() -> None:
    """The kernel's figure is not asked for."""
    world = inbound()
    client = world.entry_client()
    client.socket.round_trip = 200_000
    enters(client, Budget_Remaining_Ms=1000)
    assert app_of(world).field("Budget-Remaining-Ms") == "1000"


@pytest.mark.parametrize("agent", ["kube-probe/1.31", "GoogleHC/1.0", "ELB-HealthChecker/2.0"])
def test_probes_open_no_budget(agent: str) -> None:
    """They ask whether the app is alive, as often as they like."""
    world = inbound(on_missing=OnMissing.REFUSE)
    client = enters(world.entry_client(), User_Agent=agent)
    assert b"budget-" not in app_of(world).received.lower()
    app_of(world).answers()
    assert client.statuses == [200]
    assert world.observed.budgets_opened == 0
    assert world.observed.entries[0].budget_id is None


@pytest.mark.parametrize(
    "fields",
    [
        {"Budget_Remaining_Ms": "-1"},
        {"Budget_Remaining_Ms": "1_000"},
        {"Budget_Id": "no spaces"},
        {"Budget_Depth": "deep"},
        {"Budget_Phase": "play"},
    ],
)
def test_a_header_that_cannot_be_read_is_refused(fields: dict[str, Any]) -> None:
    """And named, and nothing is opened or sent."""
    world = inbound()
    client = enters(world.entry_client(), "POST", **fields)
    assert client.statuses == [400]
    assert next(iter(fields)).replace("_", "-") in client.body.decode()
    assert (world.upstreams, world.observed.budgets_opened) == ([], 0)
    assert client.field("Connection") == "close"
    assert client.transport.eof_sent


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (b"CONNECT tool:443 HTTP/1.1\r\nHost: tool:443\r\n\r\n", b"no proxy"),
        (b"GET ftp://agent/ HTTP/1.1\r\nHost: agent\r\n\r\n", b"absolute form"),
        (b"GET http://[bad HTTP/1.1\r\nHost: agent\r\n\r\n", b"is not a host"),
        (b"GET http://u:p@agent/ HTTP/1.1\r\nHost: agent\r\n\r\n", b"user information"),
    ],
)
@pytest.mark.parametrize("mode", Mode)
def test_a_target_that_leads_nowhere_is_refused(wire: bytes, says: bytes, mode: Mode) -> None:
    """In `mode: observe` too: there is nowhere to let it pass to."""
    world = inbound(mode=mode)
    client = world.entry_client().sends(wire)
    assert client.statuses == [400]
    assert says in client.body
    assert world.upstreams == []
    client.ends()
    world.advance(10_000)
    assert client.transport.lost


def test_absolute_form_and_old_clients() -> None:
    """The name in the target counts, and who gives none gets the app's own."""
    world = inbound()
    world.entry_client().sends(b"GET http://name:81/a?b HTTP/1.1\r\nHost: other\r\n\r\n")
    assert app_of(world).heads[0].startswith(b"GET /a?b HTTP/1.1\r\nHost: name:81\r\n")
    world.entry_client().sends(b"OPTIONS * HTTP/1.0\r\n\r\n")
    assert app_of(world).heads[0].startswith(b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n")


# -- when it is cut ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "status", "effect"), [("GET", 504, "none"), ("POST", 424, "uncertain")])
def test_it_is_cut_at_the_end_of_the_total(method: str, status: int, effect: str) -> None:
    """The reserve is the app's to answer in; at the end the app sees its connection close."""
    world = inbound()
    client = enters(world.entry_client(), method, Budget_Remaining_Ms=4000)
    world.advance(3999)
    assert client.received == b""
    world.advance(1)
    assert client.statuses == [status]
    assert f"effect={effect}" in (client.field("Budget-Outcome") or "")
    assert client.field("Budget-Verdict") == "incomplete; on_time"
    assert client.field("Budget-Allowed-Ms") == "4000"
    assert app_of(world).closed
    (entry,) = world.observed.entries
    assert (entry.outcome, entry.reason, entry.late_ms) == ("deadline_exceeded", "budget_remaining", 0.0)
    assert world.plane.budgets.open == 0
    assert (world.records, world.plane.in_flight) == ([], 0)


def test_nothing_is_left_of_a_spent_budget() -> None:
    """It is refused before a byte of it reaches the app."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Remaining_Ms=0)
    assert client.statuses == [403]
    assert (client.field("Budget-Verdict") or "").startswith("incomplete")
    assert world.upstreams == []
    assert len(world.observed.budgets_closed) == 1


def test_other_limits_cut_it_sooner() -> None:
    """The caller's own timer, say; the budget is not shortened by it."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Remaining_Ms=4000, Grpc_Timeout="1S")
    world.advance(1000)
    assert client.statuses == [504]
    assert (world.observed.entries[0].reason, world.observed.entries[0].total_ms) == ("foreign_limit", 4000.0)


@pytest.mark.parametrize(
    ("kept", "verdict"), [(10, "incomplete; on_time"), (5000, "incomplete; late")], ids=["a moment", "long"]
)
def test_a_cut_that_comes_late_is_late(kept: int, verdict: str) -> None:
    """A timer wakes a moment after its time, and that is no lateness of the job's; a machine that hangs is."""
    world = inbound()
    client = enters(world.entry_client(), Budget_Remaining_Ms=1000)
    world.loop.now += (1000 + kept) * MILLISECOND
    world.advance(0)
    assert client.field("Budget-Verdict") == verdict
    assert world.observed.entries[0].late_ms == kept
    assert world.observed.budgets_closed[0][0].field() == verdict


def test_observing_cuts_nothing_and_says_so() -> None:
    """Neither at the end of the total nor for want of a budget or depth."""
    world = inbound(mode=Mode.OBSERVE, depth=1)
    client = enters(world.entry_client(), Budget_Remaining_Ms=1000)
    world.advance(3000)
    app_of(world).answers()
    assert client.statuses == [200]
    assert "would=cut" in (client.field("Budget-Outcome") or "")
    assert client.field("Budget-Verdict") == "complete; late"
    refused: list[dict[str, Any]] = [
        {"Budget_Depth": 2},
        {"Budget_Remaining_Ms": 0},
        {"Budget_Remaining_Ms": "x"},
    ]
    for fields in refused:
        client = enters(world.entry_client(), **fields)
        app_of(world).answers()
        assert client.statuses == [200]
        assert "would=refuse" in (client.field("Budget-Outcome") or "")
    assert [entry.would for entry in world.observed.entries] == ["cut", "refuse", "refuse", "refuse"]
    assert world.plane.budgets.open == 0


def test_observing_lets_pass_what_has_no_budget() -> None:
    """Though `on_missing: refuse` would not, nor a ledger that is full."""
    world = inbound(mode=Mode.OBSERVE, on_missing=OnMissing.REFUSE, bounds=LedgerBounds(budgets=1))
    held = enters(world.entry_client(), Budget_Id="first", Budget_Remaining_Ms=1000)
    app = app_of(world)
    others: list[dict[str, Any]] = [{}, {"Budget_Id": "second", "Budget_Remaining_Ms": 1000}]
    for fields in others:
        client = enters(world.entry_client(), **fields)
        app_of(world).answers()
        assert client.statuses == [200]
    app.answers()
    assert held.statuses == [200]
    assert [entry.would for entry in world.observed.entries] == ["refuse", "refuse", None]


def test_a_ledger_that_is_full_refuses() -> None:
    """To forget an open budget would be to let it grow."""
    world = inbound(bounds=LedgerBounds(budgets=1))
    enters(world.entry_client(), Budget_Id="first")
    turned_away = enters(world.entry_client(), Budget_Id="second")
    assert (turned_away.statuses, turned_away.field("Retry-After")) == ([503], "1")
    app_of(world).answers()
    enters(world.entry_client(), Budget_Id="second")
    assert app_of(world).field("Budget-Id") == "second"


# -- who leaves, and what breaks -----------------------------------------------------------------------------------


def test_the_app_sees_that_the_client_has_left() -> None:
    """At once; nobody waits for the answer any more."""
    world = inbound()
    client = enters(world.entry_client(), "POST", Budget_Id="job")
    client.leaves()
    assert app_of(world).closed
    (entry,) = world.observed.entries
    assert (entry.outcome, entry.effect, entry.verdict) == ("client_gone", "uncertain", "incomplete; on_time")
    assert world.plane.budgets.open == 0


@pytest.mark.parametrize(("method", "status"), [("GET", 502), ("POST", 424)])
def test_an_app_that_breaks_off(method: str, status: int) -> None:
    """Its client is told what is known; the sidecar repeats nothing of a job."""
    world = inbound()
    client = enters(world.entry_client(), method)
    app_of(world).breaks_off()
    assert client.statuses == [status]
    assert client.field("Budget-Verdict") == "incomplete; on_time"
    assert len(world.upstreams) == 1


def test_an_app_that_is_not_there() -> None:
    """Nothing was sent, so that even a write may be repeated."""
    world = inbound()
    world.dialer.refused.add(APP.host)
    client = enters(world.entry_client(), "POST")
    assert client.statuses == [502]
    assert "effect=none; retry=safe" in (client.field("Budget-Outcome") or "")
    assert client.field("Budget-Steps") == "total=0, completed=0, deadline_exceeded=0, uncertain=0"
    assert client.field("Budget-Verdict") == "incomplete; on_time"


def test_an_app_that_answers_early() -> None:
    """Before it has read the body: the answer is passed on, and neither connection is used again."""
    world = inbound()
    client = world.entry_client().sends(
        request("POST", "/run", b"01234", Host="agent", Content_Length=100_000)
    )
    app_of(world).answers(b"too large", 413)
    assert client.statuses == [413]
    assert client.field("Budget-Verdict") == "complete; on_time"
    assert client.field("Connection") == "close"
    assert app_of(world).closed


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_job_is_never_begun_twice(method: str) -> None:
    """An app that hangs up on a connection that was used before may have done all of it; one that lay idle is not used."""
    world = inbound()
    client = enters(world.entry_client(), "GET", "/one")
    app_of(world).answers()
    enters(client, method, "/two")
    assert len(world.upstreams) == 1
    app_of(world).ends()
    assert client.statuses == [200, 502 if method == "GET" else 424]
    enters(client, "GET", "/three")
    app_of(world).answers()
    assert len(world.upstreams) == 2
    world.advance(1001)
    enters(client, method, "/four")
    assert len(world.upstreams) == 3


def test_requests_one_after_the_other_share_connections() -> None:
    """On both sides; each is a job of its own."""
    world = inbound()
    client = world.entry_client()
    for number in range(3):
        enters(client, "POST", f"/{number}")
        app_of(world).answers(b"%d" % number)
    assert len(world.upstreams) == 1
    assert len({entry.budget_id for entry in world.observed.entries}) == 3
    assert world.observed.budgets_opened == len(world.observed.budgets_closed) == 3


def test_the_end_of_the_sidecar() -> None:
    """An entry request that is open then is told so, and its job is not done."""
    world = inbound()
    client = enters(world.entry_client())
    world.plane.drain()
    assert client.received == b""
    world.plane.close()
    world.advance(0)
    assert client.statuses == [504]
    assert "shutting_down" in (client.field("Budget-Outcome") or "")
    assert client.field("Budget-Verdict") == "incomplete; on_time"


def test_upgrades_and_standing_ears() -> None:
    """They are no jobs, unless they state a budget: then they end with it."""
    world = inbound()
    wants: dict[str, Any] = {"Upgrade": "websocket", "Connection": "Upgrade"}
    agreed = response(101, b"", Upgrade="websocket", Connection="Upgrade", Budget_Verdict="complete")
    ear, held = world.entry_client(), world.entry_client()
    enters(ear, **wants)
    app_of(world).says(agreed)
    enters(held, **wants, Budget_Remaining_Ms=1000)
    app_of(world).says(agreed)
    assert (ear.statuses, ear.field("Budget-Verdict")) == ([101], None)
    assert (held.statuses, held.field("Budget-Verdict")) == ([101], "in_progress")
    ear.sends(b"ping")
    assert world.upstream(0).received.endswith(b"ping")
    world.advance(999)
    assert [client.transport.lost for client in (ear, held)] == [False, False]
    world.advance(1)
    assert [client.transport.lost for client in (ear, held)] == [False, True]
    (entry,) = world.observed.entries
    assert (entry.outcome, entry.verdict) == ("deadline_exceeded", "incomplete; on_time")
    ear.ends()
    world.upstream(0).ends()
    assert world.observed.entries[1].budget_id is None
    assert (world.records, world.plane.relays) == ([], set())
