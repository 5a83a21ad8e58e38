"""What time does to a tunnel: budgets that end it, bursts that take too long, silences that last."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest

from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream, Wire
from tests.ways.tunnels import Tunnel, chatter, echo, silence

SLACK = 1500.0
CAP, QUIET, IDLE = 300, 50, 400


def user(name: str, remaining_ms: int | None = None) -> dict[str, str]:
    """What a client sends whose proxy URL is `http://name:remaining@…`."""
    pair = f"{name}:{'' if remaining_ms is None else remaining_ms}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


# -- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_use", [False, True])
@pytest.mark.parametrize("by", ["header", "proxy user"])
def test_a_stated_budget_ends_the_tunnel(sidecar: Sidecar, budget: str, by: str, in_use: bool) -> None:
    """Idle or not. In use it is a reset, since nobody here knows what a FIN means to those two."""
    headers = {"Budget-Id": budget, "Budget-Remaining-Ms": 200} if by == "header" else user(budget, 200)
    with Upstream(talk=silence) as upstream, Tunnel(sidecar, upstream.authority, headers) as tunnel:
        if in_use:
            tunnel.add(b"order tea")
        _, after = tunnel.until_ended()
        assert 200 <= after < 200 + SLACK
        assert tunnel.ended_by == ("reset" if in_use else "fin")
        (record,) = sidecar.records_of(budget)
        assert (record["kind"], record["outcome"], record["reason"]) == (
            "opaque",
            "deadline_exceeded",
            "budget_remaining",
        )
        assert record["effect"] == ("uncertain" if in_use else "reported")
        assert record["elapsed_ms"] >= 200
        upstream.wait(lambda up: not up.open)
    told = call(sidecar, "CONNECT", upstream.authority, headers={"Host": "a", "Budget-Id": budget})
    assert (told.status, told.outcome.reason) == (403, "budget_exhausted")


def test_a_proxy_user_opens_a_budget_once(sidecar: Sidecar, budget: str) -> None:
    """`run-42:300@`: every tunnel of the job ends when the first one does, whenever it was opened."""
    headers = user(budget, 400)
    with (
        Upstream(talk=silence) as upstream,
        Tunnel(sidecar, upstream.authority, headers) as first,
    ):
        time.sleep(0.2)
        with Tunnel(sidecar, upstream.authority, headers) as second:
            assert second.opened.get("budget-id") == budget
            assert int(second.opened.get("budget-remaining-ms") or "") <= 200
            second.rest()
        _, after = first.until_ended()
        assert 400 <= after < 400 + SLACK
        told = call(sidecar, "CONNECT", upstream.authority, headers={"Host": "a", **headers})
        assert (told.status, told.outcome.reason, told.get("budget-id")) == (403, "budget_exhausted", budget)
        assert [record["step"] for record in sidecar.records_of(budget, 3)] in ([1, 2, 3], [2, 1, 3])
        assert len(upstream.connections) == 2


def test_one_budget_for_calls_and_tunnels(sidecar: Sidecar, budget: str) -> None:
    """A job that has a plain tool and one behind TLS has one budget all the same."""
    with Upstream(answer()) as plain, Upstream(talk=silence) as opaque:
        told = call(sidecar, "GET", plain.url(), headers={"Budget-Id": budget, "Budget-Remaining-Ms": 300})
        assert told.status == 200
        with Tunnel(sidecar, opaque.authority, user(budget)) as tunnel:
            assert int(tunnel.opened.get("budget-remaining-ms") or "") <= 300
            tunnel.rest()
        assert call(sidecar, "GET", plain.url(), headers={"Budget-Id": budget}).status == 403


def test_the_reserve_is_for_cleanup(sidecar: Sidecar, budget: str) -> None:
    stated = {"Budget-Id": budget, "Budget-Remaining-Ms": 400, "Budget-Reserve-Ms": 200}
    with (
        Upstream(talk=silence) as upstream,
        Tunnel(sidecar, upstream.authority, stated) as work,
        Tunnel(sidecar, upstream.authority, {"Budget-Id": budget, "Budget-Phase": "cleanup"}) as cleanup,
    ):
        opened = work.asked
        for tunnel, end in ((work, 200), (cleanup, 400)):
            tunnel.asked = opened
            _, after = tunnel.until_ended()
            assert end <= after < end + SLACK
        record = sidecar.record(work.opened.record)
        assert record["elapsed_ms"] - record["late_ms"] == pytest.approx(200)


@pytest.mark.parametrize(
    "headers", [{"Budget-Remaining-Ms": "5.0"}, {"Budget-Id": "a b"}, {"Proxy-Authorization": "Basic ***"}]
)
def test_a_limit_that_cannot_be_read(sidecar: Sidecar, headers: dict[str, str]) -> None:
    with Upstream(talk=echo) as upstream:
        told = call(sidecar, "CONNECT", upstream.authority, headers={"Host": "a", **headers})
        assert (told.status, told.outcome.reason) == (400, "malformed")
        assert next(iter(headers)) in told.problem["detail"]
        assert upstream.connections == []


def test_no_budget_no_tunnel() -> None:
    with Sidecar("budget: {on_missing: refuse}") as sidecar, Upstream(talk=echo) as upstream:
        told = call(sidecar, "CONNECT", upstream.authority, headers={"Host": "a"})
        assert (told.status, told.outcome.reason) == (403, "no_budget")
        with Tunnel(sidecar, upstream.authority, user("run", 5000)) as tunnel:
            assert tunnel.status == 200


# -- bursts and silence --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def capped() -> Iterator[Sidecar]:
    """Each burst may take a while and no longer."""
    with Sidecar(f"{{fallback: {{cap: {CAP}ms}}, tunnel: {{quiet: {QUIET}ms}}}}") as sidecar:
        yield sidecar


def test_an_idle_tunnel_outlives_the_cap(capped: Sidecar) -> None:
    """A client's pool keeps it across jobs: what counts is not its age, but each time that it is used."""
    with Upstream(talk=echo) as upstream, Tunnel(capped, upstream.authority) as tunnel:
        for number in range(3):
            time.sleep((CAP + 50) / 1000)
            tunnel.add(b"%d" % number)
            assert tunnel.exactly(1) == b"%d" % number
        tunnel.half_close()
        assert tunnel.rest() == b""
        record = capped.record(tunnel.opened.record)
        assert (record["outcome"], record["elapsed_ms"] > 3 * CAP) == ("completed", True)


def test_bursts_may_follow_each_other(capped: Sidecar) -> None:
    """With a quiet spell between them, each has its own time."""
    with Upstream(talk=echo) as upstream, Tunnel(capped, upstream.authority) as tunnel:
        for number in range(8):
            tunnel.add(b"%d" % number)
            assert tunnel.exactly(1) == b"%d" % number
            time.sleep(2 * QUIET / 1000)
        assert capped.gauges()["opaque_connections_active"] == 1


async def slow_answer(wire: Wire) -> None:
    """Answer each word after a silence that is longer than a quiet spell."""
    while data := await wire.receive():
        await wire.sleep(3 * QUIET / 1000)
        await wire.send(data)


def test_waiting_for_an_answer_is_no_quiet_spell(capped: Sidecar) -> None:
    """It counts to the burst: two answers that are slow, asked for one upon the other, come to more than its time."""
    with Upstream(talk=slow_answer) as upstream, Tunnel(capped, upstream.authority) as tunnel:
        begun = time.monotonic_ns()
        for _ in range(10):
            tunnel.add(b"x")
            if not tunnel.exactly(1):
                break
        assert CAP <= (time.monotonic_ns() - begun) / 1e6 < CAP + SLACK
        assert tunnel.ended_by == "reset"


IN_A_BURST = {"the answer never comes": silence, "the answer never ends": chatter}


@pytest.mark.parametrize("how", IN_A_BURST)
def test_a_burst_that_takes_too_long_is_cut(capped: Sidecar, how: str) -> None:
    """From its first byte, however old the tunnel is. What became of the call in it, nobody here can know."""
    with Upstream(talk=IN_A_BURST[how]) as upstream, Tunnel(capped, upstream.authority) as tunnel:
        time.sleep(CAP / 2000)
        begun = time.monotonic_ns()
        tunnel.add(b"order tea")
        data = tunnel.rest()
        assert CAP <= (time.monotonic_ns() - begun) / 1e6 < CAP + SLACK
        assert tunnel.ended_by == "reset", "a FIN might mean to the client that this was all"
        record = capped.record(tunnel.opened.record)
        assert (record["kind"], record["outcome"], record["reason"]) == (
            "opaque",
            "deadline_exceeded",
            "route_cap",
        )
        assert (record["effect"], record["phase"], record["retry"]) == ("uncertain", "sent", "verify")
        assert record["elapsed_ms"] >= 1.5 * CAP
        assert 0 <= record["late_ms"] < SLACK
        assert record["bytes"] == len(data)
        upstream.wait(lambda up: not up.open)
    capped.at_rest()
    assert capped.samples()['waterclock_step_cuts_total{limit="route_cap",route="fallback"}'] >= 1


def test_an_upload_that_takes_too_long_is_cut(capped: Sidecar) -> None:
    with Upstream(talk=silence) as upstream, Tunnel(capped, upstream.authority) as tunnel:
        begun = time.monotonic_ns()
        tunnel.socket.settimeout(0.02)
        while tunnel.ended_by is None:
            tunnel.add(b"more ")
            try:
                tunnel.receive()
            except TimeoutError:
                continue
        assert CAP <= (time.monotonic_ns() - begun) / 1e6 < CAP + SLACK
        assert capped.record(tunnel.opened.record)["effect"] == "uncertain"


@pytest.mark.parametrize("stated", [CAP // 2, CAP * 2])
def test_the_cap_and_a_stated_budget(capped: Sidecar, budget: str, stated: int) -> None:
    """Both hold, and the record names the one that it was: the cap for a burst, the budget for the whole."""
    headers = {"Budget-Id": budget, "Budget-Remaining-Ms": stated}
    with (
        Upstream(talk=silence) as upstream,
        Tunnel(capped, upstream.authority, headers) as idle,
        Tunnel(capped, upstream.authority, headers) as busy,
    ):
        busy.asked = idle.asked  # when the budget that they share was opened
        busy.add(b"x")
        _, after = busy.until_ended()
        assert min(stated, CAP) <= after < min(stated, CAP) + SLACK
        record = capped.record(busy.opened.record)
        assert (record["reason"], record["effect"]) == (
            "budget_remaining" if stated < CAP else "route_cap",
            "uncertain",
        )
        _, after = idle.until_ended()
        assert stated <= after < stated + SLACK
        record = capped.record(idle.opened.record)
        assert (record["reason"], record["effect"]) == ("budget_remaining", "reported")


def test_the_default_budget_is_each_bursts() -> None:
    """With no word of a job, each burst is taken for one."""
    with (
        Sidecar("budget: {default: 300ms, reserve: 50ms}") as sidecar,
        Upstream(talk=silence) as upstream,
        Tunnel(sidecar, upstream.authority) as tunnel,
    ):
        time.sleep(0.35)
        begun = time.monotonic_ns()
        tunnel.add(b"x")
        tunnel.rest()
        assert 250 <= (time.monotonic_ns() - begun) / 1e6 < 250 + SLACK
        assert sidecar.record(tunnel.opened.record)["reason"] == "budget_remaining"


def test_without_any_limit_a_burst_takes_what_it_takes() -> None:
    with (
        Sidecar("budget: {on_missing: pass, default: 100ms}") as sidecar,
        Upstream(talk=chatter) as upstream,
        Tunnel(sidecar, upstream.authority, first=b"x") as tunnel,
    ):
        assert tunnel.opened.get("budget-allowed-ms") is None
        end = time.monotonic() + 0.25
        while time.monotonic() < end:
            assert tunnel.receive()


def test_observe_lets_it_all_pass() -> None:
    """What would have been done is in the record."""
    policy = f"{{mode: observe, fallback: {{cap: 100ms}}, tunnel: {{deny: [127.0.0.1], quiet: {QUIET}ms}}}}"
    with Sidecar(policy) as sidecar, Upstream(talk=slow_answer) as upstream:
        with Tunnel(sidecar, f"localhost:{upstream.port}", first=b"x") as late:
            assert late.exactly(1) == b"x"
        record = sidecar.record(late.opened.record)
        assert (record["outcome"], record["would"]) == ("completed", "cut")
        with Tunnel(sidecar, upstream.authority) as denied:
            assert denied.status == 200
            denied.add(b"x")
            assert denied.exactly(1) == b"x"
        record = sidecar.record(denied.opened.record)
        assert (record["outcome"], record["would"]) == ("completed", "refuse")


@pytest.fixture(scope="module")
def dozing() -> Iterator[Sidecar]:
    """A short patience with silence."""
    with Sidecar(f"tunnel: {{idle: {IDLE}ms, quiet: {QUIET}ms}}") as sidecar:
        yield sidecar


def test_a_silent_tunnel_is_closed(dozing: Sidecar) -> None:
    """With a FIN on both sides: there was nothing under way."""
    with Upstream(talk=silence) as upstream, Tunnel(dozing, upstream.authority) as tunnel:
        _, after = tunnel.until_ended()
        assert IDLE <= after < IDLE + SLACK
        assert tunnel.ended_by == "fin"
        record = dozing.record(tunnel.opened.record)
        assert (record["outcome"], record["reason"], record["effect"]) == ("completed", "idle", "reported")
        upstream.wait(lambda up: not up.open)
    dozing.at_rest()


@pytest.mark.parametrize("who", ["client", "server"])
def test_any_byte_ends_the_silence(dozing: Sidecar, who: str) -> None:
    """From either side; the silence is counted from the last one."""
    talk = chatter if who == "server" else echo
    with Upstream(talk=talk) as upstream, Tunnel(dozing, upstream.authority) as tunnel:
        for _ in range(8):
            if who == "client":
                tunnel.add(b"x")
            assert tunnel.receive()
            time.sleep(IDLE / 5000)
        assert dozing.gauges()["opaque_connections_active"] == 1
        if who == "client":
            _, after = tunnel.until_ended()
            assert after > 2.2 * IDLE
            assert dozing.record(tunnel.opened.record)["reason"] == "idle"


def test_an_answer_that_never_comes_is_silence_too(dozing: Sidecar) -> None:
    """But no clean end: somebody waits for it."""
    with Upstream(talk=silence) as upstream, Tunnel(dozing, upstream.authority, first=b"order tea") as tunnel:
        _, after = tunnel.until_ended()
        assert IDLE <= after < IDLE + SLACK
        assert tunnel.ended_by == "reset"
        record = dozing.record(tunnel.opened.record)
        assert (record["outcome"], record["reason"]) == ("deadline_exceeded", "idle")
        assert (record["effect"], 0 <= record["late_ms"] < SLACK) == ("uncertain", True)
