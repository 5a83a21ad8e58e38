"""The head that is sent on: what of the client's passes, and what the budget adds for whom."""

from __future__ import annotations

import base64

import pytest

from proxy.core.policy import BudgetDefaults, Mode, Policy, Route
from proxy.core.units import MILLISECOND
from tests.dataplane.world import World

OUTSIDE = "http://api.example.com/"


@pytest.mark.parametrize(
    ("target", "connected_inside", "propagate", "told"),
    [
        ("http://tool/", False, False, True),
        ("http://tool.ns.svc/", False, False, True),
        ("http://tool.internal/", False, False, True),
        ("http://10.1.2.3/", False, False, True),
        ("http://[fd00::1]/", False, False, True),
        ("http://100.64.3.4/", False, False, True),
        (OUTSIDE, False, False, False),
        ("http://93.184.216.34/", False, False, False),
        ("http://[2606:2800:220:1::1]/", False, False, False),
        (OUTSIDE, True, False, True),
        (OUTSIDE, False, True, True),
    ],
)
def test_the_budget_travels_inside_only(
    target: str, connected_inside: bool, propagate: bool, told: bool
) -> None:
    """A job's id is nobody else's business, unless the route says so, or the name leads to one of our own."""
    world = World(Policy(fallback=Route("fallback", propagate=propagate)))
    world.dialer.inside = connected_inside
    world.client().asks(
        "GET", target, Budget_Id="job", Budget_Remaining_Ms=1000, Budget_Depth=2, Budget_Stage="llm"
    )
    names = ("Budget-Id", "Budget-Remaining-Ms", "Budget-Depth", "Budget-Stage", "Budget-Reserve-Ms")
    expected = ("job", "1000", "3", None, None) if told else (None,) * 5
    assert tuple(world.upstream().field(name) for name in names) == expected


def test_what_is_sent_on_is_what_is_left() -> None:
    """Less what was spent in this step, less what the way back takes, rounded down, and written last."""
    world = World(Policy(budget=BudgetDefaults(hop_allowance=5 * MILLISECOND)))
    world.dialer.held = True
    world.client().asks(Budget_Remaining_Ms=100)
    world.advance(30.5)
    world.dialer.release()
    assert world.upstream().field("Budget-Remaining-Ms") == "64"


def test_a_cleanup_call_and_the_route_decide_what_is_sent_on() -> None:
    """It is the allowance of this step that goes on, not what is left of the job."""
    world = World(Policy(fallback=Route("fallback", cap=50 * MILLISECOND)))
    world.client().asks(Budget_Remaining_Ms=1000, Budget_Reserve_Ms=970)
    assert world.upstream().field("Budget-Remaining-Ms") == "30"
    world.client().asks(Budget_Remaining_Ms=1000, Budget_Reserve_Ms=970, Budget_Phase="cleanup")
    assert world.upstream().field("Budget-Remaining-Ms") == "50"


def test_what_ends_at_this_hop_ends_here() -> None:
    """The connection's own fields, those that it names, and all that is the budget's; the rest stays as it was written."""
    world = World()
    world.client().asks(
        "PUT",
        body=b"{}",
        Connection="keep-alive, X-Hop, Content-Length, Host",
        X_Hop="1",
        x_Odd_CASE="kept",
        Keep_Alive="timeout=5",
        TE="trailers",
        Proxy_Connection="keep-alive",
        Proxy_Authorization="Basic " + base64.b64encode(b"job:").decode(),
        Budget_Outcome="forged",
        Budget_Record="forged",
        Via="1.0 fred",
    )
    head = world.upstream().heads[-1]
    for gone in (b"X-Hop", b"Keep-Alive", b"TE:", b"Proxy-", b"forged", b"Connection"):
        assert gone not in head
    assert b"x-Odd-CASE: kept\r\n" in head
    assert world.upstream().field("Content-Length") == "2"
    assert head.count(b"Host: ") == 1
    assert head.endswith(b"Via: 1.1 waterclock-w\r\n")
    assert world.upstream().field("Via") == "1.0 fred"


def test_the_target_is_sent_on_in_origin_form() -> None:
    """With the authority that the target names, whatever the Host field says (RFC 9112 §3.2.2)."""
    world = World()
    for target, host, asked in (
        ("http://tool/a?b=c", "tool", "/a?b=c"),
        ("http://tool:8080", "tool:8080", "/"),
        ("http://TOOL/?x", "TOOL", "/?x"),
    ):
        world.client().asks("GET", target, Host="elsewhere")
        assert world.upstream().heads[-1].startswith(f"GET {asked} HTTP/1.1\r\nHost: {host}\r\n".encode())


@pytest.mark.parametrize("framing", ["length", "chunked", "none"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_bodies_are_framed_as_they_came(method: str, framing: str) -> None:
    """By length or in chunks, also an empty one; and no body stays no body."""
    world = World()
    wire = {"length": b"0123456789", "chunked": b"4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n", "none": b""}[
        framing
    ]
    fields = {"Transfer_Encoding": "chunked"} if framing == "chunked" else {}
    world.client().asks(method, body=wire, **fields)
    assert world.upstream().field("Content-Length") == ("10" if framing == "length" else None)
    assert world.upstream().field("Transfer-Encoding") == ("chunked" if framing == "chunked" else None)
    body = world.upstream().received.split(b"\r\n\r\n", 1)[1]
    sent = b"".join(line for line in body.split(b"\r\n") if len(line) > 1) if framing == "chunked" else body
    assert sent == (b"" if framing == "none" else b"0123456789")


def test_observing_sends_on_what_would_have_been_allowed() -> None:
    """Nothing is applied here, and a spent budget is not sent on as one that is."""
    world = World(Policy(mode=Mode.OBSERVE))
    world.client().asks(Budget_Remaining_Ms=0)
    assert world.upstream().field("Budget-Remaining-Ms") is None
    world.client().asks(Budget_Remaining_Ms=70)
    assert world.upstream().field("Budget-Remaining-Ms") == "70"
