"""Any mix of entry requests, calls, answers, breaks and departures leaves nothing behind, and every budget is told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.policy import LedgerBounds, Mode, OnMissing, Retries, Route, Verify
from tests.dataplane.entrance import EVERY_WAY, TRACE, enters, inbound
from tests.dataplane.world import FakeUpstream, World, response

Step = Callable[[World, int], None]
NAMES = ("a", "b", None)
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade"}


def pick(many: list[Any], which: int) -> Any:
    return many[which % len(many)] if many else None


def enter(method: str, **fields: Any) -> Step:
    def step(world: World, which: int) -> None:
        stated = {"Budget_Id": NAMES[which % 3], "Budget_Remaining_Ms": (None, 300, 3000)[which % 7 % 3]}
        client = pick([c for c in world.clients if not c.transport.closing and _inbound(c)], which)
        if client is None or which % 2:
            client = world.entry_client()
        enters(client, method, f"/{which % 4}", **{**stated, **fields})

    return step


def _inbound(client: Any) -> bool:
    return bool(
        client.protocol.__class__.__name__ == "Client" and client.protocol._serves.__name__ == "Entry"
    )


def call(method: str, **fields: Any) -> Step:
    def step(world: World, which: int) -> None:
        body = b"{}" if method == "POST" else b""
        stated = {"Budget_Id": NAMES[which % 3], "traceparent": TRACE if which % 5 == 0 else None}
        world.client().asks(method, f"http://tool/{which % 3}", body, **{**stated, **fields})

    return step


def asked(world: World) -> list[FakeUpstream]:
    """Connections on which somebody waits for an answer."""
    return [up for up in world.upstreams if not up.closed and up.connection._sink is not None]


def say(wire: bytes) -> Step:
    def step(world: World, which: int) -> None:
        upstream = pick(asked(world), which)
        if upstream is not None:
            upstream.says(wire)

    return step


def break_off(world: World, which: int) -> None:
    upstream = pick(asked(world), which)
    if upstream is not None:
        upstream.breaks_off()


def leave(world: World, which: int) -> None:
    client = pick([client for client in world.clients if not client.transport.closing], which)
    if client is not None:
        client.leaves()


def wait(world: World, which: int) -> None:
    world.advance((1, 100, 260, 1000, 11_000)[which % 5])
    world.plane.attend()


STEPS: list[Step] = [
    enter("GET"),
    enter("POST", traceparent=TRACE),
    enter("GET", User_Agent="kube-probe/1"),
    enter("GET", **UPGRADE),
    enter("GET", Budget_Depth=9),
    enter("GET", Budget_Remaining_Ms="x"),
    call("GET"),
    call("POST"),
    call("POST", Idempotency_Key="k", Budget_Remaining_Ms=5000),
    say(response(200, b"ok")),
    say(response(200, b"ok", Budget_Verdict="incomplete")),
    say(response(503, b"no")),
    say(response(200, b"", Transfer_Encoding="chunked", Content_Type="text/event-stream")),
    say(b"9\r\ndata: 1\n\n\r\n"),
    say(b"0\r\n\r\n"),
    say(b"0\r\nBudget-Verdict: incomplete\r\n\r\n"),
    say(response(101, b"", **UPGRADE)),
    say(response(404, b"")),
    break_off,
    leave,
    wait,
    wait,
]
ROUTE = Route(
    "tool",
    retries=Retries(statuses=frozenset({503})),
    verify=Verify("/orders/{idempotency_key}"),
)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from(range(len(STEPS))), st.integers(0, 209)), max_size=40),
    st.sampled_from(Mode),
    st.sampled_from(OnMissing),
    st.sampled_from([1, 2, 100]),
)
def test_nothing_is_left_behind(
    steps: list[tuple[int, int]], mode: Mode, on_missing: OnMissing, most: int
) -> None:
    """Whatever happens in whatever order."""
    world = inbound(
        ROUTE,
        mode=mode,
        bounds=LedgerBounds(budgets=most),
        on_missing=on_missing,
        depth=5,
        correlate=EVERY_WAY,
    )
    for number, which in steps:
        STEPS[number](world, which)
    for client in world.clients:
        if not client.transport.closing:
            client.leaves()
    for _ in range(4):
        world.advance(20 * 60_000)
        world.plane.attend()
    plane = world.plane
    assert (plane.in_flight, plane.budgets.others, len(plane.verifier)) == (0, 0, 0)
    assert (plane.clients, plane.relays, plane.lingering) == (set(), set(), set())
    assert plane.pool.counts()["active"] == 0
    assert not any(budget.busy for budget in plane.budgets.listed())
    assert plane.budgets.open == 0
    assert world.observed.budgets_opened == len(world.observed.budgets_closed)
    for entry in world.observed.entries:
        if entry.verdict is not None and entry.outcome != "completed":
            assert entry.verdict.startswith("incomplete")
