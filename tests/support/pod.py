"""A pod: a sidecar, and an agent's app behind its inbound side.

    def work(job: Job) -> Reply:
        seen = job.call("GET", tool.url("/facts"))
        return Reply(b"what I found", status=200 if seen.status == 200 else 500)

    with Pod(runs(work)) as pod:
        answer = call(pod, "POST", "/run", headers={"Budget-Remaining-Ms": 2000})
    assert answer.get("budget-verdict") == "complete; on_time"

What a job does is plain, blocking code; each entry request has a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import yaml

from tests.support.behaviours import LAST_CHUNK, chunk, head
from tests.support.callers import Answer, Headers, call
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Behaviour, Exchange, Request, Upstream
from tests.support.waiting import eventually

_THREADS = ThreadPoolExecutor(32, "job")


class Reply(NamedTuple):
    """What the app answers. `chunked`: without a length, and its end comes a moment later."""

    body: bytes = b"done"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    chunked: bool = False


class Job:
    """What the app knows of its entry request, and the means to call tools on its behalf."""

    def __init__(self, request: Request, sidecar: Sidecar) -> None:
        self.request = request
        self.sidecar = sidecar

    @property
    def budget(self) -> str:
        """The id that the app was told."""
        id = self.request.get("budget-id")
        assert id is not None, f"the app was told no budget: {self.request.fields}"
        return id

    @property
    def left(self) -> int:
        """What the app was told is left (milliseconds)."""
        return int(self.request.get("budget-remaining-ms") or -1)

    def call(
        self,
        method: str,
        target: str,
        headers: Headers | None = None,
        body: bytes = b"",
        *,
        named: bool = True,
    ) -> Answer:
        """Call a tool through the sidecar. `named`: the call says which budget it belongs to."""
        own = {"Budget-Id": self.budget} if named else {}
        return call(self.sidecar, method, target, headers={**own, **(headers or {})}, body=body)


InPod: TypeAlias = "Callable[[Pod], Behaviour]"
"""A behaviour that has to know in which pod it is."""


def runs(work: Callable[[Job], Reply]) -> InPod:
    """An app that does this for each entry request."""

    def of(pod: Pod) -> Behaviour:
        async def behave(exchange: Exchange) -> None:
            await exchange.read_all()
            loop = asyncio.get_running_loop()
            reply = await loop.run_in_executor(_THREADS, work, Job(exchange.request, pod.sidecar))
            framing = ("Transfer-Encoding", "chunked") if reply.chunked else _length(reply.body)
            body = chunk(reply.body) if reply.chunked else reply.body
            await exchange.send(head(reply.status, [*reply.headers, framing]) + body)
            if reply.chunked:
                await exchange.sleep(0.05)
                await exchange.send(LAST_CHUNK)

        return behave

    return of


def _length(body: bytes) -> tuple[str, str]:
    return "Content-Length", str(len(body))


class Pod:
    """A sidecar with an app behind it. `address`: where entry requests arrive; calls go to `sidecar`."""

    def __init__(
        self,
        *script: InPod | Behaviour,
        policy: str | dict[str, Any] = "",
        app_port: int | None = None,
        **inbound: Any,
    ) -> None:
        """`script`: how the app behaves. `app_port`: where another app listens. `inbound`: more of `listen.inbound`."""
        self._app = Upstream() if app_port is None else None
        self._script = script
        self.port = free_port()
        document: dict[str, Any] = (yaml.safe_load(policy) if isinstance(policy, str) else dict(policy)) or {}
        entrance = {"address": f"127.0.0.1:{self.port}", "app": f"127.0.0.1:{app_port or self.app.port}"}
        document["listen"] = {"inbound": entrance | inbound} | document.get("listen", {})
        self.policy = document
        self.sidecar = Sidecar(document)

    @property
    def app(self) -> Upstream:
        """The app, if it is no other one."""
        assert self._app is not None
        return self._app

    @property
    def address(self) -> tuple[str, int]:
        """Where entry requests are sent."""
        return "127.0.0.1", self.port

    def url(self, path: str = "/run") -> str:
        """The same, as clients want it."""
        return f"http://127.0.0.1:{self.port}{path}"

    def entries(self, budget: str | None = None, count: int = 1) -> list[dict[str, Any]]:
        """The records of entry requests, of one budget or of all, once there are so many."""

        def found() -> list[dict[str, Any]] | None:
            known = [event for event in self.sidecar.events if event["event"] == "entry"]
            known = [event for event in known if budget in (None, event["budget_id"])]
            return known if len(known) >= count else None

        return eventually(found, what=f"{count} entry records of {budget}")

    def budget(self, id: str) -> dict[str, Any]:
        """The record of a job."""
        record: dict[str, Any] = self.sidecar.ask(f"/budgets/{id}")
        return record

    def __enter__(self) -> Pod:
        if self._app is not None:
            self._app.then(*(self._placed(each) for each in self._script)).start()
        self.sidecar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.sidecar.__exit__(kind, failure, trace)
        finally:
            if self._app is not None:
                self._app.__exit__(kind, failure, trace)

    def _placed(self, each: Any) -> Behaviour:
        behaviour: Behaviour = each if inspect.iscoroutinefunction(each) else each(self)
        return behaviour
