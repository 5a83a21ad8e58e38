"""The chart's policy follows its file, and a faulty file changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.config import ConfigError, parse
from proxy.core.policy import Policy
from proxy.kube.policies.source import BUILT_IN, PolicySource
from tests.kube.server.logbook import Logbook
from tests.kube.server.manual import settle


class Followed:
    """A source that is followed: `look` lets it look at its file once."""

    def __init__(self, path: Path | None) -> None:
        self.log = Logbook()
        self.reloads: list[bool] = []
        self.changes = 0
        self._turn = asyncio.Event()
        self.source = PolicySource(path, self.log, on_reload=self.reloads.append, pause=self._pause)

    async def _pause(self, seconds: float) -> None:
        assert seconds == 1.0
        self._turn.clear()
        await self._turn.wait()

    def _changed(self) -> None:
        self.changes += 1

    async def look(self) -> None:
        await settle()
        self._turn.set()
        await settle()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.source.run(self._changed))
        yield
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def exchange(path: Path, text: str) -> None:
    """Put another file in its place, as the kubelet does."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


async def test_it_follows_its_file(tmp_path: Path) -> None:
    """Whole, or not at all."""
    path = tmp_path / "waterclock.yaml"
    path.write_text("mode: observe\n")
    followed = Followed(path)
    async with followed.running():
        assert followed.source.text == "mode: observe\n"
        await followed.look()
        assert followed.changes == 0
        exchange(path, "# by hand\nmode: enforce\n")
        await followed.look()
        assert (followed.source.text, followed.changes) == ("# by hand\nmode: enforce\n", 1)
        exchange(path, "mode: dream\nlimit: 0\n")
        await followed.look()
        assert (followed.source.text, followed.changes) == ("# by hand\nmode: enforce\n", 1)
        [failed] = followed.log.of("policy_reload_failed")
        assert [fault.partition(": ")[2] for fault in failed["faults"]] == [
            'mode: "dream" is not known here; write enforce or observe',
            'limit: "0" is less than 1; write 1 to 1000000',
        ]
        await followed.look()
        assert len(followed.log.of("policy_reload_failed")) == 1
        exchange(path, "mode: observe\n")
        await followed.look()
        assert (followed.source.text, followed.changes) == ("mode: observe\n", 2)
    assert followed.reloads == [True, False, True]


async def test_the_same_text_is_no_change(tmp_path: Path) -> None:
    """A file that was touched, or exchanged for an equal one."""
    path = tmp_path / "waterclock.yaml"
    path.write_text("mode: observe\n")
    followed = Followed(path)
    async with followed.running():
        exchange(path, "mode: observe\n")
        await followed.look()
    assert (followed.changes, followed.reloads) == (0, [True])


async def test_a_file_that_goes_and_comes(tmp_path: Path) -> None:
    """While it is away, what it said last holds."""
    path = tmp_path / "waterclock.yaml"
    path.write_text("mode: observe\n")
    followed = Followed(path)
    async with followed.running():
        path.unlink()
        await followed.look()
        assert followed.source.text == "mode: observe\n"
        path.write_text("limit: 3\n")
        await followed.look()
        assert followed.source.text == "limit: 3\n"
    assert followed.reloads == [False, True]


async def test_what_changes_before_it_is_followed(tmp_path: Path) -> None:
    """The time between reading and following is not lost."""
    path = tmp_path / "waterclock.yaml"
    path.write_text("mode: observe\n")
    followed = Followed(path)
    exchange(path, "limit: 3\n")
    async with followed.running():
        await followed.look()
    assert followed.source.text == "limit: 3\n"


async def test_without_a_file() -> None:
    """The built-in policy, and nothing to follow."""
    followed = Followed(None)
    async with followed.running():
        await followed.look()
    assert followed.source.text == BUILT_IN
    assert parse(BUILT_IN) == Policy()
    assert followed.reloads == []


@pytest.mark.parametrize("text", ["", "\n\n"])
async def test_nothing_is_written_out(tmp_path: Path, text: str) -> None:
    """Sidecars do not believe a file that has become empty."""
    path = tmp_path / "waterclock.yaml"
    path.write_text(text)
    assert Followed(path).source.text == BUILT_IN


async def test_files_of_the_pods_are_not_looked_for(tmp_path: Path) -> None:
    """They are there, and not here."""
    path = tmp_path / "waterclock.yaml"
    path.write_text("fallback: {ca: /etc/waterclock/ca/ca.pem}\n")
    assert "ca.pem" in (Followed(path).source.text or "")


async def test_a_faulty_file_at_the_start(tmp_path: Path) -> None:
    """There is none before it that could stay, and injecting goes on without; a good one is taken up when it comes."""
    path = tmp_path / "waterclock.yaml"
    path.write_text("mode: dream\n")
    followed = Followed(path)
    assert (followed.source.text, followed.reloads) == (None, [False])
    [failed] = followed.log.of("policy_reload_failed")
    assert "dream" in failed["faults"][0]
    assert failed["policy"] is None
    async with followed.running():
        exchange(path, "mode: observe\n")
        await followed.look()
    assert (followed.source.text, followed.changes) == ("mode: observe\n", 1)
    with pytest.raises(ConfigError, match="cannot be read"):
        Followed(tmp_path / "none.yaml")
