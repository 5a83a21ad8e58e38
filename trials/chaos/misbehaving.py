"""How the upstream behaves: one small function for each way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from tests.support.behaviours import LAST_CHUNK, chunk, head
from trials.chaos.turn import MOST_SECONDS, Turn
from trials.chaos.words import event_of, last_event_of, stream_of

_EVENTS: Final = 6


def _length(turn: Turn, status: int = 200, size: int | None = None) -> bytes:
    size = turn.size if size is None else size
    return head(status, turn.fields(size, ("Content-Length", str(size))))


async def well(turn: Turn) -> None:
    """Do it and say so."""
    await turn.read_and_commit()
    await turn.whole(_length(turn) + (b"" if turn.bodiless else turn.body(turn.size)))


async def chunked(turn: Turn) -> None:
    """The same in chunks."""
    await turn.read_and_commit()
    body = turn.body(turn.size)
    half = len(body) // 2
    framed = b"" if turn.bodiless else chunk(body[:half]) + chunk(body[half:]) + LAST_CHUNK
    await turn.whole(head(200, turn.fields(turn.size, ("Transfer-Encoding", "chunked"))) + framed)


async def closed(turn: Turn) -> None:
    """The same, and the end of the connection is the end of the body."""
    await turn.read_and_commit()
    turn.part()
    await turn.whole(head(200, turn.fields(turn.size)) + (b"" if turn.bodiless else turn.body(turn.size)))


async def interim(turn: Turn) -> None:
    """Say first that it will take a while."""
    await turn.exchange.send(head(103, [("Link", "</style.css>; rel=preload")]))
    await well(turn)


async def closes_idle(turn: Turn) -> None:
    """Answer well, and close the connection some time later: perhaps just when the next request is on its way."""
    await well(turn)
    after = turn.chance.choice((0.0, 0.001, 0.01, 0.1, turn.chance.uniform(0, 1.5)))
    if after:
        asyncio.get_running_loop().call_later(after, turn.exchange.close)
    else:
        turn.part()


async def half_closes(turn: Turn) -> None:
    """Answer well, end our side, and go on reading."""
    await well(turn)
    turn.part()
    turn.exchange.half_close()
    await turn.exchange.sleep(MOST_SECONDS)


async def drip(turn: Turn) -> None:
    """Answer in small pieces with pauses, in about 100 ms."""
    await _drips(turn, 0.008)


async def drip_long(turn: Turn) -> None:
    """Answer in small pieces, and take too long."""
    await _drips(turn, turn.late_s / 8)


async def _drips(turn: Turn, pause: float) -> None:
    await turn.read_and_commit()
    size = min(turn.size, 2_000)
    body = b"" if turn.bodiless else turn.body(size)
    await turn.begin(_length(turn, size=size)[:-3])
    await turn.exchange.sleep(pause)
    await turn.exchange.send(_length(turn, size=size)[-3:])
    step = size // 10 + 1
    for at in range(0, max(0, len(body) - step), step):
        await turn.exchange.send(body[at : at + step])
        await turn.exchange.sleep(pause)
    await turn.finish(body[(len(body) - 1) // step * step :] if body else b"")


async def reset_body(turn: Turn) -> None:
    """Reset in the middle of the request's body."""
    if turn.exchange.request.method in ("POST", "PUT"):
        await turn.exchange.read()
    turn.reset()


async def stall_body(turn: Turn) -> None:
    """Read no more than a part of the request's body."""
    turn.exchange.deaf()
    await turn.stall()


async def reset_read(turn: Turn) -> None:
    """Read the request whole, do nothing, and reset."""
    await turn.read()
    turn.reset()


async def stall_read(turn: Turn) -> None:
    """Read the request whole, and do nothing at all."""
    await turn.read()
    await turn.stall()


async def half_silent(turn: Turn) -> None:
    """Read the request whole, end our side without an answer, and go on reading."""
    await turn.read()
    turn.exchange.half_close()
    await turn.stall()


async def commit_reset(turn: Turn) -> None:
    """Do it, and reset."""
    await turn.read_and_commit()
    turn.reset()


async def commit_stall(turn: Turn) -> None:
    """Do it, and say nothing."""
    await turn.read_and_commit()
    await turn.stall()


async def commit_close(turn: Turn) -> None:
    """Do it, and close."""
    await turn.read_and_commit()
    turn.part()


async def commit_late(turn: Turn) -> None:
    """Do it, and say so when nobody waits any more, but while the sidecar still listens."""
    await _answer_after(turn, turn.late_s + turn.chance.uniform(0.0, 0.15))


async def commit_too_late(turn: Turn) -> None:
    """Do it, and say so when nobody listens any more."""
    await _answer_after(turn, turn.late_s + turn.chance.uniform(0.4, 0.6))


async def _answer_after(turn: Turn, seconds: float) -> None:
    await turn.read_and_commit()
    await turn.exchange.sleep(seconds)
    await turn.whole(_length(turn) + (b"" if turn.bodiless else turn.body(turn.size)))


async def commit_503(turn: Turn) -> None:
    """Do it, and say that it cannot be done just now."""
    await turn.read_and_commit()
    await turn.whole(_length(turn, 503) + (b"" if turn.bodiless else turn.body(turn.size)))


async def reset_answer_head(turn: Turn) -> None:
    """Do it, and reset in the middle of the answer's head."""
    await turn.read_and_commit()
    await turn.begin(_length(turn)[:30])
    turn.reset()


async def stall_answer_head(turn: Turn) -> None:
    """Do it, and say half of the answer's head."""
    await turn.read_and_commit()
    await turn.begin(_length(turn)[:30])
    await turn.stall()


async def _half_body(turn: Turn) -> None:
    """Do it, and say the head and half of the body."""
    await turn.read_and_commit()
    half = turn.size // 2
    if turn.chance.random() < 0.5:
        await turn.begin(_length(turn) + turn.body(half))
    else:
        framed = chunk(turn.body(half))
        await turn.begin(head(200, turn.fields(turn.size, ("Transfer-Encoding", "chunked"))) + framed)
    await turn.exchange.sleep(turn.chance.choice((0.0, 0.02)))


async def reset_answer_body(turn: Turn) -> None:
    """Do it, and reset in the middle of the answer's body."""
    if turn.bodiless:
        await reset_answer_head(turn)
        return
    await _half_body(turn)
    turn.reset()


async def stall_answer_body(turn: Turn) -> None:
    """Do it, and stop in the middle of the answer's body."""
    if turn.bodiless:
        await stall_answer_head(turn)
        return
    await _half_body(turn)
    await turn.stall()


async def close_answer_body(turn: Turn) -> None:
    """Do it, and close in the middle of the answer's body."""
    if turn.bodiless:
        await reset_answer_head(turn)
        return
    await _half_body(turn)
    turn.part()


async def early(turn: Turn) -> None:
    """Do it and say so before the body of the request was read, which never will be."""
    turn.commit()
    turn.exchange.deaf()
    await turn.whole(_length(turn) + (b"" if turn.bodiless else turn.body(turn.size)))
    await turn.stall()


async def lie_long(turn: Turn) -> None:
    """Announce more than there is."""
    if turn.bodiless:
        await well(turn)
        return
    await turn.read_and_commit()
    await turn.begin(_length(turn, size=turn.size + 10) + turn.body(turn.size))
    await turn.stall()


async def lie_short(turn: Turn) -> None:
    """Announce less than there is. What was announced is a whole answer; what follows it is nobody's."""
    await turn.read_and_commit()
    turn.part()
    said = turn.size // 2
    await turn.whole(_length(turn, size=said) + (b"" if turn.bodiless else turn.body(turn.size)))
    await turn.exchange.sleep(0.05)


async def lie_both(turn: Turn) -> None:
    """Frame the body by length and in chunks at once (RFC 9112 §6.3: an error here, whichever was meant)."""
    framing = (("Content-Length", str(turn.size)), ("Transfer-Encoding", "chunked"))
    await _untrue(
        turn, head(200, turn.fields(turn.size, *framing)) + chunk(turn.body(turn.size)) + LAST_CHUNK
    )


async def lie_two_lengths(turn: Turn) -> None:
    """Announce two lengths."""
    framing = (("Content-Length", str(turn.size)), ("Content-Length", str(turn.size + 1)))
    await _untrue(turn, head(200, turn.fields(turn.size, *framing)) + turn.body(turn.size))


async def lie_chunk(turn: Turn) -> None:
    """Give a chunk a size that is none, perhaps after one that is."""
    if turn.bodiless:
        await well(turn)
        return
    good = chunk(turn.body(turn.size // 2 + 1)) if turn.chance.random() < 0.5 else b""
    bad = turn.chance.choice((b"zz\r\nxx\r\n", b"-5\r\nhello\r\n", b"FFFFFFFFFFFFFFFFF\r\nx\r\n"))
    await _untrue(turn, head(200, turn.fields(turn.size, ("Transfer-Encoding", "chunked"))) + good + bad)


async def garbage(turn: Turn) -> None:
    """Say what is no HTTP."""
    words = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
    )
    await _untrue(turn, turn.chance.choice(words) + b"\0" * turn.chance.choice((0, 100)))


async def _untrue(turn: Turn, data: bytes) -> None:
    await turn.read_and_commit()
    turn.part()
    await turn.begin(data)
    await turn.exchange.sleep(0.05)


async def garbage_after(turn: Turn) -> None:
    """Answer well, and some time later say what is no HTTP."""
    await well(turn)
    await turn.exchange.sleep(turn.chance.choice((0.0, 0.0, 0.002, 0.02)))
    await turn.exchange.send(b"and another thing\r\n\r\n")
    turn.part()


async def twice(turn: Turn) -> None:
    """Answer well, and in the same breath give an answer that nobody has asked for.

    One that came later could be the answer to whatever is asked by then: HTTP/1.1 has no way to tell.
    """
    await turn.read_and_commit()
    turn.part()
    body = b"" if turn.bodiless else turn.body(turn.size)
    other = head(200, [("X-Token", "nobody"), ("Content-Length", "6")]) + b"nobody"
    await turn.whole(_length(turn) + body + other)
    await turn.exchange.sleep(0.05)


async def events(turn: Turn) -> None:
    """A stream of some events."""
    await _stream(turn)
    for number in range(_EVENTS):
        await turn.exchange.send(chunk(event_of(turn.call, turn.arrival, number)))
        await turn.exchange.sleep(0.003)
    await turn.finish(chunk(last_event_of(turn.call)) + LAST_CHUNK)


async def events_endless(turn: Turn) -> None:
    """A stream that goes on until it is cut."""
    await _stream(turn)
    for number in range(1_000):
        await turn.exchange.send(chunk(event_of(turn.call, turn.arrival, number)))
        await turn.exchange.sleep(0.01)


async def events_stall(turn: Turn) -> None:
    """A stream that stops, perhaps in the middle of an event."""
    await _some_events(turn)
    await turn.stall()


async def events_reset(turn: Turn) -> None:
    """A stream that breaks off."""
    await _some_events(turn)
    turn.reset()


async def _some_events(turn: Turn) -> None:
    await _stream(turn)
    stream = stream_of(turn.call, turn.arrival, 3)
    await turn.exchange.send(chunk(stream[: turn.chance.randrange(1, len(stream) - 10)]))
    await turn.exchange.sleep(0.02)


async def _stream(turn: Turn) -> None:
    await turn.read()
    said = [("X-Token", turn.call), ("X-Arrival", str(turn.arrival)), ("X-Size", str(_EVENTS))]
    framing = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
    turn.part()
    await turn.begin(head(200, [*said, *framing]))


Behave = Callable[[Turn], Awaitable[None]]
BEHAVIOURS: Final[dict[str, Behave]] = {
    "well": well,
    "well.chunked": chunked,
    "well.closed": closed,
    "well.interim": interim,
    "well.closes_idle": closes_idle,
    "well.half_closes": half_closes,
    "drip": drip,
    "drip.long": drip_long,
    "reset.body": reset_body,
    "stall.body": stall_body,
    "reset.read": reset_read,
    "stall.read": stall_read,
    "half.silent": half_silent,
    "commit.reset": commit_reset,
    "commit.stall": commit_stall,
    "commit.close": commit_close,
    "commit.late": commit_late,
    "commit.too_late": commit_too_late,
    "commit.503": commit_503,
    "reset.answer_head": reset_answer_head,
    "stall.answer_head": stall_answer_head,
    "reset.answer_body": reset_answer_body,
    "stall.answer_body": stall_answer_body,
    "close.answer_body": close_answer_body,
    "early": early,
    "lie.long": lie_long,
    "lie.short": lie_short,
    "lie.both": lie_both,
    "lie.two_lengths": lie_two_lengths,
    "lie.chunk": lie_chunk,
    "garbage": garbage,
    "garbage.after": garbage_after,
    "twice": twice,
    "events": events,
    "events.endless": events_endless,
    "events.stall": events_stall,
    "events.reset": events_reset,
}
