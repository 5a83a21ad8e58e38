"""A shop that takes orders and says which it has, and a sidecar that may ask it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.behaviours import answer, hang_up
from tests.support.callers import Answer, call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Upstream
from tests.support.waiting import eventually

SECRET = "Bearer s3cr3t-t0k3n"


class Shop(Upstream):
    """Takes orders at `POST /orders`, and says at `GET /orders?key=` which it has.

    What it does with an order stands in its body, step by step, and for one attempt after the other:
    `{"does": "hang up | commit, answer"}`.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(self._behave, **more)
        self.orders: set[str] = set()
        self.asked: list[dict[str, str]] = []
        self.instead: Behaviour | None = None
        """What it does when it is asked, instead of saying what it knows."""
        self.at_once = self.most_at_once = 0
        self._attempts: Counter[str] = Counter()

    def __enter__(self) -> Shop:
        self.start()
        return self

    @property
    def posts(self) -> int:
        """How many orders it was sent."""
        return sum(request.method == "POST" for request in self.requests)

    def until_asked(self, count: int) -> None:
        """Wait until it has been asked so often."""
        eventually(lambda: len(self.asked) >= count, what=f"{count} questions at {self.authority}")

    async def _behave(self, exchange: Exchange) -> None:
        if exchange.request.method == "POST":
            await self._take(exchange)
        else:
            self.asked.append(dict(exchange.request.fields))
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
            try:
                await (self.instead or self.say)(exchange)
            finally:
                self.at_once -= 1

    async def _take(self, exchange: Exchange) -> None:
        body = json.loads(await exchange.read_all())
        attempts = body["does"].split(" | ")
        attempt = min(self._attempts[body["key"]], len(attempts) - 1)
        self._attempts[body["key"]] += 1
        for step in attempts[attempt].split(", "):
            if step == "commit":
                self.orders.add(body["key"])
            elif step == "hang up":
                await hang_up()(exchange)
            elif step == "stall":
                await exchange.until_left()
            elif step == "answer":
                await answer(b"made", 201)(exchange)
            else:
                await exchange.wire.sleep_regardless(float(step))

    async def say(self, exchange: Exchange) -> None:
        """Say whether it has an order."""
        (key,) = parse_qs(urlsplit(exchange.request.target).query)["key"]
        items = [{"key": key}] if key in self.orders else []
        await answer(json.dumps({"items": items}).encode())(exchange)


VERIFY = {"path": "/orders?key={idempotency_key}", "applied": {"json": "$.items[0]"}}
ROUTE: dict[str, Any] = {"name": "orders", "match": {"path": "/orders"}, "verify": VERIFY}


def policy(linger: str = "0s", **more: Any) -> dict[str, Any]:
    """A policy with the route of the shop."""
    return {"routes": [ROUTE], "writes": {"linger": linger}} | more


def order(
    sidecar: Sidecar, shop: Upstream, does: str, key: str = "k", url: str = "", **headers: Any
) -> Answer:
    """Send an order."""
    body = json.dumps({"key": key, "does": does}).encode()
    fields = {"Idempotency-Key": key, "Authorization": SECRET} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return call(sidecar, "POST", url or shop.url("/orders"), headers=fields, body=body)


def verifications(sidecar: Sidecar, result: str) -> float:
    """How many questions have found this."""
    return sidecar.samples().get(f'waterclock_verifications_total{{result="{result}",route="orders"}}', 0)


def resolved(sidecar: Sidecar, id: str, *, within: float = 20) -> dict[str, Any]:
    """The record of a write, once it is in doubt no more."""

    def found() -> dict[str, Any] | None:
        record: dict[str, Any] = sidecar.uncertain(id)
        return record if record["state"] != "uncertain" else None

    return eventually(found, within=within, what=f"an end of the doubt; {sidecar.uncertain(id)}")
