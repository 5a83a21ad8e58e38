"""A policy that changes while calls go through: the new one is taken whole or not at all."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.endurance.begun import begun, told
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

RELOADS = 'waterclock_policy_reloads_total{result="%s"}'
LAST = "waterclock_policy_last_reload_successful"


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    """A sidecar that allows each call 5 s, so that another number tells of another policy."""
    with Sidecar("fallback: {cap: 5s}") as sidecar:
        yield sidecar


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Answers at once."""
    with Upstream(answer()) as upstream:
        yield upstream


def allowed(sidecar: Sidecar, upstream: Upstream) -> int:
    """What a call is allowed now, in milliseconds."""
    seen = call(sidecar, "GET", upstream.url())
    assert seen.status == 200
    return int(seen.get("budget-allowed-ms") or 0)


def test_signal(sidecar: Sidecar, upstream: Upstream, threads: ThreadPoolExecutor) -> None:
    """SIGHUP takes the file as it is now; calls under way keep the policy that they began with."""
    slow = begun(threads, sidecar, upstream, "GET", "/slow", answer(b"slow", after=0.5))
    sidecar.write_policy("fallback: {cap: 100ms}")
    sidecar.signal(signal.SIGHUP)
    event = told(sidecar, "reloaded")
    # As `sha256sum waterclock.yaml | cut -c1-12` prints it.
    assert event["policy"] == hashlib.sha256(sidecar.config.read_bytes()).hexdigest()[:12]
    assert event["needs_restart"] == []
    assert allowed(sidecar, upstream) == 100
    assert slow.result().body == b"slow"
    samples = sidecar.samples()
    assert samples[RELOADS % "success"] >= 1
    assert (samples[RELOADS % "failure"], samples[LAST]) == (0, 1)


def test_written_file(sidecar: Sidecar, upstream: Upstream) -> None:
    """Nobody has to signal: that the file has changed is noticed."""
    sidecar.config.write_text(sidecar.config.read_text().replace("5s", "300ms"))
    told(sidecar, "reloaded")
    assert allowed(sidecar, upstream) == 300


def test_exchanged_folder(upstream: Upstream, tmp_path: Path) -> None:
    """The kubelet puts a ConfigMap's new content beside the old one, and turns a link of the folder."""
    sidecar = Sidecar("fallback: {cap: 5s}", folder=tmp_path)
    text = sidecar.config.read_text()
    for version, cap in (("one", "5s"), ("two", "300ms")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "waterclock.yaml").write_text(text.replace("5s", cap))
    sidecar.config.unlink()
    (tmp_path / "..data").symlink_to("one")
    sidecar.config.symlink_to("..data/waterclock.yaml")
    with sidecar:
        assert allowed(sidecar, upstream) == 5000
        (tmp_path / "..new").symlink_to("two")
        (tmp_path / "..new").rename(tmp_path / "..data")
        told(sidecar, "reloaded")
        assert allowed(sidecar, upstream) == 300


def test_faulty_file(sidecar: Sidecar, upstream: Upstream) -> None:
    """Whatever is wrong with it, the old policy stays in force, and the log says where it is wrong and what to write."""
    good = sidecar.config.read_text()
    faults = {
        "fallback: {cap: 10}\n": '"10" has no unit; write 10s',
        "fallbakc: {cap: 10s}\n": "did you mean fallback?",
        "fallback: {cap: 10s\n": "this is not valid YAML",
        "routes: [{name: a, match: {host: a.internal}, ca: /nowhere/ca.pem}]\n": 'there is no file "/nowhere/ca.pem"',
        "\0": "cannot stand in YAML",
    }
    for count, (text, words) in enumerate(faults.items(), 1):
        sidecar.config.write_text(text)
        sidecar.signal(signal.SIGHUP)
        event = told(sidecar, "reload_failed", count)
        said = " ".join(event["faults"])
        assert words in said
        assert said.startswith(f"{sidecar.config}:")
        assert allowed(sidecar, upstream) == 5000
    sidecar.config.unlink()
    sidecar.signal(signal.SIGHUP)
    assert "the file cannot be read" in told(sidecar, "reload_failed", len(faults) + 1)["faults"][0]
    samples = sidecar.samples()
    assert (samples[RELOADS % "success"], samples[LAST]) == (0, 0)
    assert samples[RELOADS % "failure"] >= len(faults) + 1
    sidecar.config.write_text(good.replace("5s", "300ms"))
    sidecar.signal(signal.SIGHUP)
    told(sidecar, "reloaded")
    assert allowed(sidecar, upstream) == 300
    assert sidecar.samples()[LAST] == 1


def test_what_needs_a_restart_is_named(sidecar: Sidecar, upstream: Upstream) -> None:
    """Ports and the journal stay as they are, and the log says so; the rest is in force."""
    sidecar.write_policy(
        {"fallback": {"cap": "300ms"}, "journal": {"path": str(sidecar.folder / "other.db"), "sync": "full"}}
    )
    sidecar.signal(signal.SIGHUP)
    assert told(sidecar, "reloaded")["needs_restart"] == ["journal.path", "journal.sync"]
    assert allowed(sidecar, upstream) == 300
    assert call(sidecar, "POST", upstream.url(), body=b"{}").status == 200
    assert not (sidecar.folder / "other.db").exists()
