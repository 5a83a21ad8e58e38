"""Leader election: one leads, never two; the next one follows soon, and at once when the lease is given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

import pytest

from proxy.kube.cluster import LEASES, NAMESPACES, ClusterError, Object
from proxy.kube.election import Election
from tests.kube.fake_cluster import FakeCluster
from tests.kube.server.manual import ManualTime, settle

SYSTEM = "waterclock-system"
NAME = "waterclock-injector"


def owner(cluster: FakeCluster) -> Object:
    """What owns the lease here: the namespace."""
    found = cluster.peek(NAMESPACES, SYSTEM)
    assert found is not None
    return {"apiVersion": "v1", "kind": "Namespace", "name": SYSTEM, "uid": found["metadata"]["uid"]}


class Candidate:
    """A candidate that runs, and how many times it has led."""

    def __init__(self, shared: FakeCluster, name: str, time: ManualTime) -> None:
        self.way = shared.another_way()
        self.terms = 0
        self._working = False
        self.told: list[tuple[bool, str]] = []
        self.troubles: list[ClusterError] = []
        self.owners: list[Object] = [owner(shared)]
        self.election = Election(
            self.way,
            SYSTEM,
            NAME,
            name,
            owners=lambda: self.owners,
            clock=time.clock,
            pause=time.pause,
            on_change=lambda leads, holder: self.told.append((leads, holder)),
            on_trouble=self.troubles.append,
        )
        self.task = asyncio.get_running_loop().create_task(self.election.run(self.lead))

    async def lead(self) -> None:
        self.terms += 1
        self._working = True
        try:
            await asyncio.Event().wait()
        finally:
            self._working = False

    def works(self) -> bool:
        """Say whether it leads: whether what the leader does is going on."""
        return self._working

    async def stop(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.namespace(SYSTEM)
    return made


@pytest.fixture
def time() -> ManualTime:
    return ManualTime()


async def test_one_of_two_leads(cluster: FakeCluster, time: ManualTime) -> None:
    a = Candidate(cluster, "a", time)
    await settle()
    b = Candidate(cluster, "b", time)
    await time.advance(300)
    assert (a.works(), b.works()) == (True, False)
    assert (a.election.is_leader, b.election.is_leader) == (True, False)
    lease = cluster.peek(LEASES, NAME, SYSTEM)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == "a"
    assert lease["spec"]["leaseDurationSeconds"] == 15
    assert lease["spec"]["leaseTransitions"] == 0
    assert lease["metadata"]["ownerReferences"] == [owner(cluster)]
    await b.stop()
    await a.stop()


async def test_released_on_the_way_out(cluster: FakeCluster, time: ManualTime) -> None:
    """The next one leads at its next look, after two seconds, not after fifteen."""
    a = Candidate(cluster, "a", time)
    await settle()
    b = Candidate(cluster, "b", time)
    await time.advance(60)
    await a.stop()
    assert not a.works()
    await time.advance(2)
    assert b.works()
    assert a.told == [(True, "a"), (False, "a")]
    assert b.told == [(True, "b")]
    lease = cluster.peek(LEASES, NAME, SYSTEM)
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] == 1
    await b.stop()


async def test_taken_over_when_the_holder_is_gone(cluster: FakeCluster, time: ManualTime) -> None:
    a = Candidate(cluster, "a", time)
    await settle()
    b = Candidate(cluster, "b", time)
    await time.advance(10)
    a.way.fail("get", error=ClusterError("no route"), times=-1)
    a.way.fail("replace", error=ClusterError("no route"), times=-1)
    await time.advance(9)
    assert (a.works(), b.works()) == (True, False)  # one failure is no reason to stop
    await time.advance(2)
    assert (a.works(), b.works()) == (False, False)  # the holder stops before anybody else may begin
    await time.advance(8)
    assert (a.works(), b.works()) == (False, True)
    assert a.troubles
    await b.stop()
    await a.stop()


async def test_a_request_that_hangs_does_not_hold_the_lease(cluster: FakeCluster, time: ManualTime) -> None:
    a = Candidate(cluster, "a", time)
    await settle()
    b = Candidate(cluster, "b", time)
    await time.advance(10)
    a.way.open.clear()
    await time.advance(11)
    assert (a.works(), b.works()) == (False, False)
    await time.advance(10)
    assert (a.works(), b.works()) == (False, True)
    a.way.open.set()
    await time.advance(60)
    assert (a.works(), b.works()) == (False, True)
    await b.stop()
    await a.stop()


async def test_leads_again_when_the_server_is_back(cluster: FakeCluster, time: ManualTime) -> None:
    a = Candidate(cluster, "a", time)
    await time.advance(10)
    a.way.fail("get", error=ClusterError("no route"), times=-1)
    await time.advance(60)
    assert not a.works()
    a.way.mend()
    await time.advance(2)
    assert a.works()
    assert a.terms == 2
    await a.stop()


async def test_stops_when_somebody_else_holds_it(cluster: FakeCluster, time: ManualTime) -> None:
    """Somebody has edited the lease by hand: the holder it names counts."""
    a = Candidate(cluster, "a", time)
    await time.advance(10)
    await cluster.patch(LEASES, NAME, {"spec": {"holderIdentity": "somebody"}}, SYSTEM)
    await time.advance(2)
    assert not a.works()
    await time.advance(20)
    assert a.works()  # who is named does not renew
    await a.stop()


async def test_a_deleted_lease_is_made_again(cluster: FakeCluster, time: ManualTime) -> None:
    a = Candidate(cluster, "a", time)
    await time.advance(10)
    await cluster.delete(LEASES, NAME, SYSTEM)
    await time.advance(2)
    assert a.works()
    assert a.terms == 1
    assert cluster.peek(LEASES, NAME, SYSTEM) is not None
    await a.stop()


async def test_uninstalled_nobody_leads(cluster: FakeCluster, time: ManualTime) -> None:
    """What would own the lease is gone, and the lease with it: it is not made again."""
    a = Candidate(cluster, "a", time)
    await time.advance(10)
    a.owners = []
    await cluster.delete(LEASES, NAME, SYSTEM)
    await time.advance(60)
    assert not a.works()
    assert cluster.of(LEASES) == []
    a.owners = [owner(cluster)]
    await time.advance(2)
    assert a.works()
    await a.stop()


async def test_release_does_not_wait_for_a_server_that_hangs(cluster: FakeCluster, time: ManualTime) -> None:
    a = Candidate(cluster, "a", time)
    await time.advance(10)
    a.way.open.clear()
    async with asyncio.timeout(30):
        await a.stop()


async def test_a_fault_of_the_work_is_not_hidden(cluster: FakeCluster, time: ManualTime) -> None:
    """It ends the candidacy, and the lease is free for the others."""

    async def broken() -> None:
        raise RuntimeError("a fault")

    election = Election(
        cluster, SYSTEM, NAME, "a", owners=lambda: [owner(cluster)], clock=time.clock, pause=time.pause
    )
    with pytest.raises(ExceptionGroup) as fault:
        await election.run(broken)
    assert fault.group_contains(RuntimeError)
    assert not election.is_leader
    lease = cluster.peek(LEASES, NAME, SYSTEM)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("seed", range(8))
async def test_never_two(seed: int, cluster: FakeCluster, time: ManualTime) -> None:
    """Three candidates whose ways to the server fail and hang by chance: at each moment at most one works."""
    chance = random.Random(seed)
    candidates: list[Candidate] = []

    def check() -> None:
        assert sum(each.works() for each in candidates) <= 1

    for name in "abc":
        candidates.append(Candidate(cluster, name, time))
        await settle()
    for _ in range(80):
        one = chance.choice(candidates)
        actions: list[Callable[[], object]] = [
            one.way.open.clear,
            one.way.open.set,
            one.way.mend,
            partial(one.way.fail, "replace", error=ClusterError("no"), times=chance.randint(1, 9)),
            partial(one.way.fail, "get", error=ClusterError("no"), times=chance.randint(1, 9)),
        ]
        chance.choice(actions)()
        for _ in range(chance.randint(1, 12)):
            await time.advance(chance.choice([0.3, 1, 2.5]))
            check()
    for each in candidates:
        each.way.mend()
        each.way.open.set()
    await time.advance(40)
    assert sum(each.works() for each in candidates) == 1
    assert sum(each.terms for each in candidates) > 1
    for each in candidates:
        await each.stop()
