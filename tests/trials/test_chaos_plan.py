"""What the chaos trial draws, sends and reads: the same from the same seed, all of it known to every side."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import h11
import pytest

from proxy.config import ConfigError, parse
from trials.chaos.caller import judged_stream, render, request_body
from trials.chaos.extent import EVENTS, SHORT, long
from trials.chaos.facts import Ask, Heard, Seen, Told, outcome_of
from trials.chaos.misbehaving import BEHAVIOURS
from trials.chaos.plan import MOST_SENDINGS, Errand, jobs
from trials.chaos.sidecars import FAULTY, policy
from trials.chaos.words import BY_NAME, ROUTE, Place, event_of, last_event_of, pattern, stream_of


def errands(count: int, seed: int = 7) -> list[Errand]:
    """The first errands of a lane."""
    return [errand for job in islice(jobs(seed, 1, 0, 0), count) for errand in job.errands]


def calls(count: int, seed: int = 7) -> list[Ask]:
    """All of their calls."""
    return [ask for errand in errands(count, seed) for ask in errand.calls]


def test_the_same_from_the_same_seed() -> None:
    """And something else from another one."""
    assert calls(200) == calls(200)
    assert calls(200, seed=8) != calls(200)


def test_all_sides_know_every_way() -> None:
    """Whatever is drawn for the main port has a behaviour there; the others are ports."""
    assert {way.name for way in BY_NAME.values() if way.place is Place.MAIN} == set(BEHAVIOURS)
    for ask in calls(2000):
        places = {BY_NAME[way].place for way in ask.ways}
        assert places == {ask.place}, "a unit belongs to one port, as the guard sees it"


def test_all_that_can_happen_is_drawn() -> None:
    """Every route, every way, every way to leave; keys, confirmations, twins; budgets that are shared and that are not."""
    drawn = calls(4000)
    assert {ask.route for ask in drawn} == set(ROUTE)
    assert {way for ask in drawn for way in ask.ways} == set(BY_NAME)
    assert {ask.leave for ask in drawn} == {None, "head", "body", "sent", "waiting", "answer"}
    assert {ask.kind for ask in drawn} == {"read", "idempotent", "write"}
    assert {ask.number for ask in drawn} == set(range(1, MOST_SENDINGS + 1))
    for fact in ("key", "confirmed", "budget", "stated_ms", "rudely", "chunked"):
        assert len({bool(getattr(ask, fact)) for ask in drawn}) == 2
    assert any(errand.twins for errand in errands(4000))


def test_ids_are_used_once() -> None:
    """A call can be told from every other one of a run."""
    drawn = [
        ask.id
        for lane in range(3)
        for job in islice(jobs(7, 1, 0, lane), 300)
        for e in job.errands
        for ask in e.calls
    ]
    assert len(set(drawn)) == len(drawn)


def test_each_sending_of_a_unit_has_the_same_body() -> None:
    """By which the guard knows it again."""
    for errand in errands(500):
        assert len({(ask.method, ask.unit, request_body(ask)) for ask in errand.calls}) == 1


def test_what_is_sent_is_http() -> None:
    """As h11 reads it, body and all."""
    for ask in calls(300):
        reader = h11.Connection(h11.SERVER)
        reader.receive_data(render(ask, f"http://127.0.0.1:1/{ask.route}/{ask.unit}") + request_body(ask))
        head = reader.next_event()
        assert isinstance(head, h11.Request)
        assert dict(head.headers)[b"x-call"].decode() == ask.id
        body = b""
        while isinstance(event := reader.next_event(), h11.Data):
            body += event.data
        assert isinstance(event, h11.EndOfMessage)
        assert len(body) == ask.size


def test_lines_are_read_as_they_were_written() -> None:
    """Nothing of what a side has said is lost between the processes."""
    heard = Heard(1, 2, "whole", "message", 200, {"x-token": "a"}, {}, "equal", 3, {"type": "b"})
    for ask in calls(50):
        told = Told(ask, heard)
        assert Told.read(told.line()) == told
    seen = Seen("head", "a.1", "a", 1, 5, "detail")
    assert Seen.read(seen.line().decode()) == seen


def test_an_outcome_is_taken_apart() -> None:
    """As the sidecar writes it; anything else is an error."""
    outcome = outcome_of("refused; effect=none; reason=no_budget")
    assert (outcome.token, outcome.get("effect"), outcome.get("phase")) == ("refused", "none", None)
    with pytest.raises(ValueError, match="is no parameter"):
        outcome_of("refused; effect")


ERROR = b'event: error\ndata: {"error": {"type": "deadline_exceeded"}}\n\n'


@pytest.mark.parametrize(
    ("body", "judged"),
    [
        (stream_of("a", 1, 6), "equal"),
        (b"", "prefix"),
        (event_of("a", 1, 0) + event_of("a", 1, 1)[:30], "prefix"),
        (event_of("a", 1, 0) + ERROR, "failed"),
        (event_of("a", 1, 0) + last_event_of("a"), "closed"),
        (event_of("b", 1, 0), "different"),
        (event_of("a", 1, 0) + event_of("b", 1, 1) + last_event_of("a"), "different"),
        (event_of("a", 1, 0) + event_of("a", 2, 1) + ERROR, "different"),
    ],
)
def test_streams_are_judged_event_by_event(body: bytes, judged: str) -> None:
    """What is the tool's own, what the sidecar has added, and what is nobody's."""
    assert judged_stream("a", 1, 6, body) == judged


def test_a_stream_may_be_left_in_the_middle_of_its_end() -> None:
    """Of what the sidecar has added, only a part was read then; a stream that looks whole has all of it."""
    body = event_of("a", 1, 0) + last_event_of("a")[:-20]
    assert judged_stream("a", 1, 6, body, whole=False) == "prefix"
    assert judged_stream("a", 1, 6, body) == "different"
    assert judged_stream("a", 1, 6, event_of("a", 1, 0) + event_of("b", 1, 1), whole=False) == "different"
    assert judged_stream("a", 1, 6, event_of("a", 1, 0) + b"nobody's", whole=False) == "different"


def test_bodies_are_nobody_elses() -> None:
    """Two calls, or two arrivals of one, have not even a part in common that is longer than their names."""
    assert pattern("1-0-0-1.1.1", 1, 40)[:14] != pattern("1-0-0-1.1.1", 2, 40)[:14]
    assert pattern("1-0-0-1.1.1", 1, 400)[:200] == pattern("1-0-0-1.1.1", 1, 200)


def test_policies(tmp_path: Path) -> None:
    """The one that is played with is accepted, and the faulty ones are not."""
    import yaml

    document = policy(folder=tmp_path)
    assert {route.name for route in parse(yaml.safe_dump(document), "waterclock.yaml").routes} == set(ROUTE)
    for text in FAULTY:
        with pytest.raises(ConfigError):
            parse(text, "waterclock.yaml")


def test_events_are_spread() -> None:
    """The long form has each of them several times, the short one what has to be seen in any case."""
    drawn = [event for act in long(3).events for event in act]
    assert {drawn.count(event) for event in EVENTS} <= {10, 11}
    assert {"kill", "stop", "reload", "faulty", "full_refuse", "full_continue"} == {
        event for act in SHORT.events for event in act
    }
    assert long(3).calls * len(long(3).events) >= 100_000
