"""Events: in the background, counted where they repeat, and never more than the API server should be asked to take."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from proxy.kube.cluster import EVENTS, ClusterError
from proxy.kube.events import Events, Happening, happening
from proxy.kube.injection.decision import Decision, Reason, Verdict
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.manual import ManualTime, settle
from tests.kube.server.reviews import DEPLOYMENT, pod

WHAT = Happening(
    "agents", "apps/v1", "ReplicaSet", "web-1", "u", "Injected", "Normal", "The sidecar was added."
)


class Counts:
    """What became of Events."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def labels(self, result: str) -> Any:
        class _One:
            def inc(_self) -> None:  # noqa: N805 - the outer one is meant by self
                self.of[result] += 1

        return _One()


class Stage:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.namespace("agents")
        self.time = ManualTime()
        self.counts = Counts()
        self.events = Events(
            self.cluster, self.counts, "injector-1", clock=self.time.clock, pause=self.time.pause
        )
        self.task = asyncio.get_running_loop().create_task(self.events.run())

    def count(self) -> int:
        (event,) = self.cluster.of(EVENTS)
        count: int = event["count"]
        return count


@pytest.fixture
async def stage() -> Any:
    made = Stage()
    yield made
    made.task.cancel()
    await settle()


async def test_written_as_kubectl_expects_it(stage: Stage) -> None:
    stage.events.tell(WHAT)
    await settle()
    (event,) = stage.cluster.of(EVENTS)
    assert event["metadata"]["name"].startswith("web-1.")
    assert event["source"]["component"] == event["reportingComponent"] == "waterclock-injector"
    assert event["reportingInstance"] == "injector-1"
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert event["firstTimestamp"].endswith("Z")


async def test_the_same_is_counted_for_ten_minutes(stage: Stage) -> None:
    for _ in range(3):
        stage.events.tell(WHAT)
    await stage.time.advance(2)
    assert stage.count() == 3
    stage.events.tell(WHAT)
    await stage.time.advance(2)
    assert stage.count() == 4
    assert stage.counts.of == {"created": 1, "updated": 1}
    await stage.time.advance(600)
    stage.events.tell(WHAT)
    await stage.time.advance(2)
    assert [each["count"] for each in stage.cluster.of(EVENTS)] == [4, 1]


async def test_one_that_is_gone_is_made_again(stage: Stage) -> None:
    stage.events.tell(WHAT)
    await stage.time.advance(2)
    await stage.cluster.delete(EVENTS, stage.cluster.of(EVENTS)[0]["metadata"]["name"], "agents")
    stage.events.tell(WHAT)
    await stage.time.advance(2)
    assert stage.count() == 1
    assert stage.counts.of == {"created": 2}


async def test_a_crowd_is_bounded(stage: Stage) -> None:
    """What waits, and what is written a second."""
    for number in range(1000):
        stage.events.tell(replace(WHAT, name=f"p{number}"))
    assert stage.counts.of["dropped"] == 1000 - 256
    await stage.time.advance(5)
    assert 90 <= len(stage.cluster.of(EVENTS)) <= 102
    await stage.time.advance(60)
    assert len(stage.cluster.of(EVENTS)) == 256


async def test_a_failure_is_counted_and_the_rest_goes_on(stage: Stage) -> None:
    stage.cluster.fail("create", EVENTS, error=ClusterError("no"), times=1)
    stage.events.tell(WHAT)
    stage.events.tell(replace(WHAT, name="web-2"))
    stage.events.tell(replace(WHAT, name="web-3", namespace="deleted-meanwhile"))
    await stage.time.advance(3)
    assert stage.counts.of == {"failed": 2, "created": 1}


REFUSED = Decision(Verdict.REFUSED, Reason.USER_ID_CLASH, "The pod runs as user 2180.")


def test_about_the_controller_or_the_pod() -> None:
    said = happening(pod(owner=DEPLOYMENT), "agents", "", REFUSED)
    assert said is not None
    assert (said.kind, said.name) == ("ReplicaSet", "web-5c7779958f")
    assert (said.reason, said.type, said.message) == (
        "Refused",
        "Warning",
        "UserIdClash: The pod runs as user 2180.",
    )
    said = happening(pod(name="a"), "agents", "", REFUSED)
    assert said is not None
    assert (said.api_version, said.kind, said.name, said.uid) == ("v1", "Pod", "a", "")


@pytest.mark.parametrize("reason", [Reason.NOT_REQUESTED, Reason.NOT_A_POD, Reason.NOT_A_CREATION])
def test_of_what_nobody_asked_for_nothing_is_said(reason: Reason) -> None:
    assert happening(pod(), "agents", "a", Decision(Verdict.SKIPPED, reason, "No.")) is None


@pytest.mark.parametrize("owners", [None, 7, "x", [], [None], [{}], [{"controller": True}], [{"controller": "true", "kind": "X"}]])  # fmt: skip
def test_owners_of_any_shape(owners: Any) -> None:
    of = pod(name="a")
    of["metadata"]["ownerReferences"] = owners
    said = happening(of, "agents", "", REFUSED)
    assert said is not None
    assert said.kind == "Pod"


def test_a_message_is_one_line_of_a_kilobyte() -> None:
    said = happening(pod(), "agents", "a", Decision(Verdict.REFUSED, "Bad", "x\n\x1b[31m" * 1000))
    assert said is not None
    assert len(said.message.encode()) <= 1024
    assert said.message.isprintable()
