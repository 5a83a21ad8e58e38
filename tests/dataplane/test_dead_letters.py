"""Units whose attempts are used up, whoever made them: they are attempted no more until someone decides."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.calls import Outcome
from proxy.core.policy import Guard, Journal, Mode, Policy, Retries, Route, Writes
from proxy.core.writes import WriteBook, WriteEvent, WriteRecord, WriteState
from tests.dataplane.world import FakeClient, World, request


def _world(most: int = 3, *, retries: Retries | None = None, **route: Any) -> World:
    return World(Policy(fallback=Route("fallback", max_attempts=most, retries=retries, **route)))


def _asks(world: World, method: str = "GET", budget: str | None = "b", **fields: Any) -> FakeClient:
    body = fields.pop("body", b"" if method == "GET" else b"{}")
    return world.client().asks(method, body=body, Budget_Id=budget, **fields)


def _fails(world: World) -> None:
    world.upstream().says(b"HTTP/1.1 200 OK\r\nContent-").breaks_off()


def _sent(world: World) -> int:
    """How many calls were sent."""
    return sum(len(upstream.heads) for upstream in world.upstreams)


def _letter(world: World) -> WriteRecord:
    """The one dead letter that there is, which book and journal agree on."""
    world.loop.settle()
    (letter,) = [record for record in world.book.listed() if record.state is WriteState.DEAD_LETTERED]
    assert world.book.dead() == 1
    assert world.journal.kept[letter.id] == letter
    return letter


def _release(world: World, event: WriteEvent = WriteEvent.RELEASED) -> None:
    """Somebody decides."""
    letter = _letter(world)
    world.plane.keep(letter.after(event))
    if event is WriteEvent.RELEASED:
        world.plane.attempts.forget(f"{letter.origin} {letter.unit}")
        world.plane.attempts.forget(letter.unit)


def test_a_unit_gets_so_many_attempts() -> None:
    """The next one is refused: not sent, and said to be no matter of another try."""
    world = _world()
    for number in range(3):
        client = _asks(world)
        _fails(world)
        assert client.statuses == [502]
        last = number == 2
        assert client.field("x-should-retry") == ("false" if last else "true")
        assert f"retry={'never' if last else 'safe'}" in (client.field("Budget-Outcome") or "")
        assert (b"not attempted again until someone decides" in client.body) == last
        assert world.book.dead() == last
    client = _asks(world)
    assert client.statuses == [424]
    assert client.field("x-should-retry") == "false"
    assert client.field("Retry-After") is None
    assert (
        client.field("Budget-Outcome")
        == "refused; effect=none; retry=never; reason=dead_lettered; phase=not_sent"
    )
    letter = _letter(world)
    assert f'"record": "{letter.id}"'.encode() in client.body
    assert b"was attempted 3 times, did not succeed, and was given up" in client.body
    assert (letter.id, letter.attempts, letter.reason, letter.method, letter.budget_id) == (
        world.records[2].record,
        3,
        "max_attempts",
        "GET",
        "b",
    )
    assert [(record.attempt, record.tries, record.fresh) for record in world.records] == [
        (1, 1, 1),
        (2, 1, 0),
        (3, 1, 0),
        (1, 0, 0),
    ]
    assert [what for what, step in world.happened("b") if step == 3] == [
        "granted",
        "dead_lettered",
        "released",
    ]
    assert _sent(world) == 3
    world.at_rest()


def test_own_retries_and_those_of_callers_count_alike() -> None:
    """Two of one call and one of the next are three."""
    retries = Retries(max=1, outcomes=frozenset({Outcome.UPSTREAM_FAILED}))
    world = _world(3, retries=retries)
    for _ in range(2):
        _asks(world)
        _fails(world)
        world.advance(1)
        if len(world.records) < 2:
            _fails(world)
            world.advance(1)
    assert [(record.attempt, record.tries) for record in world.records] == [(2, 2), (3, 1)]
    assert world.observed.withheld == ["attempts_used_up"] * 2
    assert _letter(world).attempts == 3
    assert _asks(world).statuses == [424]
    world.at_rest()


@pytest.mark.parametrize("apart", [True, False])
def test_two_calls_at_once_make_no_more_attempts_than_one(apart: bool) -> None:
    """What the one has used up is not there for the other, be it while that one backs off."""
    retries = Retries(max=2, outcomes=frozenset({Outcome.UPSTREAM_FAILED}))
    world = _world(3, retries=retries)
    world.plane.jitter = lambda: 0.0 if apart else 0.5
    clients = [_asks(world, "PUT"), _asks(world, "PUT")]
    for _ in range(2):
        for upstream in list(world.upstreams):
            upstream.breaks_off()
        world.advance(100)
    assert _sent(world) == 3
    assert [client.statuses for client in clients] == [[502], [502]]
    assert [record.effect for record in world.records] == ["uncertain"] * 2
    assert ("dead_lettered" in {record.reason for record in world.records}) == (not apart)
    world.at_rest()


@pytest.mark.parametrize(
    "counts",
    [
        [{"x_stainless_retry_count": 0}, {"x_stainless_retry_count": 2}],
        [{"amz_sdk_request": "attempt=1; max=3"}, {"amz_sdk_request": "attempt=3; max=3"}],
    ],
    ids=["stainless", "aws"],
)
def test_what_the_caller_says_of_its_own_attempts_is_believed(counts: list[dict[str, Any]]) -> None:
    """Those in between went another way."""
    world = _world()
    for count in counts:
        _asks(world, **count)
        _fails(world)
    assert [record.attempt for record in world.records] == [1, 3]
    assert _asks(world, x_stainless_retry_count=3).statuses == [424]
    assert _sent(world) == 2
    world.at_rest()


def test_a_unit_of_which_this_sidecar_has_seen_nothing_may_be_used_up_all_the_same() -> None:
    """As many attempts were made as there may be, by its caller's own count."""
    world = _world()
    client = _asks(world, x_stainless_retry_count=3)
    assert client.statuses == [424]
    assert b"was attempted 3 times" in client.body
    assert _letter(world).attempts == 3
    assert _sent(world) == 0


@pytest.mark.parametrize("status", [200, 404, 400])
def test_an_answer_that_settles_the_matter_ends_the_count(status: int) -> None:
    """The same call made later is new work."""
    world = _world(2)
    for _ in range(3):
        _asks(world)
        _fails(world)
        _asks(world)
        world.upstream().answers(status=status)
    assert [(record.attempt, record.fresh) for record in world.records] == [(1, 1), (2, 0)] * 3
    assert world.book.dead() == 0


@pytest.mark.parametrize("status", [500, 503, 429, 408, 425])
def test_an_answer_that_asks_for_another_attempt_does_not(status: int) -> None:
    """It has not succeeded."""
    world = _world(2)
    for number in range(2):
        client = _asks(world, "POST")
        world.upstream().answers(status=status)
        assert client.statuses == [status]
        assert world.book.dead() == number
    assert _asks(world, "POST").statuses == [424]
    assert _letter(world).phase == "complete"
    world.at_rest()


CALLS: dict[str, dict[str, Any]] = {
    "a read": {"method": "GET"},
    "a read with a body": {"method": "GET", "body": b"{}"},
    "a read with a key": {"method": "GET", "Idempotency_Key": "k"},
    "an idempotent write": {"method": "PUT"},
    "a deletion": {"method": "DELETE", "body": b""},
    "a write": {"method": "POST"},
    "a write with a key": {"method": "POST", "Idempotency_Key": "k"},
}


@pytest.mark.parametrize("guard", Guard)
@pytest.mark.parametrize("call", CALLS)
def test_every_kind_of_call_can_be_used_up(call: str, guard: Guard) -> None:
    """By whatever rule its route knows the repeats of uncertain writes; and it can be let go of again."""
    world = _world(2, guard=guard)
    world.dialer.refused.add("tool")
    for _ in range(2):
        assert _asks(world, **CALLS[call]).statuses == [502]
    assert _asks(world, **CALLS[call]).statuses == [424]
    assert world.records[-1].reason == "dead_lettered"
    assert world.dialer.asked == 2
    assert _letter(world).phase == "not_sent"
    assert _asks(world, **CALLS[call] | {"Budget_Retry": "confirmed"}).statuses == [424]
    world.dialer.refused.clear()
    assert _asks(world, **CALLS[call] | {"method": "PATCH"}).statuses == ([424] if "key" in call else []), (
        "a key is one unit, whatever comes under it"
    )
    _release(world)
    client = _asks(world, **CALLS[call])
    world.upstream().answers()
    assert client.statuses == [200]
    assert world.book.dead() == 0


@pytest.mark.parametrize("call", ["a write", "a write with a key"])
def test_a_write_whose_last_attempt_is_uncertain_becomes_the_dead_letter_itself(call: str) -> None:
    """There is one record of it, and an answer that comes late still settles it."""
    world = _world(1)
    client = _asks(world, **CALLS[call], Connect_Timeout_Ms=100)
    world.advance(100)
    assert client.statuses == [424]
    letter = _letter(world)
    assert (letter.id, letter.phase, letter.reason) == (world.record.record, "sent", "max_attempts")
    assert _asks(world, **CALLS[call]).statuses == [424]
    assert world.records[-1].reason == "dead_lettered"
    world.upstream().answers(b"made", 201)
    reported = world.book.get(letter.id)
    assert reported is not None
    assert (reported.state, reported.answer is not None and reported.answer.status) == ("reported", 201)
    assert world.book.dead() == 0
    world.at_rest()


def test_an_answer_that_nobody_heard_is_not_given_up() -> None:
    """It happened, and the record of that is worth more than the count."""
    world = _world(1)
    client = _asks(world, "POST")
    world.journal.held = True
    world.upstream().answers(b"made", 201)
    client.leaves()
    world.journal.held = False
    world.journal.release()
    (kept,) = world.journal.kept.values()
    assert (kept.state, kept.answer is not None and kept.answer.body) == ("reported", b"made")
    assert world.book.dead() == 0


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_read_or_idempotent_call_is_known_within_its_job_only(method: str) -> None:
    """What another job asks for is other work; and who belongs to none is nobody's repetition."""
    world = _world(1)
    _asks(world, method)
    _fails(world)
    assert _asks(world, method).statuses == [424]
    for budget in ("another", None, None):
        client = _asks(world, method, budget, x_stainless_retry_count=None if budget else 5)
        _fails(world)
        assert client.statuses == [502]
        assert "retry=safe" in (client.field("Budget-Outcome") or "") or budget is not None
    assert world.book.dead() == 2
    world.at_rest()


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(
    ("when", "tries", "made"), [("under way", 2, 4), ("backing off", 1, 3), ("ended", 1, 3)]
)
def test_a_body_too_large_to_be_held_is_known_when_it_has_passed(
    method: str, when: str, tries: int, made: int
) -> None:
    """Then its attempts are counted, those before too."""
    retries = Retries(max=1)
    route = Route("fallback", max_attempts=3, guard=Guard.NONE, retries=retries)
    world = World(Policy(fallback=route, writes=Writes(fingerprint_bytes=10)))
    world.plane.jitter = lambda: 0.5
    wire = request(method, body=b"x" * 100, Budget_Id="b")
    for _ in range(2):
        world.dialer.refused.add("tool")
        client = world.client().sends(wire[:-1] if when != "ended" else wire)
        if when == "under way":
            world.dialer.refused.clear()
            world.advance(25)
        client.sends(wire[-1:] if when != "ended" else b"")
        world.advance(25)
        if when == "under way":
            world.upstream().breaks_off()
    assert [(record.tries, record.attempt) for record in world.records] == [(2, 2), (tries, made)]
    assert _letter(world).attempts == made
    world.dialer.refused.clear()
    again = world.client().sends(wire)
    world.advance(30)
    assert again.statuses == [], "it is not known before it has passed"
    world.upstream().answers()
    world.advance(1)
    assert again.statuses == [200]
    world.at_rest()


def test_what_was_never_attempted_is_not_counted() -> None:
    """Refused, turned away, or joined: none of them is a try."""
    world = World(
        Policy(
            journal=Journal(),
            fallback=Route("fallback", max_attempts=2, concurrency=1, queue=0),
        )
    )
    world.journal.error = OSError("the disk is full")
    for _ in range(5):
        assert _asks(world, "POST").statuses == [503]
    world.journal.error = None
    _asks(world, budget="other")
    for _ in range(5):
        assert _asks(world, "POST").statuses == [503]
    world.upstream().answers()
    client = _asks(world, "POST", Idempotency_Key="k")
    for _ in range(5):
        _asks(world, "POST", Idempotency_Key="k")
    _fails(world)
    assert client.statuses == [424]
    assert world.book.dead() == 0
    assert [record.tries for record in world.records].count(1) == 2
    world.at_rest()


def test_observing_gives_nothing_up() -> None:
    """It says what it would do once the attempts are used up."""
    world = World(Policy(mode=Mode.OBSERVE, fallback=Route("fallback", max_attempts=2)))
    for _ in range(4):
        _asks(world)
        _fails(world)
    assert [record.would for record in world.records] == [None, None, "refuse", "refuse"]
    assert _sent(world) == 4
    assert len(world.book) == 0


def test_a_dead_letter_outlives_the_sidecar() -> None:
    """The book of an earlier life holds it."""
    before = _world(1)
    _asks(before)
    _fails(before)
    letter = _letter(before)
    world = World(Policy(fallback=Route("fallback")), WriteBook([letter]))
    client = _asks(world)
    assert client.statuses == [424]
    assert f'"record": "{letter.id}"'.encode() in client.body


def test_one_that_was_discarded_is_never_sent_again() -> None:
    """Someone has decided so, and that is what the caller is told."""
    world = _world(1)
    _asks(world)
    _fails(world)
    _release(world, WriteEvent.DISCARDED)
    client = _asks(world)
    assert client.statuses == [424]
    assert b"was discarded" in client.body
    assert b"Someone has decided that it is never sent again" in client.body


def test_one_that_was_released_starts_to_count_anew() -> None:
    """And can be given up again."""
    world = _world(2)
    for _ in range(2):
        for _ in range(2):
            _asks(world)
            _fails(world)
        assert _asks(world).statuses == [424]
        _release(world)
    assert [record.attempt for record in world.records if record.tries] == [1, 2, 1, 2]
    world.at_rest()


def test_a_read_that_met_a_stale_connection_has_used_its_attempt() -> None:
    """It is asked again by itself only while it has another."""
    for most, sent in ((1, 2), (2, 3)):
        world = _world(most)
        _asks(world, budget="other")
        world.upstream().answers()
        _asks(world)
        world.upstream().ends()
        assert _sent(world) == sent
        if most == 2:
            _fails(world)
        assert world.records[-1].attempt == most
        assert world.book.dead() == 1
        world.at_rest()
