"""A call that stands behind another on its client's connection, and is due with it: it is answered once, and recorded once."""

from __future__ import annotations

import re

from proxy.core.policy import Match, Policy, Route
from tests.dataplane.world import World, request

FEW = Route("few", Match(host=re.compile("few")), max_attempts=2)


def test_two_calls_of_one_connection_that_are_due_together_are_answered_once_each() -> None:
    """The second begins as the first is cut, in the same ring: it is too late at once, and then its own alarm comes up."""
    world = World(Policy(routes=(FEW,)))
    world.client()  # with an alarm of its own, so that more than one place is looked at in a ring
    first = request("GET", "http://few/", Budget_Id="job", Budget_Remaining_Ms=50)
    second = request("GET", "http://tool/", Budget_Id="job", Budget_Remaining_Ms=50)
    client = world.client().sends(first + second)
    world.advance(60)
    assert client.statuses == [504, 504]
    assert [record.outcome for record in world.records] == ["deadline_exceeded"] * 2
    world.at_rest()
