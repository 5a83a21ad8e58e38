"""A write on its way out: on disk before its first byte leaves, sent once, settled before its caller hears of it."""

from __future__ import annotations

import pytest

from proxy.core.calls import Kind
from proxy.core.policy import Journal, Mode, OnJournalFailure, Policy, Route, Writes
from proxy.core.writes import WriteBook
from tests.dataplane.world import World, request

HELD_BYTES = 1_048_576


@pytest.mark.parametrize("method", ["POST", "PATCH", "X-BREW"])
def test_the_intent_is_durable_before_the_first_byte(method: str) -> None:
    """Neither a byte nor a connection, while the disk has not said so."""
    world = World()
    world.journal.held = True
    world.client().asks(method, body=b"{}")
    world.advance(50)
    assert world.upstreams == []
    assert [what for what, _, _ in world.journal.log] == ["intent"]
    world.journal.release()
    assert world.sent.endswith(b"{}")
    (kept,) = world.journal.kept.values()
    assert kept.state == "intent"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_what_may_be_repeated_needs_no_journal(method: str) -> None:
    """Nothing is written for it."""
    world = World()
    world.client().asks(method)
    world.upstream().answers(b"" if method == "HEAD" else b"ok")
    assert world.journal.log == []
    assert world.record.outcome == "completed"


def test_the_caller_hears_of_it_once_the_disk_knows() -> None:
    """A sidecar that dies after its caller was told must not find the write again as uncertain."""
    world = World()
    client = world.client().asks("POST", body=b"{}")
    world.journal.held = True
    world.upstream().answers()
    assert client.received == b""
    world.advance(20)
    world.journal.release()
    assert client.statuses == [200]
    world.journal.release()
    assert [what for what, _, _ in world.journal.log] == ["intent", "reported", "drop"]
    assert world.journal.kept == {}
    assert world.record.effect == "reported"


def test_an_answer_whose_caller_left_before_it_was_given_is_kept() -> None:
    """It is the only trace of what happened; and it is an answer, so nothing is in doubt."""
    world = World()
    client = world.client().asks("POST", body=b"{}")
    world.journal.held = True
    world.upstream().answers(b"made", 201)
    client.leaves()
    world.journal.held = False
    world.journal.release()
    assert (world.record.outcome, world.record.effect) == ("client_gone", "reported")
    (kept,) = world.journal.kept.values()
    assert kept.state == "reported"
    assert kept.answer is not None
    assert (kept.answer.status, kept.answer.body) == (201, b"made")
    assert world.book.pending() == 0


def test_a_disk_that_hangs_keeps_nobody_beyond_the_allowance() -> None:
    """The answer is there, so it is passed on in time; if the sidecar dies now, the record errs on the careful side."""
    world = World()
    client = world.client().asks("POST", body=b"{}", Budget_Remaining_Ms=1000)
    world.journal.held = True
    world.upstream().answers(b"whole")
    world.advance(999)
    assert client.received == b""
    world.advance(1)
    assert client.statuses == [200]
    assert client.body == b"whole"
    assert (world.record.outcome, world.record.effect) == ("completed", "reported")
    world.journal.release()
    assert len(world.records) == 1
    assert client.statuses == [200]


def test_a_disk_that_hangs_before_it_was_sent() -> None:
    """The cut comes at the allowance, nothing was sent, and the intent that may still be written is taken back."""
    world = World()
    world.journal.held = True
    client = world.client().asks("POST", body=b"{}", Budget_Remaining_Ms=100)
    world.advance(100)
    assert client.statuses == [504]
    assert (world.record.phase, world.record.effect) == ("not_sent", "none")
    world.journal.release()
    assert world.journal.kept == {}
    assert world.upstreams == []


@pytest.mark.parametrize("choice", OnJournalFailure)
def test_a_disk_that_fails(choice: OnJournalFailure) -> None:
    """The policy says whether writes are refused meanwhile, or sent without a record. Reads go on either way."""
    world = World(Policy(journal=Journal(on_failure=choice)))
    world.journal.error = OSError("the disk is full")
    client = world.client().asks("POST", body=b"{}")
    if choice is OnJournalFailure.REFUSE:
        assert client.statuses == [503]
        assert b"the disk is full" in client.body
        assert world.upstreams == []
        assert world.record.reason == "journal_unavailable"
        assert len(world.book) == 0, "what was not sent blocks no repetition"
    else:
        world.upstream().answers()
        assert client.statuses == [200]
    client.asks("GET")
    world.upstream().answers()
    assert client.statuses[1:] == [200]


def test_a_refused_connection_takes_the_intent_back() -> None:
    """Nothing was sent, so nothing is in doubt, and the next attempt is free to go."""
    world = World()
    world.dialer.refused.add("tool")
    client = world.client().asks("POST", body=b"{}")
    assert client.statuses == [502]
    assert world.journal.kept == {}
    world.dialer.refused.clear()
    client.asks("POST", body=b"{}")
    world.upstream().answers()
    assert client.statuses == [502, 200]


def test_a_large_write_is_known_by_its_key_first_and_its_content_later() -> None:
    """It streams; its intent is on disk before that, and its fingerprint is added when its end has passed."""
    world = World(Policy(writes=Writes(fingerprint_bytes=100)))
    client = world.client()
    wire = request("POST", body=b"x" * 1000, Idempotency_Key="k")
    client.sends(wire[:-500])
    (kept,) = world.journal.kept.values()
    assert (kept.key, kept.fingerprint) == ("k", "")
    assert world.sent.count(b"x") == 500
    client.sends(wire[-500:])
    (kept,) = world.journal.kept.values()
    assert len(kept.fingerprint) == 32
    world.upstream().breaks_off()
    assert client.statuses == [424]
    client.asks("POST", body=b"x" * 1000, Idempotency_Key="k")
    assert client.statuses == [424, 424]
    assert world.records[-1].reason == "unresolved_write"
    # Under another key, its content is known only afterwards: then it is too late to refuse it.
    client.asks("POST", body=b"x" * 1000, Idempotency_Key="other")
    world.upstream().answers()
    assert client.statuses == [424, 424, 200]


def test_the_fingerprint_of_a_streamed_write_is_that_of_its_content() -> None:
    """In a job as outside of one, so that a repetition is known when it can be."""
    fingerprints = set()
    for budget in (None, "b"):
        world = World(Policy(writes=Writes(fingerprint_bytes=10)))
        world.client().asks("POST", body=b"x" * 100, Budget_Id=budget)
        (kept,) = world.journal.kept.values()
        fingerprints.add(kept.fingerprint)
        world.upstream().breaks_off()
        book = WriteBook([*world.journal.kept.values()])
        later = World(book=book)
        assert later.client().asks("POST", body=b"x" * 100, Budget_Id="c").statuses == [424]
    assert len(fingerprints) == 1


@pytest.mark.parametrize("idle_ms", [900, 1100])
@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
def test_no_write_goes_out_on_a_stale_connection(method: str, idle_ms: int) -> None:
    """A connection that lay idle for longer than a second may have been closed by the other side."""
    world = World()
    client = world.client().asks()
    world.upstream().answers()
    world.advance(idle_ms)
    client.asks(method, body=b"" if method == "GET" else b"{}")
    fresh = method == "POST" and idle_ms > 1000
    assert len(world.upstreams) == 1 + fresh
    world.upstream().answers()
    assert client.statuses == [200, 200]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"])
@pytest.mark.parametrize("reused", [False, True])
def test_only_a_read_is_asked_again_and_only_once(method: str, reused: bool) -> None:
    """On a connection that was used before, closed without a word: its idleness had ended it."""
    world = World()
    client = world.client()
    if reused:
        client.asks()
        world.upstream().answers()
    client.asks(method, body=b"{}" if method in ("PUT", "POST") else b"")
    world.upstream().ends()
    again = reused and method in ("GET", "HEAD")
    assert len(world.upstreams) == 1 + again
    if again:
        assert world.upstreams[-1].heads[-1].startswith(method.encode())
        world.upstream().breaks_off()
    assert len(world.upstreams) == 1 + again
    assert client.statuses[-1] == (424 if method == "POST" else 502)
    assert world.records[-1].attempt == 1 + again


def test_a_connection_seen_to_close_is_not_taken() -> None:
    """Between the end of an idle connection and the news of it, nobody is sent into it."""
    world = World()
    client = world.client().asks()
    upstream = world.upstream()
    upstream.answers()
    upstream.transport.closing = True  # its FIN has been read, and `connection_lost` is still to come
    client.asks("POST", body=b"{}")
    assert len(world.upstreams) == 2
    world.upstream().answers()
    assert client.statuses == [200, 200]


def test_the_guard_knows_what_is_in_doubt_and_what_is_not() -> None:
    """A repeat of what may have happened is refused with the first record; confirmed, it is sent."""
    world = World()
    client = world.client().asks("POST", body=b'{"a": 1, "b": 2}')
    world.upstream().breaks_off()
    assert client.statuses == [424]
    first = world.record.record
    client.asks("POST", body=b'{"b":2,"a":1}')
    assert client.statuses == [424, 424]
    assert f'"record": "{first}"'.encode() in client.body
    client.asks("POST", body=b'{"a": 1, "b": 3}')
    world.upstream().answers()
    client.asks("POST", body=b'{"a": 1, "b": 2}', Budget_Retry="confirmed")
    world.upstream().answers()
    assert client.statuses == [424, 424, 200, 200]
    assert world.book.get(first).state == "not_applied"  # type: ignore[union-attr]


def test_the_guard_does_not_let_go_by_itself() -> None:
    """After writes.hold an unresolved write is a dead letter, and refused as one; what has happened blocks no longer."""
    world = World()
    unresolved, unheard = world.client(), world.client()
    unresolved.asks("POST", body=b"{}")
    world.upstream().breaks_off()
    unheard.asks("POST", body=b"[]")
    world.journal.held = True
    world.upstream().answers(b"made", 201)
    unheard.leaves()
    world.journal.held = False
    world.journal.release()
    for later, reasons in (
        (0, ["unresolved_write", "unresolved_write"]),
        (15 * 60_000 + 1, ["dead_lettered", None]),
    ):
        world.advance(later)
        for body in (b"{}", b"[]"):
            world.client().asks("POST", body=body)
        if later:
            world.upstream().answers()
        assert [record.reason for record in world.records[-2:]] == reasons
    assert unresolved.statuses == [424]
    assert (world.book.pending(), world.book.dead()) == (0, 1)


def test_what_was_found_on_disk_blocks_too() -> None:
    """The book of an earlier life holds what that life left in doubt."""
    before = World()
    before.client().asks("POST", body=b"{}", Idempotency_Key="k")
    (intent,) = before.journal.kept.values()
    world = World(book=WriteBook([intent]))
    client = world.client().asks("POST", body=b"{}", Idempotency_Key="k")
    assert client.statuses == [424]


def test_observing_refuses_no_repeat() -> None:
    """It says what it would have done, and sends."""
    world = World(Policy(mode=Mode.OBSERVE))
    client = world.client().asks("POST", body=b"{}")
    world.upstream().breaks_off()
    client.asks("POST", body=b"{}")
    world.upstream().answers()
    assert client.statuses == [424, 200]
    assert world.records[-1].would == "refuse"


def test_a_route_that_says_read_needs_no_care() -> None:
    """`effect: read` makes a POST a read, from the first byte on."""
    world = World(Policy(fallback=Route("fallback", effect=Kind.READ)))
    client = world.client()
    client.sends(request("POST", body=b"x" * HELD_BYTES)[:-1])
    assert world.sent.count(b"x") == HELD_BYTES - 1
    client.sends(b"x")
    world.upstream().breaks_off()
    assert client.statuses == [502]
    assert world.journal.log == []
