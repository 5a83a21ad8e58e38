"""What the tests share: the release, the test's namespaces, a tool, and a driver that calls from inside the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.harness import objects
from tests.cluster.harness.commands import Object, apply, attempt, get, kubectl, listed
from tests.cluster.harness.release import Release, Samples, samples
from tests.cluster.harness.settings import AGENTS, NAMESPACES, REDIRECTED, SYSTEM, TOOLS
from tests.cluster.harness.waiting import eventually, gone, ready

TOOL = f"http://tool.{TOOLS}.svc.cluster.local"
"""The tool's address, as agents call it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, as a program in a pod has seen it. The names of headers are in lower case; `ms`: how long it took."""

    status: int
    headers: Mapping[str, str]
    body: str
    ms: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Answer:
        """Read it from what the program prints."""
        headers = {name.lower(): value for name, value in told["headers"].items()}
        return cls(told["status"], headers, told.get("body", ""), told.get("ms", 0))

    @property
    def outcome(self) -> str:
        """What the sidecar says of the call; empty when no sidecar has seen it."""
        return self.headers.get("budget-outcome", "")

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class World:
    """The cluster with everything in it that the tests need."""

    def __init__(self) -> None:
        """Prepare the release; nothing is in the cluster yet."""
        self.release = Release()

    # -- life ------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Make the namespaces, the tool and the driver. No namespace is opted in yet."""
        apply(
            objects.namespace(SYSTEM, enforce="restricted"),
            objects.namespace(TOOLS),
            objects.namespace(AGENTS, enforce="restricted"),
            objects.namespace(REDIRECTED, enforce="privileged"),
        )
        apply(
            *(objects.programs(namespace) for namespace in NAMESPACES),
            objects.quota(AGENTS),
            objects.pod("tool", TOOLS, objects.pod_spec(objects.container("tool.py", port=8080))),
            objects.service("tool", TOOLS, 8080),
            objects.pod("driver", TOOLS, objects.pod_spec(objects.container("idle.py"))),
        )
        ready("tool", TOOLS)
        ready("driver", TOOLS)
        eventually("the tool's Service leads to it", lambda: self.call(f"{TOOL}/healthz").status == 200)

    def clear(self) -> None:
        """Remove everything that a test has made, and the release, whatever state they are in."""
        self.release.uninstall()
        kubectl(
            "delete",
            "namespace",
            *NAMESPACES,
            SYSTEM,
            "--ignore-not-found",
            "--timeout=150s",
            seconds=160,
        )
        for namespace in (*NAMESPACES, SYSTEM):
            gone("namespace", namespace)

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: object = None,
        seconds: float = 30,
    ) -> Answer:
        """Send a request from the driver, which has no sidecar. A body that is no text goes as JSON."""
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        told = {"url": url, "method": method, "headers": headers or {}, "body": text, "seconds": seconds}
        program = ("python", "/programs/call.py", json.dumps(told))
        return Answer.of(
            json.loads(kubectl("exec", "driver", "--namespace", TOOLS, "--", *program, seconds=seconds + 30))
        )

    def job(self, url: str, *calls: Mapping[str, Any], **headers: str) -> tuple[Answer, list[Answer]]:
        """Have an agent do a job; return the answer, and those that the agent got. `budget_id="x"` is a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.call(f"{url}/job", method="POST", headers=named, body=list(calls))
        done = answer.json if answer.status == 200 else []
        return answer, [Answer.of(each) for each in done]

    def tool_has_seen(self) -> dict[str, list[str]]:
        """Return the names of the reads and the bodies of the writes that have reached the tool."""
        seen: dict[str, list[str]] = self.call(f"{TOOL}/seen").json
        return seen

    def metrics(self, pod: Object, port: int | str, path: str = "/metrics") -> Samples:
        """Scrape a pod."""
        return samples(self.call(f"http://{pod['status']['podIP']}:{port}{path}").body)

    def log(self, pod: str, namespace: str, container: str = "waterclock") -> list[dict[str, Any]]:
        """Return the lines of a sidecar's log."""
        lines = kubectl("logs", pod, "--container", container, "--namespace", namespace).splitlines()
        return [json.loads(line) for line in lines]

    # -- what went wrong -------------------------------------------------------------------------------------------

    def report(self) -> str:
        """What the cluster says of the test's namespaces, for the report of a failed test."""
        told = []
        for namespace in (SYSTEM, *NAMESPACES):
            if get("namespace", namespace) is None:
                continue
            told.append(attempt("kubectl", "get", "pods", "--output=wide", "--namespace", namespace).out)
            events = attempt(
                "kubectl", "get", "events", "--sort-by=.lastTimestamp", "--namespace", namespace
            ).out.splitlines()
            told += [f"-- the last events of {namespace}", *events[-12:]]
        for pod in listed("pods", SYSTEM):
            name = pod["metadata"]["name"]
            told.append(f"-- {name}")
            told.append(attempt("kubectl", "logs", name, "--namespace", SYSTEM, "--tail=25").out)
        return "\n".join(told)


def sidecar_of(pod: Object) -> Object | None:
    """Return the sidecar's container of a pod, None where there is none."""
    spec = pod["spec"]
    for each in (*spec.get("initContainers", []), *spec["containers"]):
        if each["name"] == "waterclock":
            found: Object = each
            return found
    return None
