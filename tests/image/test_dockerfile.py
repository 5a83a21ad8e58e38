"""What the Dockerfile says, as far as it can be seen without building it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
STAGES = re.split(r"^FROM .*\n", DOCKERFILE, flags=re.MULTILINE)[1:]


def test_it_has_two_stages_on_a_base_that_can_be_chosen() -> None:
    """Whatever the base is, both stages are built on it, so that the interpreter is the same."""
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.search(r"^ARG BASE=python:3\.\d+-slim$", DOCKERFILE, re.MULTILINE)


def test_it_names_no_host() -> None:
    """No registry, no index and no mirror: those are the builder's to know."""
    named = re.findall(r"\b(?:[a-z0-9-]+\.)+(?:io|com|org|dev|net)\b", DOCKERFILE)
    assert named == []


def test_what_is_installed_is_locked_by_hashes() -> None:
    """No requirement is installed but from a lock file, with its hashes; nothing but the project itself without."""
    for command in re.findall(r"pip[^&]*install[^&]*", STAGES[0]):
        assert "--require-hashes" in command or "--no-index" in command or "apt-get" in command, command


def test_the_last_stage_installs_no_compiler_and_runs_as_nobody_special() -> None:
    """What it adds is iptables, where there is none."""
    assert re.findall(r"apt-get install [^&]*", STAGES[1]) == [
        "apt-get install -y -qq --no-install-recommends iptables "
    ]
    assert "USER 2180:2180" in STAGES[1]


def test_the_context_is_small() -> None:
    """`.dockerignore` names what goes in; everything else stays out."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in ("", "#")]
    assert lines[0] == "*"
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert all((ROOT / path).exists() for path in kept), "a name that is no more"
    assert not {"tests", "docs", ".git", ".venv"} & {path.split("/")[0] for path in kept}


def test_without_a_builder_it_says_what_to_install(tmp_path: Path) -> None:
    """A machine that has neither docker nor podman nor buildah."""
    for name in ("bash", "dirname", "env"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (tmp_path / name).symlink_to(found)
    said = subprocess.run(
        [str(ROOT / "tools" / "image")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    assert "docker" in said.stderr
    assert "apt-get install buildah" in said.stderr


@pytest.mark.parametrize("stage", [0, 1])
def test_a_local_base_needs_no_network_but_the_index(stage: int) -> None:
    """apt-get is asked only for what is missing, and what it cannot get is no end of the build (COMPILE=auto)."""
    if stage == 0:
        assert 'elif [ "$COMPILE" = auto ]' in STAGES[0]
    else:
        assert "command -v iptables-restore" in STAGES[1]
