"""An image built for the tests, from a local base, with buildah: its configuration and its files.

`IMAGE_UNDER_TEST` names one that buildah has already. Otherwise one is built, on the base image in `$CLUSTER/python.tar`
(a slim Debian with Python, as a docker archive), with nothing of the network but the package index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BASE_ARCHIVE = Path(os.environ.get("CLUSTER") or "/tmp/cluster") / "python.tar"
BASE = "localhost/python:3.11"
NAME = "localhost/waterclock:under-test"
_OF_THE_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs")
"""What the machine says of its package index, where it says anything."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image. `config`: what a container of it begins with (docker's image specification)."""

    name: str
    config: dict[str, Any]
    rootfs: Path


def run(*command: str, seconds: float = 60) -> str:
    """Run a command, and return what it says."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def must_be_able() -> None:
    """Skip, with the reason, where no image can be built or run."""
    missing = [name for name in ("buildah", "runc") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount an image")
    if not BASE_ARCHIVE.is_file() and "IMAGE_UNDER_TEST" not in os.environ:
        pytest.skip(f"there is no base image: {BASE_ARCHIVE}")


def build() -> str:
    """Build the image, and return its name."""
    ready = os.environ.get("IMAGE_UNDER_TEST")
    if ready:
        return ready
    if BASE not in run("buildah", "images", "--format", "{{.Name}}:{{.Tag}}").split():
        run("buildah", "rm", run("buildah", "from", f"docker-archive:{BASE_ARCHIVE}").strip())
    mounted = " ".join(f"--volume {path}:{path}:ro" for path in _OF_THE_MACHINE if Path(path).exists())
    told = {
        "BUILDER": "buildah",
        "BASE": BASE,
        "IMAGE": NAME,
        "COMPILE": "no",
        "BUILD_ARGS": f"--isolation chroot --network host {mounted}",
    }
    built = subprocess.run(
        ["make", "--no-print-directory", "image"],
        env=os.environ | told,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, f"{built.stdout[-6000:]}\n{built.stderr[-4000:]}"
    return NAME


def configuration(name: str) -> dict[str, Any]:
    """Return the configuration of an image."""
    said = json.loads(run("buildah", "inspect", "--type", "image", name))
    config: dict[str, Any] = said["Docker"]["config"]
    return config
