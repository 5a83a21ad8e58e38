"""A container of a pod's spec, started with runc as a kubelet would have it started.

The same image, command, environment, user, capabilities, read-only root and mounts. What is left out is what has to do
with the node rather than with the container: cgroups, the seccomp profile, DNS.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.image.images import Image, run

Spec = Mapping[str, Any]
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def process(image: Image, container: Spec, pod: Spec) -> dict[str, Any]:
    """Return the process of an OCI bundle: what the image says, overridden by the container, then the pod.

    By the rules of the Kubernetes API reference (Container, SecurityContext) and of the OCI runtime specification.
    """
    own = {**(pod.get("securityContext") or {}), **(container.get("securityContext") or {})}
    of_image = [int(part) for part in image.config["User"].split(":")]
    user = own.get("runAsUser", of_image[0])
    assert not (own.get("runAsNonRoot") and user == 0)
    env = dict(each.split("=", 1) for each in image.config["Env"])
    env |= {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
    command = container.get("command") or image.config["Entrypoint"]
    arguments = container.get("args") or ([] if container.get("command") else image.config.get("Cmd") or [])
    words = [_REFERENCE.sub(lambda name: env.get(name[1], name[0]), word) for word in (*command, *arguments)]
    kept = [f"CAP_{name}" for name in own.get("capabilities", {}).get("add", [])]
    assert own.get("capabilities", {}).get("drop", ["ALL"]) == ["ALL"]
    return {
        "args": words,
        "cwd": container.get("workingDir") or image.config.get("WorkingDir") or "/",
        "env": [f"{name}={value}" for name, value in env.items()],
        "user": {"uid": user, "gid": own.get("runAsGroup", of_image[-1])},
        "noNewPrivileges": not own.get("allowPrivilegeEscalation", True),
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), kept),
    }


class Container:
    """A running container. `said` is its log, and what it ended with."""

    def __init__(self, process: subprocess.Popen[str], id: str, log: Path, state: Path) -> None:
        """Take what runs it."""
        self.process, self.id, self.log, self._state = process, id, log, state

    def said(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text()

    def events(self) -> list[dict[str, Any]]:
        """Return the lines of its log that are JSON."""
        return [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]

    def exec(self, *command: str) -> str:
        """Run a command in it, as its user."""
        return run("runc", "--root", str(self._state), "exec", self.id, *command)

    def stop(self) -> int:
        """End it as a kubelet does, and return its exit status."""
        run("runc", "--root", str(self._state), "kill", self.id, "TERM")
        return self.process.wait(timeout=30)


@contextlib.contextmanager
def started(
    image: Image,
    folder: Path,
    container: Spec,
    *,
    pod: Spec | None = None,
    volumes: Mapping[str, Path] | None = None,
    network: str | None = None,
) -> Iterator[Container]:
    """Start a container. `volumes`: what stands for the pod's volumes, by name. `network`: a namespace's file."""
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    ]
    for each in container.get("volumeMounts", []):
        source = (volumes or {})[each["name"]]
        options = ["bind", "ro" if each.get("readOnly") else "rw"]
        mounts.append({"destination": each["mountPath"], "source": str(source), "options": options})
    read_only = {**(container.get("securityContext") or {})}.get("readOnlyRootFilesystem", False)
    namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
    namespaces.append({"type": "network"} | ({"path": network} if network else {}))
    config = {
        "ociVersion": "1.0.2",
        "process": process(image, container, pod or {}),
        "root": {"path": str(image.rootfs), "readonly": read_only},
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    }
    id = f"waterclock-test-{secrets.token_hex(4)}"
    bundle, state, log = folder / id, folder / f"{id}.state", folder / f"{id}.log"
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps(config))
    with log.open("w") as output:
        running = subprocess.Popen(
            ["runc", "--root", str(state), "run", "--bundle", str(bundle), id],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
    try:
        yield Container(running, id, log, state)
    finally:
        subprocess.run(
            ["runc", "--root", str(state), "delete", "--force", id], capture_output=True, check=False
        )
        running.wait(timeout=30)
        shutil.rmtree(bundle)


def output(image: Image, folder: Path, *command: str, entrypoint: bool = True) -> tuple[int, str]:
    """Run a container of the image to its end, read-only; return its status and what it said."""
    spec: dict[str, Any] = {"securityContext": {"readOnlyRootFilesystem": True}}
    spec |= {"args": list(command)} if entrypoint else {"command": list(command)}
    with started(image, folder, spec) as container:
        status = container.process.wait(timeout=60)
        return status, container.said()
