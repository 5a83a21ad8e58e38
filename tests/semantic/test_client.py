"""The sidecar's side of the semantic cache: what it asks, what it believes, and how it does without."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.degrading import CachePolicy, CacheUse
from proxy.core.json_path import parse
from proxy.core.policy import Connections, Policy
from proxy.core.units import MILLISECOND, MINUTE, SECOND
from proxy.core.upstream import Upstream
from proxy.degrade.cache import semantic
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.breaker import SHORTEST
from proxy.degrade.cache.entry import Entry, decode, encode
from proxy.degrade.cache.remote import Brought, Remote
from proxy.degrade.cache.semantic import MOST_PENDING, MOST_TELLING, MOST_TEXT, SemanticClient
from proxy.semantic.reading.tokens import MOST_CHARACTERS
from tests.dataplane.world import FakeUpstream, World

USE = CacheUse(semantic=0.9, text=parse("$.q"))
ASKED = Asked("0" * 64, "p" * 64, "a table for two")
ENTRY = Entry(200, ((b"Content-Type", b"text/plain"),), b"yes", 0, MINUTE, None, MINUTE)
WITHIN = 50 * MILLISECOND


class Pod:
    """A sidecar with the client, in a world without sockets."""

    def __init__(self, policy: CachePolicy | None = None, world: World | None = None, path: str = "") -> None:
        self.policy = policy if policy is not None else CachePolicy()
        self.world = world if world is not None else World()
        self.failures = 0
        plane = self.world.plane
        self.client = SemanticClient(
            plane.loop,
            plane.clock,
            plane.pool,
            Upstream("http", "cache.example", 10805, path),
            lambda: self.policy,
            lambda: plane.policy.connections,
            self._failed,
        )
        self.remote: Remote = self.client

    def _failed(self) -> None:
        self.failures += 1

    def asks(self, asked: Asked = ASKED, use: CacheUse = USE, within: int = WITHIN) -> list[Brought]:
        """Ask, and return what it will bring."""
        brought: list[Brought] = []
        self.client.find(asked, use, within, brought.append)
        assert brought == [], "nobody is called from inside"
        self.world.loop.settle()
        return brought

    def hears(self, document: object, status: int = 200) -> FakeUpstream:
        """Let the service answer."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        upstream = self.world.upstream().answers(body, status)
        self.world.loop.settle()
        return upstream

    @property
    def at_rest(self) -> bool:
        return self.world.plane.pool.counts()["active"] == 0


def found(**more: Any) -> dict[str, Any]:
    """What the service says when it has found an answer."""
    entry = base64.b64encode(encode(ENTRY)).decode()
    return {"found": True, "entry": entry, "age_ms": 7, "similarity": 0.95, "text": "a table for 2"} | more


def sent(upstream: FakeUpstream) -> tuple[str, dict[str, Any]]:
    """The path of the last request that came, and its body."""
    head, _, body = upstream.received.rpartition(b"\r\n\r\n")
    return head.rpartition(b"POST ")[2].split(b" ")[0].decode(), json.loads(body)


# -- asked -----------------------------------------------------------------------------------------------------------


def test_an_answer_is_brought_with_the_time_it_has_been_kept() -> None:
    pod = Pod()
    brought = pod.asks()
    upstream = pod.world.upstream()
    assert sent(upstream) == (
        "/v1/find",
        {"partition": "p" * 64, "text": "a table for two", "threshold": 0.9},
    )
    assert upstream.field("Host") == "cache.example:10805"
    assert upstream.field("Content-Type") == "application/json"
    pod.hears(found())
    assert brought == [(ENTRY, 7 * MILLISECOND)]
    assert pod.asks() == []
    assert len(pod.world.upstreams) == 1, "the connection is used again"
    assert pod.failures == 0


def test_nothing_found_is_no_failure() -> None:
    pod = Pod()
    brought = pod.asks()
    pod.hears({"found": False, "nearest": 0.4, "why": "below the threshold"})
    assert (brought, pod.failures) == ([None], 0)


def test_a_path_goes_before_those_of_the_service() -> None:
    pod = Pod(path="/cache")
    pod.asks()
    assert sent(pod.world.upstream())[0] == "/cache/v1/find"


def test_through_a_parent_proxy_it_is_asked_in_absolute_form() -> None:
    policy = Policy(connections=Connections(proxy=Upstream("http", "parent", 3128, userinfo="u:p")))
    world = World(policy)
    world.dialer.via_parent = True
    pod = Pod(world=world)
    pod.asks()
    upstream = world.upstream()
    assert sent(upstream)[0] == "http://cache.example:10805/v1/find"
    assert upstream.field("Proxy-Authorization") == "Basic dTpw"


@pytest.mark.parametrize(
    ("asked", "use", "within"),
    [
        (ASKED._replace(text=None, partition=None), USE, WITHIN),
        (ASKED._replace(partition=None), USE, WITHIN),
        (ASKED._replace(text="x" * (MOST_TEXT + 1)), USE, WITHIN),
        (ASKED._replace(text="half \ud800"), USE, WITHIN),
        (ASKED, CacheUse(), WITHIN),
        (ASKED, USE, 0),
        (ASKED, USE, -1),
    ],
)
def test_what_cannot_be_asked_brings_nothing_and_opens_nothing(
    asked: Asked, use: CacheUse, within: int
) -> None:
    pod = Pod()
    assert pod.asks(asked, use, within) == [None]
    assert pod.world.upstreams == []


BAD = [
    b"",
    b"what?",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"found": 1}',
    b'{"found": true}',
    b"[" * 100_000,
    found(entry=None),
    found(entry="é"),
    found(entry="AAA"),
    found(entry=base64.b64encode(b"no entry of ours").decode()),
    found(entry=base64.b64encode(encode(ENTRY)[:-1]).decode()),
    found(age_ms=-1),
    found(age_ms=True),
    found(age_ms=1.5),
    found(age_ms=10**30),
    found(age_ms=61_000),
    found(similarity=0.89),
    found(similarity=1.1),
    found(similarity=10**400),
    found(similarity=-(10**400)),
    found(age_ms=10**400),
    found(similarity=True),
    found(similarity="0.95"),
    found(similarity=None),
    json.dumps(found()).encode().replace(b"0.95", b"NaN"),
    json.dumps(found()).encode().replace(b"0.95", b"Infinity"),
]


@pytest.mark.parametrize("said", BAD, ids=[str(number) for number in range(len(BAD))])
def test_what_the_service_never_says_is_nothing(said: object) -> None:
    """A poisoned service costs an answer, and is left alone for a while."""
    pod = Pod()
    brought = pod.asks()
    pod.hears(said)
    assert (brought, pod.failures) == ([None], 1)
    assert pod.asks() == [None]
    assert len(pod.world.upstream().heads) == 1


@given(st.binary(max_size=200) | st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["found", "entry", "age_ms", "similarity", "text"]), inner, max_size=5), max_leaves=8))  # fmt: skip
def test_whatever_it_says_the_call_goes_on(said: object) -> None:
    pod = Pod()
    brought = pod.asks()
    pod.hears(said)
    assert brought == [None]


@pytest.mark.parametrize("status", [204, 302, 400, 404, 500, 503])
def test_another_status_is_a_failure(status: int) -> None:
    pod = Pod()
    brought = pod.asks()
    if status == 204:
        pod.world.upstream().says(b"HTTP/1.1 204 No Content\r\n\r\n")
    else:
        pod.hears(found(), status)
    pod.world.loop.settle()
    assert (brought, pod.failures) == ([None], 1)


def test_a_text_that_is_too_long_in_the_form_that_is_compared_is_no_failure() -> None:
    """Some characters are many in it."""
    pod = Pod()
    brought = pod.asks()
    pod.hears({}, 413)
    assert (brought, pod.failures) == ([None], 0)


def test_an_answer_longer_than_an_entry_may_be_is_dropped_before_it_is_there() -> None:
    pod = Pod(CachePolicy(entry_bytes=1_000))
    brought = pod.asks()
    upstream = pod.world.upstream()
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 100_000)
    pod.world.loop.settle()
    assert (brought, pod.failures) == ([None], 1)
    assert upstream.closed


def test_an_entry_larger_than_the_policy_allows_is_nothing() -> None:
    """Though the answer that it comes in is not too long."""
    pod = Pod(CachePolicy(entry_bytes=1_000))
    large = Entry(200, (), b"x" * 40_000, 0, MINUTE, None, MINUTE)
    brought = pod.asks()
    pod.hears(found(entry=base64.b64encode(encode(large)).decode()))
    assert (brought, pod.failures) == ([None], 1)


def test_a_service_that_hangs_costs_its_time_and_no_more() -> None:
    pod = Pod()
    brought = pod.asks()
    pod.world.advance(49)
    assert brought == []
    pod.world.advance(2)
    assert (brought, pod.failures, pod.at_rest) == ([None], 1, True)
    assert pod.asks() == [None], "and is not asked again at once"
    pod.world.advance(SHORTEST / MILLISECOND)
    probe, beside = pod.asks(), pod.asks()
    assert (probe, beside) == ([], [None]), "one question tries it"
    pod.hears(found())
    assert probe == [(ENTRY, 7 * MILLISECOND)]
    assert pod.asks() == []


def test_less_time_than_the_service_may_take_says_nothing_of_it() -> None:
    pod = Pod()
    brought = pod.asks(within=5 * MILLISECOND)
    pod.world.advance(6)
    assert (brought, pod.failures) == ([None], 0)
    assert pod.asks() == []


def test_a_service_that_is_gone() -> None:
    world = World()
    world.dialer.refused.add("cache.example")
    pod = Pod(world=world)
    assert pod.asks() == [None]
    assert pod.failures == 1


def test_a_question_that_is_withdrawn_brings_nothing() -> None:
    """Whenever that is: before it is sent, while it waits, after it was answered."""
    pod = Pod()
    brought: list[Brought] = []
    withdraw = pod.client.find(ASKED, USE, WITHIN, brought.append)
    withdraw()
    pod.world.advance(1000)
    withdraw = pod.client.find(ASKED, USE, WITHIN, brought.append)
    pod.world.loop.settle()
    pod.hears(found())
    assert brought == [(ENTRY, 7 * MILLISECOND)]
    withdraw()
    withdraw()
    refused = pod.client.find(ASKED, CacheUse(), WITHIN, brought.append)
    refused()
    pod.world.advance(1000)
    assert (len(brought), pod.failures, pod.at_rest) == (1, 0, True)


def test_a_probe_that_is_withdrawn_lets_the_next_one_try() -> None:
    pod = Pod()
    pod.asks()
    pod.hears(b"what?")
    pod.world.advance(SHORTEST / MILLISECOND)
    pod.client.find(ASKED, USE, WITHIN, lambda _: None)()
    brought = pod.asks()
    pod.hears(found())
    assert brought == [(ENTRY, 7 * MILLISECOND)]


def test_no_more_questions_are_on_their_way_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PENDING > 3
    monkeypatch.setattr(semantic, "MOST_PENDING", 3)
    pod = Pod()
    brought = [pod.asks() for _ in range(5)]
    assert brought == [[], [], [], [None], [None]]
    pod.world.advance(60)
    assert brought == [[None]] * 5


# -- told ------------------------------------------------------------------------------------------------------------


def test_an_answer_is_told_as_it_is_kept() -> None:
    pod = Pod()
    pod.client.keep(ASKED._replace(text='say "ü"\n'), ENTRY)
    pod.world.loop.settle()
    path, body = sent(pod.world.upstream())
    entry = base64.b64decode(body.pop("entry"))
    assert (path, body) == (
        "/v1/keep",
        {"partition": "p" * 64, "text": 'say "ü"\n', "keep_ms": 60_000},
    )
    assert decode(entry) == ENTRY
    pod.world.upstream().says(b"HTTP/1.1 204 No Content\r\n\r\n")
    pod.client.keep(ASKED, ENTRY)
    pod.world.loop.settle()
    assert (len(pod.world.upstreams), pod.failures) == (1, 0)


@pytest.mark.parametrize(
    ("asked", "entry"),
    [
        (ASKED._replace(partition=None), ENTRY),
        (ASKED._replace(text=None), ENTRY),
        (ASKED._replace(text="x" * (MOST_TEXT + 1)), ENTRY),
        (ASKED._replace(text="\udfff"), ENTRY),
        (ASKED, Entry(200, (), b"x" * 2_000_000, 0, MINUTE, None, MINUTE)),
    ],
)
def test_what_cannot_be_kept_is_not_told(asked: Asked, entry: Entry) -> None:
    pod = Pod()
    pod.client.keep(asked, entry)
    pod.world.loop.settle()
    assert pod.world.upstreams == []


def test_an_answer_that_is_too_large_there_is_no_failure() -> None:
    pod = Pod()
    pod.client.keep(ASKED, ENTRY)
    pod.world.loop.settle()
    pod.hears({}, 413)
    assert pod.failures == 0


def test_telling_fails_by_itself_and_asking_goes_on() -> None:
    pod = Pod()
    pod.client.keep(ASKED, ENTRY)
    pod.world.loop.settle()
    pod.hears({}, 500)
    assert pod.failures == 1
    pod.client.keep(ASKED, ENTRY)
    brought = pod.asks()
    assert sent(pod.world.upstream())[0] == "/v1/find"
    pod.hears(found())
    assert brought == [(ENTRY, 7 * MILLISECOND)]


def test_telling_is_given_up_after_its_time() -> None:
    pod = Pod()
    pod.client.keep(ASKED, ENTRY)
    pod.world.advance(1_001)
    assert (pod.failures, pod.at_rest) == (1, True)


def test_no_more_is_on_its_way_than_may_be() -> None:
    """Neither in answers nor in bytes; what is over it is not kept there."""
    pod = Pod()
    for _ in range(MOST_TELLING + 5):
        pod.client.keep(ASKED, ENTRY)
    pod.world.loop.settle()
    assert len(pod.world.upstreams) == MOST_TELLING
    large = Pod(CachePolicy(entry_bytes=4 << 20))
    for _ in range(5):
        large.client.keep(ASKED, Entry(200, (), b"x" * (3 << 20), 0, MINUTE, None, MINUTE))
    large.world.loop.settle()
    assert len(large.world.upstreams) == 2


def test_closing_breaks_everything_off() -> None:
    """Those who ask hear that there is nothing, and nothing is asked any more."""
    pod = Pod()
    brought = pod.asks()
    pod.client.keep(ASKED, ENTRY)
    pod.world.loop.settle()
    pod.client.close()
    assert brought == [], "nobody is called from inside"
    pod.world.loop.settle()
    assert brought == [None]
    assert pod.at_rest
    assert pod.asks() == [None]
    pod.client.keep(ASKED, ENTRY)
    pod.world.advance(2 * SECOND / MILLISECOND)
    assert (len(pod.world.upstreams), pod.failures) == (2, 0)


def test_both_sides_compare_texts_of_one_length() -> None:
    """A longer one is not sent, and would be turned away."""
    assert MOST_TEXT == MOST_CHARACTERS
