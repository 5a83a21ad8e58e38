"""Cached answers as they come back from a store or a service: bytes are an entry that is safe to give, or a ValueError."""

from __future__ import annotations

import base64
import json
from typing import Final

from proxy.degrade.cache.entry import Entry, decode, encode
from proxy.semantic.problems import Problem
from proxy.semantic.requests import read_find, read_keep
from proxy.wire.events import END, ResponseHead
from proxy.wire.parser import ResponseParser
from proxy.wire.render import line, response_head
from trials.fuzz.target import Seen, Target, gist, hold


def check(data: bytes) -> Seen:
    """Read the bytes as an entry, and as the two questions of the semantic cache."""
    return _entry(data) | _questions(data)


def _entry(data: bytes) -> set[str]:
    try:
        entry = decode(data)
    except ValueError as error:
        return {f"refused: {gist(str(error))}"}
    hold(encode(entry) == data, "an-entry-reads-back", entry)
    _given(entry)
    return {
        f"entry {entry.status}, fields {min(len(entry.fields), 3)}, varies {len(entry.varies)}, {entry.stale is None}"
    }


def _given(entry: Entry) -> None:
    """What is given of an entry is one whole response, and nothing behind it."""
    fields = [line(name, value) for name, value in entry.fields]
    length = [] if entry.status == 204 else [line(b"Content-Length", b"%d" % len(entry.body))]
    parser = ResponseParser()
    parser.start("GET")
    events = parser.feed(response_head(entry.status, None, [*fields, *length]) + entry.body)
    heads = [event for event in events if isinstance(event, ResponseHead)]
    body = b"".join(event for event in events if isinstance(event, bytes))
    hold(
        len(heads) == 1 and events[-1] is END and body == entry.body,
        "an-entry-is-one-response",
        entry,
        events,
    )


def _questions(data: bytes) -> set[str]:
    seen: set[str] = set()
    for read in (read_find, read_keep):
        try:
            asked = read(data)
        except Problem as problem:
            hold(400 <= problem.status < 500 and str(problem), "a-refusal-is-the-client-s", problem)
            seen.add(f"{read.__name__} {problem.status.value}: {gist(str(problem))}")
        else:
            hold(asked.text.strip() and asked.partition, "a-question-asks", asked)
            asked.text.encode()
            seen.add(f"{read.__name__} taken")
    return seen


def _example() -> bytes:
    entry = Entry(200, ((b"Content-Type", b"a/b"),), b"x", 0, 5, None, 5, ())
    return base64.b64encode(encode(entry))


TARGET: Final = Target(
    "entries",
    "cached answers that come back: an entry that is one safe response, or a ValueError; the semantic cache's questions",
    check,
    tokens=(
        b"WCE\x01",
        b"\x00\xc8",
        b"\x00\x00\x00\x00\x00\x00\x00\x05",
        b"\xff" * 8,
        b"\x7f" + b"\xff" * 7,
        b"\x00\x01",
        b"\x00\x00\x00\x01",
        b"\x00\x04\x00\x01X-Ab",
        b"\r\nX: y",
        b"set-cookie",
        b'{"partition":"p","text":"a","threshold":0.9}',
        b'{"partition":"p","text":"a","entry":"' + _example() + b'","keep_ms":5}',
        json.dumps("\ud800").encode(),
        b'"threshold":1e999',
        b'"threshold":true',
        b'"keep_ms":0',
        b'"entry":""',
        b'"text":" "',
        b"NaN",
        b"null",
    ),
)
