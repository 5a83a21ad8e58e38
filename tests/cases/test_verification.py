"""Writes in doubt that the sidecar finds out about by itself, from the tool that they were sent to."""

from __future__ import annotations

import json
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import trustme

from tests.cases.shop import ROUTE, SECRET, Shop, order, policy, resolved, verifications
from tests.support.behaviours import answer, hang_up, head, raw, stall
from tests.support.callers import call
from tests.support.pod import Job, Pod, Reply, runs
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange
from tests.support.waiting import eventually
from tests.ways.parents import Parent


def test_a_write_that_happened() -> None:
    """Its repetition is refused, in words that end the matter; what the sidecar did stands in the metrics."""
    with Shop() as shop, Sidecar(policy()) as sidecar:
        told = order(sidecar, shop, "commit, hang up")
        assert (told.status, told.outcome.effect) == (424, "uncertain")
        record = resolved(sidecar, told.record)
        assert (record["state"], record["resolved_by"]) == ("applied", "verified")
        again = order(sidecar, shop, "commit, hang up")
        assert again.status == 424
        assert again.problem["next"] == "It has happened. Do not send it again."
        assert again.problem["record"] == told.record
        assert shop.posts == 1
        assert verifications(sidecar, "applied") == 1
        assert sidecar.samples()["waterclock_uncertain_writes"] == 0
        sidecar.at_rest()


def test_a_write_that_did_not_happen() -> None:
    """After two noes its repetition is sent, and not before."""
    does = "hang up | commit, answer"
    with Shop() as shop, Sidecar(policy()) as sidecar:
        told = order(sidecar, shop, does)
        record = resolved(sidecar, told.record)
        assert (record["state"], record["resolved_by"]) == ("not_applied", "verified")
        assert (len(shop.asked), verifications(sidecar, "absent")) == (2, 2)
        again = order(sidecar, shop, does)
        assert (again.status, again.body, shop.posts) == (201, b"made", 2)
        sidecar.at_rest()


def test_a_write_that_is_only_about_to_happen() -> None:
    """While the sidecar listens for its answer, no `no` is believed: it happens in the meantime."""
    with Shop() as shop, Sidecar(policy("5s")) as sidecar:
        told = order(sidecar, shop, "1.2, commit, stall", Budget_Remaining_Ms=300)
        assert told.status == 424
        record = resolved(sidecar, told.record)
        assert (record["state"], record["resolved_by"]) == ("applied", "verified")
        assert len(shop.asked) >= 3


def test_a_late_answer_comes_first() -> None:
    """Then nothing is asked any more, and the answer is what is kept."""
    with Shop() as shop, Sidecar(policy("10s")) as sidecar:
        told = order(sidecar, shop, "0.6, answer", Budget_Remaining_Ms=300)
        record = resolved(sidecar, told.record)
        assert (record["state"], record["resolved_by"]) == ("reported", "late answer")
        assert record["answer"]["status"] == 201
        known = len(shop.asked)
        time.sleep(1)
        assert len(shop.asked) <= known + 1
        sidecar.at_rest()


def test_the_question_has_the_credentials_and_nobody_else_has() -> None:
    """They go to the tool, and neither to the disk nor into the log."""
    with Shop() as shop, Sidecar(policy()) as sidecar:
        shop.instead = answer(b"", 503)
        order(sidecar, shop, "hang up", Cookie="session=c00k1e", Accept_Encoding="gzip, br")
        eventually(lambda: len(shop.asked) >= 3)
        for asked in shop.asked:
            assert asked["authorization"] == SECRET
            assert asked["cookie"] == "session=c00k1e"
            assert asked["accept-encoding"] == "identity"
            assert not asked.keys() & {
                "idempotency-key",
                "content-length",
                "content-type",
                "transfer-encoding",
            }
            assert not [name for name in asked if name.startswith("budget-")]
        kept = b"".join(
            path.read_bytes() for path in sidecar.folder.iterdir() if path.name.startswith("journal")
        )
        assert b"orders" in kept
        said = json.dumps([sidecar.records, sidecar.events, sidecar.uncertain()])
        for secret in ("s3cr3t", "c00k1e"):
            assert secret.encode() not in kept
            assert secret not in said


def test_the_verdict_of_the_job_follows() -> None:
    """Incomplete while its write is in doubt; complete once it is known to have happened; shown with who found out."""

    def work(job: Job) -> Reply:
        order(job.sidecar, shop, "commit, hang up", Budget_Id=job.budget)
        if job.request.target == "/waits":
            eventually(lambda: not job.sidecar.samples()["waterclock_uncertain_writes"])
        return Reply()

    with Shop() as shop, Pod(runs(work), policy=policy()) as pod:
        shop.instead = answer(b"", 500)
        told = call(pod, "POST", "/answers-at-once", headers={"Budget-Id": "at-once"}, body=b"{}")
        assert told.get("budget-verdict") == "incomplete; on_time"
        assert told.get("budget-steps") == (
            "total=1, completed=0, deadline_exceeded=0, upstream_failed=1, uncertain=1"
        )
        assert pod.budget("at-once")["verdict"] == "incomplete; on_time"
        shop.instead = None
        record = eventually(lambda: (seen := pod.budget("at-once"))["complete"] and seen, within=20)
        assert record["verdict"] == "complete; on_time"
        (write,) = record["writes"]
        assert (write["state"], write["resolved_by"]) == ("applied", "verified")
        assert record["counts"]["uncertain"] == 0


def test_a_job_that_waits_for_it() -> None:
    """Its answer can say that everything is done."""

    def work(job: Job) -> Reply:
        order(job.sidecar, shop, "commit, hang up", Budget_Id=job.budget)
        eventually(lambda: not job.sidecar.samples()["waterclock_uncertain_writes"])
        return Reply()

    with Shop() as shop, Pod(runs(work), policy=policy()) as pod:
        told = call(pod, "POST", "/run", headers={"Budget-Id": "waits"}, body=b"{}")
        assert told.get("budget-verdict") == "complete; on_time"


BAD: dict[str, Behaviour] = {
    "an error": answer(b"", 500),
    "no access": answer(b"", 401),
    "garbage": answer(b"<html>"),
    "no HTTP": raw(b"\x00\x01\x02\r\n\r\n"),
    "too much": answer(b"[" + b"0," * 1_000_000 + b"0]"),
    "half of it": raw(head(200, [("Content-Length", "100")]) + b'{"items": ['),
    "nothing": hang_up(),
    "silence": stall(),
}


def test_a_tool_that_gives_no_answer() -> None:
    """Each in its own way, and all at once: none is believed, and all are asked again."""
    with ExitStack() as stack, Sidecar(policy()) as sidecar, ThreadPoolExecutor(len(BAD)) as threads:
        shops = {what: stack.enter_context(Shop()) for what in BAD}
        for what, shop in shops.items():
            shop.instead = BAD[what]
        told = list(threads.map(lambda what: order(sidecar, shops[what], "commit, hang up", key=what), BAD))
        for what, shop in shops.items():
            shop.until_asked(2)
            shop.instead = None
            assert sidecar.samples()["waterclock_uncertain_writes"] > 0, what
        assert {resolved(sidecar, each.record)["state"] for each in told} == {"applied"}
        assert verifications(sidecar, "unknown") >= len(BAD)
        assert verifications(sidecar, "applied") == len(BAD)
        sidecar.at_rest()


def test_a_tool_that_is_gone_for_a_while() -> None:
    """Nobody listens any more at first."""
    with Sidecar(policy()) as sidecar:
        with Shop() as shop:
            shop.instead = hang_up()
            told = order(sidecar, shop, "commit, hang up")
        known = verifications(sidecar, "unknown")
        eventually(lambda: verifications(sidecar, "unknown") >= known + 2)
        with Shop(port=shop.port) as again:
            again.orders.add("k")
            assert resolved(sidecar, told.record)["state"] == "applied"


def test_few_are_asked_at_once() -> None:
    """However many writes are in doubt; and all are found out about."""
    number = 40
    with Shop() as shop, Sidecar(policy()) as sidecar, ThreadPoolExecutor(20) as threads:

        async def slowly(exchange: Exchange) -> None:
            await exchange.sleep(0.1)
            await shop.say(exchange)

        shop.instead = slowly
        keys = [f"k{n}" for n in range(number)]
        told = list(threads.map(lambda key: order(sidecar, shop, "commit, hang up", key=key), keys))
        assert {each.status for each in told} == {424}
        eventually(lambda: sidecar.samples()["waterclock_uncertain_writes"] == 0, within=30)
        assert 2 <= shop.most_at_once <= 8
        assert {sidecar.uncertain(each.record)["resolved_by"] for each in told} == {"verified"}
        sidecar.at_rest()


@pytest.mark.parametrize("applied", [True, False])
def test_an_operator_decides_meanwhile(applied: bool) -> None:
    """The question that is under way changes nothing any more."""
    decided = threading.Event()
    with Shop() as shop, Sidecar(policy()) as sidecar:

        async def contradict(exchange: Exchange) -> None:
            while not decided.is_set():
                await exchange.sleep(0.01)
            await answer(b'{"items": []}' if applied else b'{"items": [1]}')(exchange)

        shop.instead = contradict
        told = order(sidecar, shop, "hang up")
        eventually(lambda: shop.asked)
        sidecar.resolve(told.record, applied=applied)
        decided.set()
        time.sleep(1)
        record = sidecar.uncertain(told.record)
        assert record["resolved_by"] == "operator"
        assert record["state"] == ("applied" if applied else "not_applied")
        assert len(shop.asked) == 1
        sidecar.at_rest()


def test_a_sidecar_that_was_killed_asks_when_it_is_back() -> None:
    """About all that it finds uncertain on its disk, without credentials: those were never there."""
    with Shop() as shop, Sidecar(policy()) as sidecar, ThreadPoolExecutor(4) as threads:
        shop.instead = answer(b"", 503)
        cut = order(sidecar, shop, "commit, hang up", key="cut")
        threads.submit(order, sidecar, shop, "commit, stall", key="under way")
        eventually(lambda: "under way" in shop.orders)
        sidecar.kill()
        shop.instead = None
        shop.asked.clear()
        sidecar.restart()
        eventually(lambda: sidecar.samples()["waterclock_uncertain_writes"] == 0, within=20)
        assert {record["state"] for record in sidecar.uncertain()["writes"]} == {"applied"}
        assert sidecar.uncertain(cut.record)["resolved_by"] == "verified"
        assert len(shop.asked) == 2
        assert not [asked for asked in shop.asked if "authorization" in asked]
        again = order(sidecar, shop, "commit, hang up", key="cut")
        assert again.problem["next"] == "It has happened. Do not send it again."


def test_a_stop_waits_for_no_question() -> None:
    """What is in doubt stays on disk."""
    with Shop() as shop, Sidecar(policy()) as sidecar:
        shop.instead = stall()
        told = order(sidecar, shop, "commit, hang up")
        eventually(lambda: shop.asked)
        began = time.monotonic()
        assert sidecar.stop() == 0
        assert time.monotonic() - began < 4
        eventually(lambda: not shop.open)
        shop.instead = None
        sidecar.restart()
        assert resolved(sidecar, told.record)["state"] == "applied"


@pytest.mark.parametrize(
    "key", ["a/b?c=d&e=f#g", "100% ; {record} \\", "a b  c", "../../admin", "x" * 1024, "a..b"]
)
def test_keys_of_any_kind(key: str) -> None:
    """They arrive as they are, whatever they would mean in a URL; with one that would be a step, nothing is asked."""
    with Shop() as shop, Sidecar(policy()) as sidecar:
        told = order(sidecar, shop, "commit, hang up", key=key)
        assert resolved(sidecar, told.record)["state"] == "applied"
        (asked,) = [request.target for request in shop.requests if request.method == "GET"]
        assert unquote(asked) == f"/orders?key={key}"
        assert shop.malformed == []


@pytest.mark.parametrize("way", ["base URL", "TLS", "parent proxy"])
def test_every_way_to_the_tool(way: str, tmp_path: Path) -> None:
    """The question goes the way that the write went."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    tls = context if way == "TLS" else None
    with Shop(tls=tls) as shop, Parent() as parent:
        port = shop.port
        route, url = dict(ROUTE), f"http://127.0.0.1:{port}/orders"
        more: dict[str, Any] = {}
        if way == "base URL":
            del route["match"]
            route |= {"prefix": "/shop", "upstream": f"http://127.0.0.1:{port}"}
            url = "/shop/orders"
        elif way == "TLS":
            route |= {"tls": "originate", "ca": str(tmp_path / "ca.pem")}
        else:
            more = {"connections": {"proxy": parent.url}}
            url = f"http://shop.example:{port}/orders"
        with Sidecar(policy(routes=[route], **more)) as sidecar:
            told = order(sidecar, shop, "commit, hang up", url=url)
            assert told.status == 424
            assert resolved(sidecar, told.record)["state"] == "applied"
            assert shop.asked[0]["authorization"] == SECRET
            if way == "parent proxy":
                assert parent.asked[-1] == f"GET http://shop.example:{port}/orders?key=k"
            sidecar.at_rest()
