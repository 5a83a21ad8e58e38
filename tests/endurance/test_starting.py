"""What keeps a sidecar from starting is told in one line that names the place and the remedy, with a status of its own."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.endurance.begun import warned
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.sidecar import PROGRAM, Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually


def refused(sidecar: Sidecar) -> tuple[int, str]:
    """Start a sidecar that cannot start; return its exit status and what it says."""
    ended = subprocess.run(
        [PROGRAM, "run", "-c", sidecar.config],
        cwd=sidecar.folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "Traceback" not in ended.stderr + ended.stdout
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("which", ["outbound", "control", "metrics"])
def test_port_in_use(which: str, tmp_path: Path) -> None:
    """The key, the port, and what to do."""
    sidecar = Sidecar(folder=tmp_path)
    port = getattr(sidecar, which)
    with socket.create_server(("127.0.0.1", port)):
        status, said = refused(sidecar)
    assert status == 1
    place = f"listen.{which}: cannot listen on 127.0.0.1:{port}: address already in use."
    assert (
        said
        == f"waterclock: cannot start: {place} End what listens there, or set listen.{which} to a free port.\n"
    )


def test_address_of_another_machine(tmp_path: Path) -> None:
    """An address that cannot be listened on here."""
    sidecar = Sidecar({"listen": {"outbound": "192.0.2.1:10800"}}, folder=tmp_path)
    status, said = refused(sidecar)
    assert status == 1
    assert "listen.outbound: cannot listen on 192.0.2.1:10800" in said
    assert "an address that this machine has" in said


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_unreadable_ca(content: str | None, tmp_path: Path) -> None:
    """The line of the policy, the path, and what to write there."""
    ca = tmp_path / "ca.pem"
    if content is not None:
        ca.write_text(content)
    routes = [{"name": "ledger", "match": {"host": "ledger.internal"}, "tls": "originate", "ca": str(ca)}]
    sidecar = Sidecar({"routes": routes}, folder=tmp_path)
    status, said = refused(sidecar)
    assert status == 2
    place, _, problem = said.splitlines()[0].partition(": ")
    assert place.startswith(f"{sidecar.config}:")
    assert problem.startswith("routes[0].ca: ")
    assert str(ca) in problem
    assert "write the path of a PEM file" in problem


def test_journal_of_a_newer_version(tmp_path: Path) -> None:
    """It is not touched: the newer version finds all that it has left."""
    path = tmp_path / "journal.db"
    with Sidecar(folder=tmp_path):
        pass
    with sqlite3.connect(path) as journal:
        journal.execute("PRAGMA user_version = 99")
    journal.close()
    before = path.read_bytes()
    status, said = refused(Sidecar(folder=tmp_path))
    assert status == 1
    assert said.startswith(
        f"waterclock: cannot start: journal {path}: it was written by a newer Waterclock (schema 99;"
    )
    assert said.endswith("run that version or a later one, or move the file aside\n")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "problem", "remedy"),
    [
        (b"no database" * 1000, "the file is damaged, or is no journal", "move it and its -wal file aside"),
        (None, "it is a folder", "name a file in it"),
    ],
)
def test_what_is_no_journal(content: bytes | None, problem: str, remedy: str, tmp_path: Path) -> None:
    """It is left as it is."""
    path = tmp_path / "journal.db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    status, said = refused(Sidecar(folder=tmp_path))
    assert status == 1
    assert said.startswith(f"waterclock: cannot start: journal {path}: {problem}")
    assert remedy in said
    if content is not None:
        assert path.read_bytes() == content


def test_journal_of_another_sidecar(tmp_path: Path) -> None:
    """Two sidecars on one volume: the second says so, and the first goes on."""
    with Sidecar(folder=tmp_path) as first, Upstream(answer()) as upstream:
        second = Sidecar({"journal": {"path": str(tmp_path / "journal.db")}})
        status, said = refused(second)
        assert status == 1
        assert str(tmp_path / "journal.db") in said
        assert "give each sidecar a journal of its own (journal.path)" in said
        assert call(first, "POST", upstream.url(), body=b"{}").status == 200


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can put a folder under /proc in the way of everybody"
)
def test_journal_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A folder in which nobody can make a file."""
    sidecar = Sidecar({"journal": {"path": "/proc/waterclock/journal.db"}}, folder=tmp_path)
    status, said = refused(sidecar)
    assert status == 1
    assert "/proc/waterclock" in said
    assert "let the sidecar's user write to its folder" in said


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can put a folder under /proc in the way of everybody"
)
def test_going_on_where_nothing_can_be_written(tmp_path: Path) -> None:
    """With `on_failure: continue` the sidecar starts all the same; the log and each write's answer say what is missing."""
    journal = {"path": "/proc/waterclock/journal.db", "on_failure": "continue"}
    with Upstream(answer()) as upstream, Sidecar({"journal": journal}, folder=tmp_path) as sidecar:
        told = call(sidecar, "POST", upstream.url(), body=b"{}")
        assert told.status == 200
        assert "journal=off" in (told.get("budget-outcome") or "")
        said = eventually(lambda: [each for each in sidecar.events if each["event"] == "journal_unavailable"])
        assert "/proc/waterclock" in said[0]["problem"]
        warned(sidecar, "/proc/waterclock")
