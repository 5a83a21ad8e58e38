"""The ladder of the example policy between a real client and a model that speaks its dialect: who is asked what, and what comes.

The times are a quarter of those in docs/examples/waterclock.yaml. What decides is how they compare, and a machine may be
busy for as long as the least of the differences, 12 ms.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from proxy.demo.degrade.model import Asked, Model, Voice
from tests.support.callers import Answer, call
from tests.support.model import serving
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.waiting import eventually

EXAMPLE = yaml.safe_load((Path(__file__).parents[2] / "docs" / "examples" / "waterclock.yaml").read_text())
SCALE = 4
AUTO = "3s"
"""What `needs: auto` is taken for: what is measured of a rung is not the same in any two runs."""
MARKS = {"degraded", "degradation_level", "latency_ms"}
"""What `degraded_body` adds to a body."""
SPAN = re.compile(r"([0-9.]+)(ms|s)\Z")
KEY = "Bearer one-of-us"
CHAT = "/chat/v1/chat/completions"
VOICES = {"gpt-4o": Voice(60), "gpt-4o-mini": Voice(40, words=400)}
SMALL_VOICES = {"small": Voice(20)}
_numbers = itertools.count(1)


def scaled(span: str) -> str:
    """A span of the example as it is here."""
    match = SPAN.match(AUTO if span == "auto" else span)
    assert match is not None, span
    number, unit = match.groups()
    return f"{float(number) * (1000 if unit == 's' else 1) / SCALE:g}ms"


class Pod(NamedTuple):
    """A sidecar, and the models behind it: the large ones where the route leads, the small one where a rung does."""

    sidecar: Sidecar
    big: Model
    small: Model

    def ask(
        self,
        remaining_ms: int,
        body: dict[str, Any] | bytes,
        *,
        key: str = KEY,
        path: str = CHAT,
        stated: dict[str, Any] | None = None,
    ) -> Answer:
        """Ask for a chat with so much time."""
        headers = {
            "Content-Type": "application/json",
            "Authorization": key,
            "Budget-Remaining-Ms": remaining_ms,
        }
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return call(self.sidecar, "POST", path, headers=headers | (stated or {}), body=raw)

    @property
    def reached(self) -> list[tuple[str, Asked]]:
        """What has reached a model, whichever."""
        asked = [("big", each) for each in self.big.chats]
        return asked + [("small", each) for each in self.small.chats]


def policy(big: str, small: str, *, cache: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The example's chat route, at a quarter of its times, before these models. `more`: other keys of the route."""
    (route,) = (dict(route) for route in EXAMPLE["routes"] if route["name"] == "chat")
    ladder = [dict(rung) for rung in route["ladder"]]
    for rung in ladder:
        if "needs" in rung:
            rung["needs"] = scaled(rung["needs"])
        if "upstream" in rung:
            rung["upstream"] = small
    nobody = f"http://127.0.0.1:{free_port()}"
    mine = route | {"upstream": big, "ladder": ladder} | more
    return {"routes": [mine], "cache": {"service": nobody} | (cache or {})}


@contextmanager
def standing(voices: dict[str, Voice] = VOICES, *, budget: Any = None, **more: Any) -> Iterator[Pod]:
    """Such a pod, with large models of these voices."""
    with serving(Model(voices)) as big, serving(Model(SMALL_VOICES)) as small:
        document = policy(big.url, small.url, **more) | ({"budget": budget} if budget else {})
        with Sidecar(document) as sidecar:
            yield Pod(sidecar, big, small)


@pytest.fixture(scope="module")
def shared_pod() -> Iterator[Pod]:
    """One for all tests that need the example's route as it is."""
    with standing() as pod:
        yield pod


@pytest.fixture
def pod(shared_pod: Pod) -> Iterator[Pod]:
    """The shared one, with nothing heard yet. A fault that the sidecar reports of itself fails the test in which it did."""
    shared_pod.big.chats.clear()
    shared_pod.small.chats.clear()
    before = len(shared_pod.sidecar.faults)
    yield shared_pod
    assert not shared_pod.sidecar.faults[before:]


def question(**more: Any) -> dict[str, Any]:
    """A chat that nobody has asked for yet."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"What is {next(_numbers)}?"},
    ]
    return {"model": "gpt-4o", "messages": messages} | more


def unmarked(answer: Answer) -> dict[str, Any]:
    """The body without what it says of being less."""
    return {name: value for name, value in json.loads(answer.body).items() if name not in MARKS}


def says(answer: Answer) -> str:
    """The first words of a chat, or what kind of an error it is."""
    document = json.loads(answer.body)
    if "error" in document:
        return str(document["error"]["type"])
    return str(document["choices"][0]["message"]["content"]).partition(",")[0]


class Row(NamedTuple):
    """One call: what it had, which rung it took and why, what reached whom, and what came back."""

    has_ms: int
    rung: str
    reached: str | None
    path: str | None
    model: str | None
    max_tokens: int | None
    with_key: bool | None
    status: int
    says: str
    degraded: str | None
    body_says: int | None
    cache: str | None


def row(pod: Pod, has_ms: int, answer: Answer) -> Row:
    """What became of a call, from everybody who knows of it."""
    reached = pod.reached
    assert len(reached) <= 1, reached
    where, asked = reached[0] if reached else (None, None)
    record = pod.sidecar.record(answer.record)
    assert answer.complete
    assert record["outcome"] == "completed"
    return Row(
        has_ms,
        record["rung"],
        where,
        asked.path if asked else None,
        asked.model if asked else None,
        asked.max_tokens if asked else None,
        "authorization" in asked.headers if asked else None,
        answer.status,
        says(answer),
        answer.get("budget-degraded"),
        json.loads(answer.body).get("degradation_level"),
        record["cache"],
    )


def degraded(level: int, rung: str, why: str) -> str:
    """The header of an answer that is less."""
    return f"level={level}; rung={rung}; stage=llm; reason={why}"


V1 = "/v1/chat/completions"
TABLE = [
    # has      rung      reached  path               model         most   key    status  says            Budget-Degraded             body  cache
    Row(8000, "full",    "big",   V1,                "gpt-4o",      None, True,  200, "[gpt-4o",      None,                          None, None),
    Row(5000, "fast",    "big",   V1,                "gpt-4o-mini", 300,  True,  200, "[gpt-4o-mini", degraded(1, "fast", "time"),    1,   None),
    Row(3000, "minimal", "small", f"{V1}?trace=off", "small",       None, False, 200, "[small",       degraded(2, "minimal", "time"), 2,   None),
    Row(100,  "cached",  None,    None,              None,          None, None,  200, "[gpt-4o",      degraded(3, "cached", "time"),  3,   "hit"),
    Row(1,    "sorry",   None,    None,              None,          None, None,  503, "overloaded",   degraded(4, "sorry", "time"),   4,   None),
]  # fmt: skip


def test_what_is_asked_and_what_comes_at_each_budget(pod: Pod) -> None:
    """The same request with 8 s, 5 s, 3 s, 100 ms and 1 ms (a quarter of these, but for the last)."""
    asks, found = question(), []
    for expected in TABLE:
        pod.big.chats.clear()
        pod.small.chats.clear()
        remaining = max(1, expected.has_ms // SCALE)
        answer = pod.ask(remaining, asks)
        found.append(row(pod, expected.has_ms, answer))
        assert answer.after < remaining + 500
        told = answer.get("cache-status") or ""
        assert ("hit" in told) is (expected.cache == "hit"), told
        assert (answer.get("age") is not None) is (expected.cache == "hit")
    assert found == TABLE


def test_the_kept_answer_is_the_first_one_to_the_letter(pod: Pod) -> None:
    """But for what it says of being less. Spaces and the order of members make no difference."""
    asks = question()
    first = pod.ask(2000, asks)
    again = pod.ask(25, json.dumps(dict(reversed(asks.items())), indent=3).encode())
    assert (again.status, unmarked(again)) == (200, json.loads(first.body))
    assert again.get("content-type") == first.get("content-type")
    assert len(pod.reached) == 1


def test_every_degraded_step_is_told_in_log_and_metrics(pod: Pod) -> None:
    """The record and one event say the same, and the counters count it."""
    answer = pod.ask(1250, question())
    record = pod.sidecar.record(answer.record)
    assert record["degraded"] == {"level": 1, "rung": "fast", "reason": "time", "stage": "llm"}
    event = eventually(
        lambda: next(
            (
                event
                for event in pod.sidecar.events
                if event["event"] == "degraded" and event["record"] == answer.record
            ),
            None,
        )
    )
    told = {name: event[name] for name in ("level", "rung", "reason", "stage", "route", "total_ms")}
    assert told == record["degraded"] | {"route": "chat", "total_ms": 1250}
    assert 0 < event["remaining_ms"] < 1250
    samples = pod.sidecar.samples()
    assert samples['waterclock_rungs_total{route="chat",rung="fast"}'] >= 1
    assert samples['waterclock_degraded_steps_total{reason="time",route="chat",rung="fast"}'] >= 1


SHARES = {
    # What the stage may use: 55% of the budget by itself; with what retrieval leaves of it, 70%. The reserve is 1 s.
    False: {8000: "fast", 5000: "minimal", 3000: "minimal"},
    True: {8000: "full", 5000: "fast", 3000: "minimal"},
}


@pytest.mark.parametrize("carry", [False, True], ids=["own share", "carried over"])
def test_stage_and_reserve_count(carry: bool) -> None:
    """With the shares of the example, less of each budget is left for the model than the budget has."""
    budget = EXAMPLE["budget"]
    mine: dict[str, Any] = {name: scaled(budget[name]) for name in ("default", "reserve")}
    mine["stages"] = {name: scaled(span) for name, span in budget["stages"].items()}
    with standing(budget=mine | {"carry": carry}) as pod:
        answers = {has: pod.ask(has // SCALE, question()) for has in SHARES[carry]}
        rungs = {has: pod.sidecar.record(answer.record)["rung"] for has, answer in answers.items()}
    assert rungs == SHARES[carry]


# -- failures and slowness ------------------------------------------------------------------------------------------


def test_a_model_that_cannot_be_reached_is_stepped_down_from(pod: Pod) -> None:
    """Both rungs that need it fail at once, and the small one elsewhere answers."""
    with Sidecar(policy(f"http://127.0.0.1:{free_port()}", pod.small.url)) as sidecar:
        answer = pod._replace(sidecar=sidecar).ask(2000, question())
        assert says(answer) == "[small"
        assert answer.get("budget-degraded") == degraded(2, "minimal", "failed")


def test_a_model_that_says_nothing_is_left_for_one_that_still_fits() -> None:
    """As late as the small one still has its time, and nobody pays for what nobody hears."""
    with standing({"gpt-4o": Voice(60_000)}) as pod:
        answer = pod.ask(2000, question())
        assert says(answer) == "[small"
        assert answer.get("budget-degraded") == degraded(2, "minimal", "slow")
        assert 1250 <= answer.after < 2000
        eventually(lambda: pod.big.cut == 1, what="the model has seen its caller leave")


# -- what is hostile, or merely odd ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [b"model=gpt-4o&q=1", b'{"model": "gpt-4o", "messages": [', b'{"a": 1, "a": 2}', b"\xff\xfe{}", b"[1]"],
)
def test_a_body_that_cannot_be_rewritten_goes_to_no_model_that_needs_it(pod: Pod, body: bytes) -> None:
    """With time enough it goes as it is; with less there is nothing true to send, and the apology is what is left."""
    whole = pod.ask(2000, body)
    assert (whole.status, whole.get("budget-degraded")) == (400, None)
    assert [asked.body for _, asked in pod.reached] == [body]
    pod.big.chats.clear()
    less = pod.ask(1250, body)
    assert (less.status, says(less)) == (503, "overloaded")
    assert less.get("budget-degraded") == degraded(4, "sorry", "body")
    assert pod.reached == []


def test_a_place_that_is_not_there_is_stepped_down_from(pod: Pod) -> None:
    """A rung may add the last name of a place, but nothing that leads to it; what it cannot change it does not send."""
    ladder = [
        {"name": "full", "needs": "1250ms", "set": {"json": {"$.metadata.trace": "yes"}}},
        {"name": "colder", "needs": "750ms", "set": {"json": {"$.options.temperature": 0}}},
        {"name": "last", "needs": "750ms", "set": {"json": {"$.messages[7]": "x"}}},
        {
            "name": "other",
            "needs": "375ms",
            "set": {"json": {"$.messages[-1].content": "Say less.", "$.n": 1}},
        },
    ]
    with Sidecar(policy(pod.big.url, pod.small.url, ladder=ladder)) as sidecar:
        mine = pod._replace(sidecar=sidecar)
        answer = mine.ask(2000, question())
        assert answer.get("budget-degraded") == degraded(3, "other", "body")
        ((_, asked),) = mine.reached
        assert asked.asked["messages"][-1]["content"] == "Say less."
        assert (asked.asked["n"], asked.asked["messages"][0]["content"]) == (1, "Be brief.")
        there = mine.ask(1200, question(options={"temperature": 1}))
        assert there.get("budget-degraded") == degraded(1, "colder", "time")


def test_an_answer_larger_than_the_bound_is_relayed_and_not_kept() -> None:
    """Its caller gets all of it, and the next one nothing."""
    with standing({"gpt-4o": Voice(1, words=1000)}, cache={"bytes": "64KiB", "entry_bytes": "4KiB"}) as pod:
        asks = question()
        whole = pod.ask(2000, asks)
        assert (whole.status, whole.complete) == (200, True)
        assert len(whole.body) > 4096
        again = pod.ask(25, asks)
        assert (again.status, again.get("budget-degraded")) == (503, degraded(4, "sorry", "time"))
        assert pod.sidecar.record(again.record)["cache"] == "miss"
        assert pod.sidecar.samples()["waterclock_cache_entries"] == 0


def test_callers_with_different_keys_are_not_given_each_others_answers(pod: Pod) -> None:
    """However equal their questions."""
    asks = question()
    pod.ask(2000, asks, key="Bearer alice")
    for stranger in ("Bearer bob", "Bearer Alice", "Basic alice"):
        theirs = pod.ask(25, asks, key=stranger)
        assert (theirs.status, theirs.get("budget-degraded")) == (503, degraded(4, "sorry", "time"))
        assert pod.sidecar.record(theirs.record)["cache"] == "miss"
    hers = pod.ask(25, asks, key="Bearer alice")
    assert (hers.status, says(hers)) == (200, "[gpt-4o")
    assert len(pod.reached) == 1


def test_a_route_may_share_its_answers_on_purpose(pod: Pod) -> None:
    """Then, and only then, one caller is given what another has asked for."""
    document = policy(pod.big.url, pod.small.url)
    document["routes"][0]["cache"] = {"share": True}
    with Sidecar(document) as sidecar:
        mine, asks = pod._replace(sidecar=sidecar), question()
        first = mine.ask(2000, asks, key="Bearer alice")
        theirs = mine.ask(25, asks, key="Bearer bob")
        assert (theirs.status, unmarked(theirs)) == (200, json.loads(first.body))


def test_another_body_of_the_same_length_is_another_question(pod: Pod) -> None:
    """One digit is enough."""
    asks = question()
    pod.ask(2000, asks)
    other = json.loads(json.dumps(asks).replace("Be brief.", "Be briel."))
    assert pod.ask(25, other).status == 503
    assert pod.ask(25, asks).status == 200
