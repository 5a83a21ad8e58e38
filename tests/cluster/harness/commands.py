"""kubectl and helm, as a person would call them.

`KUBECTL` and `HELM` name the programs, `WRAP` what they are started with (`nsenter --net=...`, where the cluster can be
reached from one network namespace only); `KUBECONFIG` is theirs to read.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

Object = dict[str, Any]
SECONDS = 60.0
"""How long one command may take, unless it is one that waits."""


class CommandFailed(AssertionError):
    """A command came back with an error. The message is what it was, and what it said."""


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether it went well."""
        return self.code == 0


def _program(name: str) -> list[str]:
    return [*shlex.split(os.environ.get("WRAP", "")), os.environ.get(name.upper(), "") or name]


def _text_of(given: object) -> str | None:
    """What goes to the command's standard input: text as it is, objects as one JSON list."""
    if given is None or isinstance(given, str):
        return given
    items = given if isinstance(given, list) else [given]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items} if len(items) > 1 else items[0])


def attempt(program: str, *arguments: str, given: object = None, seconds: float = SECONDS) -> Said:
    """Run `kubectl` or `helm`, and return how it went. `given`: text or objects for its standard input."""
    command = [*_program(program), *arguments]
    done = subprocess.run(
        command, input=_text_of(given), capture_output=True, text=True, timeout=seconds, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr.strip())


def _must(program: str, arguments: Sequence[str], given: object, seconds: float) -> str:
    said = attempt(program, *arguments, given=given, seconds=seconds)
    if not said.ok:
        raise CommandFailed(f"{program} {shlex.join(arguments)}\n{said.err or said.out}")
    return said.out


def kubectl(*arguments: str, given: object = None, seconds: float = SECONDS) -> str:
    """Run kubectl, and return what it says. Raises CommandFailed."""
    return _must("kubectl", arguments, given, seconds)


def helm(*arguments: str, given: object = None, seconds: float = 180.0) -> str:
    """Run helm, and return what it says. Raises CommandFailed."""
    return _must("helm", arguments, given, seconds)


class Following:
    """A container's log, read while it is written: of a pod that is gone afterwards, nothing else is left."""

    def __init__(self, pod: str, container: str, namespace: str) -> None:
        """Begin to read."""
        arguments = ("logs", pod, f"--container={container}", "--namespace", namespace, "--follow")
        self._process = subprocess.Popen(
            [*_program("kubectl"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> Following:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def lines(self, seconds: float = 30) -> list[str]:
        """Wait until the container has ended, and return all that it has said."""
        lines = self._process.communicate(timeout=seconds)[0].splitlines()
        # A kubelet that finds the container removed says so in the log itself.
        return [line for line in lines if not line.startswith("rpc error:")]


# -- objects -----------------------------------------------------------------------------------------------------------


def get(kind: str, name: str, namespace: str | None = None) -> Object | None:
    """Return an object, None where there is none of that name."""
    where = ["--namespace", namespace] if namespace else []
    out = kubectl("get", kind, name, *where, "--ignore-not-found", "--output", "json")
    return json.loads(out) if out.strip() else None


def listed(kind: str, namespace: str | None = None, **labels: str) -> list[Object]:
    """Return the objects of a kind, of one namespace or of all, that have these labels."""
    where = ["--namespace", namespace] if namespace else ["--all-namespaces"]
    chosen = ["--selector", ",".join(f"{name}={value}" for name, value in labels.items())] if labels else []
    found: list[Object] = json.loads(kubectl("get", kind, *where, *chosen, "--output", "json"))["items"]
    return found


def apply(*objects: Object) -> None:
    """Bring objects into the cluster, as `kubectl apply` does it."""
    kubectl("apply", "--server-side", "--force-conflicts", "--filename", "-", given=list(objects))


def admitted(pod: Object) -> Object:
    """Return a pod as the API server would have it, after every admission; it is not made. Raises CommandFailed."""
    out = kubectl("create", "--dry-run=server", "--output", "json", "--filename", "-", given=pod)
    answer: Object = json.loads(out)
    return answer


def refused(*objects: Object) -> str:
    """Try to make objects that the API server has to refuse; return what it says."""
    said = attempt("kubectl", "create", "--dry-run=server", "--filename", "-", given=list(objects))
    assert not said.ok, f"it was accepted: {said.out}"
    return said.err


def delete(kind: str, name: str, namespace: str, *, wait: bool = False) -> None:
    """Remove an object, if it is there."""
    kubectl(
        "delete",
        kind,
        name,
        "--namespace",
        namespace,
        "--ignore-not-found",
        f"--wait={str(wait).lower()}",
        seconds=120,
    )
