"""A route with a ladder: which rung answers, what the upstream is sent, what the caller gets, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.core.calls import Outcome, Phase, Would
from proxy.core.degrading import Change, Rung, Why
from proxy.core.json_path import parse
from proxy.core.policy import BudgetDefaults, Mode, Retries, Share
from proxy.core.units import MILLISECOND, SECOND
from tests.dataplane.laddered import (
    APOLOGY,
    ASKED,
    CACHED,
    FAST,
    FULL,
    MINIMAL,
    asks,
    laddered,
    sent,
)
from tests.dataplane.world import World


def _last(world: World) -> tuple[str | None, int, str | None]:
    record = world.observed.records[-1]
    return (
        record.rung,
        record.degraded.level if record.degraded else 0,
        record.degraded.why if record.degraded else None,
    )


# -- the rung that fits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_ms", "rung", "level", "host", "body"),
    [
        (800, "full", 0, "model", ASKED),
        (500, "full", 0, "model", ASKED),
        (499, "fast", 1, "model", ASKED | {"model": "mini", "max_tokens": 300}),
        (300, "fast", 1, "model", ASKED | {"model": "mini", "max_tokens": 300}),
        (200, "minimal", 2, "small", ASKED | {"model": "small"}),
    ],
)
def test_the_highest_rung_that_fits_is_sent(
    left_ms: int, rung: str, level: int, host: str, body: object
) -> None:
    world = laddered()
    client = asks(world.client(), left_ms)
    assert world.upstream().origin.host == host
    assert sent(world) == body
    assert int(world.upstream().field("Content-Length") or "") == len(
        world.upstream().received.rpartition(b"\r\n\r\n")[2]
    )
    world.upstream().answers(b'{"id":1}')
    assert client.statuses == [200]
    assert client.field("Budget-Degraded") == (f"level={level}; rung={rung}; reason=time" if level else None)
    assert _last(world) == (rung, level, Why.TIME if level else None)


def test_with_next_to_nothing_left_the_apology_is_given_and_nobody_is_asked() -> None:
    world = laddered()
    client = asks(world.client(), 1)
    assert client.statuses == [503]
    assert client.body == b'{"error":{"type":"overloaded"}}'
    assert client.field("Budget-Degraded") == "level=4; rung=sorry; reason=time"
    assert client.field("x-should-retry") == "false"
    assert world.dialer.asked == 0
    record = world.observed.records[-1]
    assert (record.outcome, record.phase, record.tries, record.status) == (
        Outcome.COMPLETED,
        Phase.NOT_SENT,
        0,
        503,
    )


def test_on_a_spent_budget_the_apology_is_given_and_nobody_is_asked() -> None:
    world = laddered()
    client = asks(world.client(), 0)
    assert client.statuses == [503]
    assert client.field("Budget-Degraded") == "level=4; rung=sorry; reason=time"
    assert world.dialer.asked == 0


def test_stage_and_reserve_count() -> None:
    stages = BudgetDefaults(
        default=SECOND, reserve=200 * MILLISECOND, stages=(Share("llm", 400 * MILLISECOND),)
    )
    world = laddered(budget=stages, stage="llm")
    client = asks(world.client(), 1000)
    world.upstream().answers()
    assert client.field("Budget-Degraded") == "level=1; rung=fast; stage=llm; reason=time"
    asks(world.client(), 1000)
    assert _last(world)[0] == "fast"


def test_time_spent_in_the_queue_counts() -> None:
    world = laddered(concurrency=1)
    first, second = asks(world.client(), 900), asks(world.client(), 900)
    assert len(world.upstreams) == 1
    world.advance(450)
    world.upstream().answers()
    assert first.field("Budget-Degraded") is None
    assert sent(world)["model"] == "mini"
    world.upstreams[-1].answers()
    assert second.field("Budget-Degraded") == "level=1; rung=fast; reason=time"


def test_a_call_without_any_limit_takes_the_first_rung() -> None:
    world = laddered(
        policy={}, budget=BudgetDefaults(on_missing=BudgetDefaults().on_missing, default=3600 * SECOND)
    )
    world.client().asks("POST", "http://model/", b"{}")
    assert sent(world) == {}


def test_where_nothing_fits_the_call_is_refused_and_says_so() -> None:
    world = laddered(FULL, FAST)
    client = asks(world.client(), 100)
    assert client.statuses == [403]
    assert b"No rung of the ladder" in client.body
    assert world.observed.records[-1].reason == "below_min_start"
    assert world.dialer.asked == 0


def test_min_start_counts_as_the_least_that_a_rung_needs() -> None:
    world = laddered(Rung("full"), APOLOGY, min_start=300 * MILLISECOND)
    client = asks(world.client(), 200)
    assert (client.statuses, world.dialer.asked) == ([503], 0)


# -- what is changed ------------------------------------------------------------------------------------------------


def test_headers_and_query_are_set() -> None:
    change = Change(headers=(("x-model", "small"),), query=(("limit", "3"), ("q", "a b")))
    world = laddered(Rung("less", change=change))
    client = world.client()
    client.asks("GET", "http://search/find?limit=50&q=x&lang=en", X_Model="large")
    head = world.upstream().heads[0]
    assert head.startswith(b"GET /find?lang=en&limit=3&q=a%20b HTTP/1.1")
    assert world.upstream().field("X-Model") == "small"
    assert head.lower().count(b"x-model") == 1


def test_a_chunked_body_goes_out_whole_when_it_is_changed() -> None:
    world = laddered(FAST, APOLOGY)
    client = world.client()
    client.sends(
        b"POST http://model/ HTTP/1.1\r\nHost: model\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'8\r\n{"model"\r\n4\r\n:1}\n\r\n0\r\n\r\n'
    )
    assert sent(world) == {"model": "mini", "max_tokens": 300}
    assert world.upstream().field("Transfer-Encoding") is None


def test_who_the_caller_is_stays_with_whom_it_has_chosen() -> None:
    for credentials in (False, True):
        rung = replace(MINIMAL, credentials=credentials)
        world = laddered(FULL, rung)
        asks(world.client(), 200, Authorization="Bearer secret", X_Api_Key="k", X_Other="o")
        assert world.upstream().field("Authorization") == ("Bearer secret" if credentials else None)
        assert world.upstream().field("X-Api-Key") == ("k" if credentials else None)
        assert world.upstream().field("X-Other") == "o"


@pytest.mark.parametrize(
    "body", [b"no json", b"[1,2]", b'{"model":1,"model":2}', b"\xff\xfe", b"", b'{"a":"\\u0000"}']
)
def test_a_body_that_cannot_be_changed_is_not_changed(body: bytes) -> None:
    world = laddered(FULL, FAST, APOLOGY)
    client = asks(world.client(), 400, body)
    assert client.statuses == [503]
    assert client.field("Budget-Degraded") == "level=2; rung=sorry; reason=body"
    assert world.dialer.asked == 0
    full = asks(world.client(), 900, body)
    assert world.upstream().received.endswith(b"\r\n\r\n" + body)
    world.upstream().answers()
    assert full.field("Budget-Degraded") is None


def test_a_place_that_leads_nowhere_rules_the_rung_out() -> None:
    nowhere = Rung("nowhere", change=Change(json=((parse("$.options.temperature"), "0"),)))
    world = laddered(nowhere, MINIMAL)
    client = asks(world.client(), 900)
    assert sent(world) == ASKED | {"model": "small"}
    world.upstream().answers()
    assert client.field("Budget-Degraded") == "level=1; rung=minimal; reason=body"


def test_numbers_that_python_would_round_pass_exactly() -> None:
    world = laddered(FAST)
    asks(world.client(), 400, b'{"model":"x","seed":12345678901234567890,"t":0.30000000000000000001}')
    assert b'"seed":12345678901234567890,"t":0.30000000000000000001' in world.upstream().received


# -- failed ---------------------------------------------------------------------------------------------------------


def test_a_rung_that_fails_early_steps_down_to_the_next_that_fits() -> None:
    world = laddered()
    client = asks(world.client(), 900)
    world.upstream().answers(b"busy", 503)
    assert sent(world)["model"] == "mini"
    world.upstreams[-1].breaks_off()
    assert world.upstreams[-1].origin.host == "small"
    world.dialer.refused.add("small")
    world.upstreams[-1].answers(b'{"id":2}')
    assert client.statuses == [200]
    assert client.field("Budget-Degraded") == "level=2; rung=minimal; reason=failed"
    record = world.observed.records[-1]
    assert (record.tries, record.rung, record.outcome) == (3, "minimal", Outcome.COMPLETED)


def test_when_all_have_failed_the_apology_is_given() -> None:
    world = laddered(FULL, FAST, APOLOGY)
    world.dialer.refused |= {"model"}
    client = asks(world.client(), 900)
    assert client.statuses == [503]
    assert client.field("Budget-Degraded") == "level=2; rung=sorry; reason=failed"


def test_without_an_apology_the_last_failure_is_told() -> None:
    world = laddered(FULL, FAST)
    client = asks(world.client(), 900)
    world.upstream().answers(b"first", 503)
    world.upstreams[-1].answers(b"second", 503)
    assert client.statuses == [503]
    assert client.body == b"second"
    assert client.field("Budget-Degraded") == "level=1; rung=fast; reason=failed"


def test_an_answer_that_no_other_rung_would_better_is_passed_on() -> None:
    world = laddered()
    client = asks(world.client(), 900)
    world.upstream().answers(b"no", 400)
    assert (client.statuses, len(world.upstreams)) == ([400], 1)


def test_a_miss_after_a_failure_gives_back_what_failed() -> None:
    world = laddered(FULL, CACHED)
    client = asks(world.client(), 900)
    world.upstream().answers(b"busy", 503)
    assert (client.statuses, client.body) == ([503], b"busy")
    assert client.field("Budget-Degraded") is None
    assert _last(world) == ("full", 0, None)


def test_retries_of_a_rung_come_before_the_next_rung() -> None:
    retries = Retries(max=1, statuses=frozenset({503}), base=0)
    world = laddered(FULL, FAST, retries=retries)
    asks(world.client(), 900)
    world.upstream().answers(b"busy", 503)
    world.advance(1)
    assert sent(world) == ASKED
    world.upstreams[-1].answers(b"busy", 503)
    world.advance(1)
    assert sent(world)["model"] == "mini"


# -- slow -----------------------------------------------------------------------------------------------------------


def test_a_rung_that_says_nothing_is_given_up_while_a_lower_one_still_fits() -> None:
    world = laddered()
    client = asks(world.client(), 900)
    world.advance(599)
    assert len(world.upstreams) == 1  # it has had its 500 ms, and `fast` still fits
    world.advance(2)
    assert sent(world)["model"] == "mini"
    assert world.upstreams[0].closed
    world.advance(149)
    world.upstreams[-1].answers(b'{"id":3}')
    assert client.field("Budget-Degraded") == "level=1; rung=fast; reason=slow"
    assert client.statuses == [200]


def test_each_rung_in_turn_is_given_up_until_only_the_apology_is_left() -> None:
    world = laddered(FULL, FAST, MINIMAL, APOLOGY)
    client = asks(world.client(), 1000)
    world.advance(999)
    assert [upstream.origin.host for upstream in world.upstreams] == ["model", "model", "small"][
        : len(world.upstreams)
    ]
    assert client.statuses == []
    world.advance(2)
    assert client.statuses == [503]
    assert client.field("Budget-Degraded") == "level=3; rung=sorry; reason=slow"
    assert world.observed.records[-1].outcome == Outcome.COMPLETED
    assert world.plane.in_flight == 0


def test_one_that_has_begun_to_answer_is_not_given_up() -> None:
    world = laddered()
    client = asks(world.client(), 900)
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    world.advance(800)
    world.upstream().says(b"cd")
    assert (client.statuses, len(world.upstreams)) == ([200], 1)
    assert client.body == b"abcd"


def test_a_cut_without_an_apology_is_a_cut() -> None:
    world = laddered(FULL)
    client = asks(world.client(), 900)
    world.advance(901)
    assert client.statuses == [504]
    assert world.observed.records[-1].outcome == Outcome.DEADLINE_EXCEEDED


def test_what_has_begun_to_reach_the_caller_is_followed_by_nothing_else() -> None:
    world = laddered()
    client = asks(world.client(), 900)
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    world.upstream().breaks_off()
    assert (client.statuses, len(world.upstreams)) == ([200], 1)


# -- turned away ----------------------------------------------------------------------------------------------------


def test_where_there_is_no_place_the_apology_is_given_rather_than_a_refusal() -> None:
    world = laddered(concurrency=1, queue=0)
    asks(world.client(), 900)
    client = asks(world.client(), 900, {"model": "other"})
    assert client.statuses == [503]
    assert client.field("Budget-Degraded") == "level=4; rung=sorry; reason=busy"


def test_where_there_is_no_place_and_nothing_to_give_the_call_is_shed() -> None:
    world = laddered(FULL, FAST, concurrency=1, queue=0)
    asks(world.client(), 900)
    client = asks(world.client(), 900, {"model": "other"})
    assert (
        client.field(
            "Budget-Outcome",
        )
        is not None
    )
    assert world.observed.records[-1].outcome == Outcome.SHED


# -- observe, and measured --------------------------------------------------------------------------------------------


def test_observe_says_what_it_would_have_done_and_does_nothing() -> None:
    world = laddered(policy={"mode": Mode.OBSERVE})
    client = asks(world.client(), 200)
    assert sent(world) == ASKED
    world.upstream().answers()
    assert client.field("Budget-Degraded") is None
    assert world.observed.records[-1].would == Would.DEGRADE


def test_a_rung_whose_need_is_measured_is_taken_as_long_as_it_fits() -> None:
    world = laddered(Rung("full", None), MINIMAL)
    for _ in range(40):
        asks(world.client(), 2000)
        world.advance(400)
        world.upstreams[-1].answers()
    world.client().asks("POST", "http://model/v1/chat", b'{"model":1}', Budget_Remaining_Ms=430)
    assert sent(world)["model"] == "small"
    world.client().asks("POST", "http://model/v1/chat", b'{"model":1}', Budget_Remaining_Ms=500)
    assert sent(world, 0)["model"] == 1
    assert {(route, rung) for route, rung, _ in world.observed.rungs_tried} == {("fallback", "full")}


def test_only_what_is_asked_for_is_measured() -> None:
    """The metrics have all; only `needs: auto` has a use for more."""
    world = laddered()
    asks(world.client(), 900)
    world.upstream().answers()
    assert world.observed.rungs_tried == [("fallback", "full", 0)]
    assert len(world.plane.measured) == 0


def test_a_client_that_leaves_takes_everything_along() -> None:
    world = laddered()
    client = asks(world.client(), 900)
    client.leaves()
    world.advance(2000)
    assert world.plane.in_flight == 0
    assert world.observed.records[-1].outcome == Outcome.CLIENT_GONE


def test_observe_says_so_too_where_the_call_then_takes_too_long_or_has_no_time_at_all() -> None:
    for left_ms in (200, 0):
        world = laddered(policy={"mode": Mode.OBSERVE})
        asks(world.client(), left_ms)
        world.advance(900)
        world.upstream().answers()
        assert world.observed.records[-1].would == Would.DEGRADE
