"""Who answers on the control port: a sidecar, nobody, or something else. Each is told from the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy.cli import control, main
from tests.admin.writes import Sidecar, write
from tests.cli.controls import Commands, answering

NEEDS_A_SIDECAR = [["budgets"], ["budgets", "run-1"], ["timeline", "run-1"], ["close", "run-1"]]


@pytest.mark.parametrize("words", NEEDS_A_SIDECAR)
def test_nobody_is_there(alone: Commands, words: list[str]) -> None:
    """What was asked, where, why not, and what to do."""
    complaint = alone.bad(*words)
    assert f"no sidecar answers at 127.0.0.1:{alone.port}" in complaint
    assert "connection refused" in complaint
    assert "GET /budgets" in complaint or "POST /budgets/run-1/close" in complaint
    for remedy in ("-c FILE", "kubectl exec", "waterclock run"):
        assert remedy in complaint


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "no JSON"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n[]", "404"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
        (None, "nothing came within"),
    ],
)
def test_something_else_is_there(
    tmp_path: Path, said: bytes | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for a sidecar, and not waited for forever."""
    monkeypatch.setattr(control, "_PATIENCE_S", 0.3)
    with answering(said) as port:
        assert why in Commands(tmp_path, port).bad("budgets")


def test_something_else_is_no_sidecar_for_the_journal_either(tmp_path: Path) -> None:
    """Another program's error in JSON is not taken for the answer of a sidecar: the journal itself is asked."""
    said = b'HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\n\r\n{"error": 404}'
    with answering(said) as port:
        complaint = Commands(tmp_path, port).bad("uncertain", "list")
    assert str(tmp_path / "journal.db") in complaint


def test_a_refusal_is_told_with_its_remedy(asked: Commands, sidecar: Sidecar) -> None:
    """In the words of the API."""
    sidecar.writes.put(write("w1"))
    complaint = asked.bad("dead-letters", "release", "w1")
    assert complaint == (
        "waterclock: The write w1 is no dead letter: it is uncertain.\nGET /uncertain/w1 shows it.\n"
    )


def test_the_sidecar_does_not_pay_for_commands() -> None:
    """`waterclock run` loads this package too: what is only for people, or only asks, comes in when it is used."""
    code = "import sys, proxy.cli, proxy.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert {"rich", "http.client", "aiohttp", "proxy.admin.api", "proxy.admin.schemas"}.isdisjoint(
        loaded.stdout.split()
    )


def test_every_command_explains_itself() -> None:
    """What it does, and which policy it asks by."""
    for words in (
        ["budgets"],
        ["timeline"],
        ["close"],
        ["dead-letters", "release"],
        ["dead-letters", "discard"],
    ):
        said = CliRunner().invoke(main, [*words, "--help"])
        assert said.exit_code == 0
        assert "--config" in said.output
        assert "--json" in said.output
