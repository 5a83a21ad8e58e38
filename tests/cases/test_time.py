"""When a call ends: by its allowance, never before it, counted from the arrival of its head, whatever happens meanwhile."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.behaviours import answer, deaf, drip, interim, stall, stall_after_head
from tests.support.callers import Caller, call, render
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually

SLACK = 1500.0
"""How much later than it should something may be seen on a busy machine (milliseconds). What is never early is exact."""


@pytest.mark.parametrize(("framing", "version"), [("length", "1.0"), ("length", "1.1"), ("chunked", "1.1")])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_clock_starts_at_the_head(
    sidecar: Sidecar, budget: str, method: str, framing: str, version: str
) -> None:
    """The time of a call runs from its head, not from the end of its body (envoyproxy/envoy#12578)."""
    stated = {"Content-Length": 100} if framing == "length" else {"Transfer-Encoding": "chunked"}
    with Upstream(stall()) as upstream, Caller(sidecar) as caller:
        head = {"Budget-Remaining-Ms": 150, "Budget-Id": budget, **stated}
        caller.request(method, upstream.url("/drip"), head, version=version)
        stop = threading.Event()

        def drip_body() -> None:
            for _ in range(20):
                if stop.wait(0.04):
                    return
                caller.add(b"x" if framing == "length" else b"1\r\nx\r\n")

        with ThreadPoolExecutor() as threads:
            threads.submit(drip_body)
            told = caller.answer(method)
            stop.set()
        assert 150 <= told.after < 150 + SLACK
        assert told.status == 504
        assert told.outcome.outcome == "deadline_exceeded"
        (record,) = sidecar.records_of(budget)
        assert record["elapsed_ms"] >= 150
        # A write is held until it is whole, so nothing of it has left; anything else has begun to be sent.
        assert record["phase"] == ("not_sent" if method == "POST" else "sending")
        assert upstream.whole == []


@pytest.mark.parametrize("pauses", [(0.1, 0.1), (0.0, 0.25)], ids=["the head in pieces", "a late body"])
def test_clock_starts_at_the_head_even_when_an_answer_comes(
    sidecar: Sidecar, budget: str, pauses: tuple[float, float]
) -> None:
    """What the upload took is missing from what is sent on, and from the answer's time."""
    request = render(
        "POST", "http://{}/x", {"Budget-Remaining-Ms": 5000, "Budget-Id": budget, "Host": "a"}, b"0123456789"
    )
    with Upstream(answer()) as upstream, Caller(sidecar) as caller:
        data = request.replace(b"{}", upstream.authority.encode())
        body = data.index(b"\r\n\r\n") + 4
        caller.send(data[: body - 1])
        time.sleep(pauses[0])
        caller.add(data[body - 1 : body + 3])
        time.sleep(pauses[1])
        caller.add(data[body + 3 :])
        told = caller.answer("POST")
        assert told.status == 200
        sent_on = int(upstream.whole[0].get("budget-remaining-ms") or "")
        # The head is whole only with its last byte: what came before that is the time of no call yet.
        assert sent_on <= 5000 - pauses[1] * 1000
        assert int(told.get("budget-elapsed-ms") or "") >= pauses[1] * 1000 - 1


SLOW = {
    "silent": (stall(), False),
    "not reading": (deaf(), False),
    "early hints only": (interim(103, then=stall()), False),
    "head only": (stall_after_head(), True),
    "head only, chunked": (stall_after_head(framing="chunked"), True),
}


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    ("slow", "method"),
    [
        (slow, method)
        for slow, (_, begun) in SLOW.items()
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS")
        if not (begun and method == "HEAD")  # a head is all of it
    ],
)
def test_slow_server_is_504_not_408(
    sidecar: Sidecar, budget: str, method: str, slow: str, version: str
) -> None:
    """The caller was not slow, so it is not told 408, on which clients send again (envoyproxy/envoy#19725)."""
    behaviour, begun = SLOW[slow]
    headers = {"Budget-Remaining-Ms": 80, "Budget-Id": budget}
    body = b"{}" if method == "PUT" else b""
    with Upstream(behaviour) as upstream:
        told = call(sidecar, method, upstream.url("/slow"), headers=headers, body=body, version=version)
        assert 80 <= told.after < 80 + SLACK
        assert len(upstream.requests) <= 1, "it is not asked again"
        if begun and told.status == 200:  # that has been passed on, and cannot be taken back
            assert not told.complete
            return
        assert (told.status, told.complete) == (504, True)
        assert told.get("x-should-retry") == "false", "nothing is left for a retry"
        assert told.get("retry-after") is None


NOT_NUMBERS = {
    "negative": "-1",
    "signed": "+5",
    "decimal": "5.0",
    "underscore": "1_000",
    "hexadecimal": "0x10",
    "exponent": "1e3",
    "empty": "",
    "two in one": "5 5",
    "list of two": "5, 6",
    "list with empty": "5,",
    "arabic-indic": "٣٤".encode().decode("latin-1"),
    "superscript": "²",
    "eleven digits": "99999999999",
    "infinity": "inf",
    "nan": "nan",
    "unit": "5ms",
    "quoted": '"5"',
    "tab inside": "5\t5",
    "different twice": ["5", "6"],
    "different spelling": ["5", "05"],
}


@pytest.mark.parametrize(
    "field", ["Budget-Remaining-Ms", "Budget-Reserve-Ms", "Budget-Depth", "Connect-Timeout-Ms"]
)
def test_strict_number(sidecar: Sidecar, field: str) -> None:
    """A number that is almost right is an error and no guess (envoyproxy/envoy#8586, connectrpc/connect-go#982)."""
    with Upstream(answer()) as upstream:
        answers = {
            name: call(sidecar, "GET", upstream.url(), headers={field: value})
            for name, value in NOT_NUMBERS.items()
        }
        for name, told in answers.items():
            assert (told.status, told.outcome.outcome, told.outcome.reason) == (
                400,
                "refused",
                "malformed",
            ), name
            assert field.lower() in told.problem["detail"].lower(), f"{name}: it says which field"
            assert told.get("connection") == "close"
            assert sidecar.record(told.record)["phase"] == "not_sent"
        assert upstream.connections == []


@pytest.mark.parametrize("value", ["5000", ["5000", "5000"], "5000, 5000", "0000005000", " 5000\t"])
def test_strict_number_takes_equal_ones_as_one(sidecar: Sidecar, value: str | list[str]) -> None:
    """Two equal statements are one, and space around a field is none of its value (RFC 9110 §5.5)."""
    with Upstream(answer()) as upstream:
        told = call(sidecar, "GET", upstream.url(), headers={"Budget-Remaining-Ms": value})
        assert told.status == 200
        assert told.get("budget-allowed-ms") == "5000"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "CONNECT"])
def test_zero_is_spent(sidecar: Sidecar, method: str, version: str) -> None:
    """Zero is no time, not no limit."""
    with Upstream(answer()) as upstream:
        target = upstream.authority if method == "CONNECT" else upstream.url()
        body = b"{}" if method in ("POST", "PUT") else b""
        headers = {"Budget-Remaining-Ms": 0, "Host": upstream.authority}
        told = call(sidecar, method, target, headers=headers, body=body, version=version)
        assert told.status == 403
        assert told.outcome.reason == "budget_exhausted"
        assert told.outcome.effect == "none"
        assert told.get("x-should-retry") == "false"
        assert told.problem["next"]
        assert upstream.connections == []


def test_expired_opens_nothing(sidecar: Sidecar, budget: str) -> None:
    """Once a budget is spent, no SYN reaches the server (grpc/grpc-node#1636)."""
    with Upstream(stall()) as upstream:
        headers = {"Budget-Id": budget, "Budget-Remaining-Ms": 50}
        assert call(sidecar, "GET", upstream.url(), headers=headers).status == 504
        before = len(upstream.connections)
        for method, number in itertools.product(["GET", "POST", "PUT", "HEAD"], range(5)):
            headers = {"Budget-Id": budget} | ({"Budget-Remaining-Ms": 9999} if number % 2 else {})
            told = call(sidecar, method, upstream.url(), headers=headers)
            assert told.status == 403, "a later header cannot lengthen it"
        assert len(upstream.connections) == before
        assert upstream.bytes == upstream.connections[0].bytes
        assert len(sidecar.records_of(budget, 21)) == 21


def test_expired_opens_nothing_after_waiting(sidecar: Sidecar, budget: str) -> None:
    """A body that takes all of the time leaves none for a connection."""
    with Upstream(answer()) as upstream, Caller(sidecar) as caller:
        headers = {"Budget-Id": budget, "Budget-Remaining-Ms": 60, "Content-Length": 2}
        caller.request("POST", upstream.url(), headers)
        told = caller.answer("POST")
        assert told.status == 504
        assert told.outcome.phase == "not_sent"
        caller.add(b"{}")
        assert caller.request("GET", upstream.url(), {"Budget-Id": budget}).answer().status == 403
        assert upstream.connections == []


ENDINGS = {
    "completed": (answer(), {}, 200),
    "cut": (stall(), {"Budget-Remaining-Ms": 50}, 504),
    "refused": (answer(), {"Budget-Remaining-Ms": 0}, 403),
    "upstream error": (answer(status=500), {}, 500),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_echo_the_limit(sidecar: Sidecar, ending: str) -> None:
    """Every answer tells which allowance was in force, so that an ignored header shows (istio/istio#14923)."""
    behaviour, headers, status = ENDINGS[ending]
    with Upstream(behaviour) as upstream:
        told = call(sidecar, "GET", upstream.url(), headers=headers)
        assert told.status == status
        allowed = headers.get("Budget-Remaining-Ms", 300_000)
        assert told.get("budget-allowed-ms") == str(allowed)
        assert told.get("budget-id")
        assert int(told.get("budget-remaining-ms") or "") <= allowed
        assert int(told.get("budget-elapsed-ms") or "") >= 0
        record = sidecar.record(told.record)
        assert record["allowed_ms"] == allowed
        assert record["outcome"] == told.outcome.outcome or ending == "completed"


LIMITS = {
    "the route's cap": ({}, 700, "route_cap"),
    "the budget": ({"Budget-Remaining-Ms": 300}, 300, "budget_remaining"),
    "the budget, less its reserve": (
        {"Budget-Remaining-Ms": 300, "Budget-Reserve-Ms": 100},
        200,
        "budget_remaining",
    ),
    "the reserve too, for cleanup": (
        {"Budget-Remaining-Ms": 300, "Budget-Reserve-Ms": 100, "Budget-Phase": "cleanup"},
        300,
        "budget_remaining",
    ),
    "grpc": ({"grpc-timeout": "150m"}, 150, "foreign_limit"),
    "connect": ({"Connect-Timeout-Ms": "150"}, 150, "foreign_limit"),
    "envoy": ({"X-Envoy-Expected-Rq-Timeout-Ms": "150", "grpc-timeout": "1H"}, 150, "foreign_limit"),
    "the caller's own timer, less a margin": ({"X-Stainless-Read-Timeout": "0.2"}, 150, "client_timer"),
}


def test_echo_the_limit_whichever_it_was() -> None:
    """The smallest limit holds, is told, and is the reason of the cut."""
    with Sidecar("fallback: {cap: 700ms}") as sidecar, Upstream(stall()) as upstream:
        with ThreadPoolExecutor(len(LIMITS)) as threads:
            answers = list(
                threads.map(lambda row: call(sidecar, "GET", upstream.url(), headers=row[0]), LIMITS.values())
            )
        for (_, allowed, bound), told in zip(LIMITS.values(), answers, strict=True):
            assert told.status == 504
            assert told.get("budget-allowed-ms") == str(allowed)
            assert told.outcome.reason == bound
            assert allowed <= told.after < allowed + SLACK


def test_no_early_cut(sidecar: Sidecar) -> None:
    """Timers that wake early are no reason to cut early (MagicStack/uvloop#755, libuv/libuv#4773)."""
    with Upstream(stall()) as upstream:

        def calls(number: int) -> list[float]:
            with Caller(sidecar) as caller:
                headers = {"Budget-Remaining-Ms": 10}
                answers = []
                for _ in range(75):
                    told = caller.request("GET", upstream.url(f"/{number}"), headers).answer()
                    assert told.status == 504, told
                    answers.append(told)
                return [sidecar.record(told.record)["elapsed_ms"] for told in answers]

        with ThreadPoolExecutor(8) as threads:
            elapsed = [each for some in threads.map(calls, range(8)) for each in some]
        assert len(elapsed) == 600
        assert min(elapsed) >= 10
        # The half of them is not late at all; the tail belongs to the machine.
        assert sorted(elapsed)[300] < 10 + 20


def test_no_early_cut_of_a_body(sidecar: Sidecar) -> None:
    """A body that is still arriving is cut no earlier than a silence is."""
    with Upstream(drip(every=0.003)) as upstream:
        for allowed in (20, 33, 47):
            headers = {"Budget-Remaining-Ms": allowed}
            told = call(sidecar, "GET", upstream.url(), headers=headers)
            assert not told.complete
            assert sidecar.record(told.record)["elapsed_ms"] >= allowed


def test_hung_lookups() -> None:
    """Lookups that never answer end each at its own allowance, and delay nobody else (python/cpython#112169)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent_name_server:
        silent_name_server.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*silent_name_server.getsockname())
        with Sidecar(nameserver=address) as sidecar, Upstream(answer()) as upstream:
            allowances = [100 + 15 * number for number in range(40)]
            methods = itertools.cycle(["GET", "POST", "PUT", "CONNECT"])

            def lookup(row: tuple[int, str]) -> None:
                allowed, method = row
                host = f"name-{allowed}.example.com:443"
                target = host if method == "CONNECT" else f"http://{host}/x"
                headers = {"Budget-Remaining-Ms": allowed, "Host": host}
                told = call(sidecar, method, target, headers=headers)
                assert told.status == 504
                assert told.outcome.phase == "not_sent"
                assert told.outcome.effect == "none"
                assert allowed <= told.after < allowed + SLACK

            with ThreadPoolExecutor(41) as threads:
                lookups = [threads.submit(lookup, row) for row in zip(allowances, methods, strict=False)]
                time.sleep(0.05)
                live = call(sidecar, "GET", upstream.url())
                assert live.status == 200
                assert live.after < 500
                for each in lookups:
                    each.result()
            sidecar.at_rest()
            assert eventually(lambda: len(sidecar.records) == 41)
