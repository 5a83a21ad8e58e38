"""The parts of a soak that need no sidecar: spans, policy, metrics, the mix of calls, verdicts, the plot."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from proxy.config import load
from trials.soak import figure, report
from trials.soak.caller import Broken
from trials.soak.drive import Counts, drawn, full, steady
from trials.soak.kinds import FULL_LOAD, SHARES, Mix
from trials.soak.length import Length
from trials.soak.policy import policy
from trials.soak.run import Soak, half
from trials.soak.samples import of_metrics, of_process
from trials.soak.series import SERIES, Series

MIB = 1024 * 1024


@pytest.mark.parametrize("seconds", [16, 90, 600, 3600, 86_400])
def test_stores_are_full_early(seconds: int) -> None:
    """What is kept for a while is kept for an eighth of the time at most, and policies change several times."""
    length = Length(seconds)
    assert length.kept_ms <= seconds * 1000 / 8
    assert seconds / length.reload_seconds >= 4
    assert seconds / length.sample_seconds >= 40


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_both_policies_are_policies(tmp_path: Path, turn: int) -> None:
    file = tmp_path / "waterclock.yaml"
    file.write_text(policy((10_800, 10_802, 10_803), tmp_path / "journal.db", Length(20), turn))
    assert {route.name for route in load(file).routes} == {"cached", "laddered", "bounded"}


def test_reloads_change_something(tmp_path: Path) -> None:
    ports, journal, length = (1, 2, 3), tmp_path / "journal.db", Length(20)
    first, second, third = (policy(ports, journal, length, turn) for turn in range(3))
    assert first != second
    assert first == third


def test_half_load_is_half_of_a_core() -> None:
    assert half(full=10_000, call_us=200) == 2_500


def test_half_load_is_not_more_than_the_driver_can_do() -> None:
    assert half(full=1_000, call_us=100) == 700


def test_metrics_are_read_without_their_labels() -> None:
    text = (
        "# HELP waterclock_tasks Tasks.\n# TYPE waterclock_tasks gauge\nwaterclock_tasks 12\n"
        'waterclock_upstream_connections{state="idle"} 3\nwaterclock_upstream_connections{state="active"} 4\n'
        'waterclock_steps_total{route="a",kind="read"} 5\nwaterclock_journal_size_bytes 1.5e+06\n'
    )
    assert of_metrics(text) == {
        "waterclock_tasks": 12,
        "upstream_idle": 3,
        "upstream_active": 4,
        "waterclock_journal_size_bytes": 1.5e6,
    }


def test_a_process_is_looked_at() -> None:
    with Path(os.devnull).open() as one, Path(os.devnull).open() as two:
        more = of_process(os.getpid())["fds"]
        assert one.fileno() != two.fileno()
    found = of_process(os.getpid())
    assert found["fds"] == more - 2
    assert found["rss"] >= found["pss"] >= found["uss"] > MIB
    assert found["threads"] >= 1


def test_kinds_come_as_often_as_they_are_to() -> None:
    names = Counter(islice(drawn(1), 20_000))
    assert set(names) == set(SHARES)
    assert names["GET"] / 20_000 == pytest.approx(SHARES["GET"][0] / 100, rel=0.1)
    assert list(islice(drawn(1), 50)) == list(islice(drawn(1), 50)) != list(islice(drawn(2), 50))
    assert set(FULL_LOAD) <= set(SHARES)


class _Mix(Mix):
    """Without a sidecar, for kinds that need none."""

    def __init__(self) -> None:
        self.waits = []


async def _wrong(mix: Mix) -> str:
    return "status 500 instead of 200"


async def _broken(mix: Mix) -> str:
    raise Broken("closed without an answer")


async def _slow(mix: Mix) -> str:
    await asyncio.sleep(60)
    return ""


async def _quick(mix: Mix) -> str:
    await asyncio.sleep(0)
    return ""


def _only(monkeypatch: pytest.MonkeyPatch, kind: object) -> None:
    for name in SHARES:
        monkeypatch.setitem(SHARES, name, (1.0, kind))


@pytest.mark.parametrize(("kind", "why"), [(_wrong, "status 500"), (_broken, "closed without an answer")])
def test_wrong_answers_are_counted_by_kind(monkeypatch: pytest.MonkeyPatch, kind: object, why: str) -> None:
    _only(monkeypatch, kind)
    counts = Counts()
    asyncio.run(full(_Mix(), counts, 0.02))
    assert counts.total > 0
    assert sum(counts.wrong.values()) == counts.total
    assert all(why in said for said in counts.wrong)


def test_a_rate_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand a second, and no more than those, until two thousand are made; a busy machine leaves some out, and says so."""
    began = time.monotonic()
    _only(monkeypatch, _quick)
    counts = Counts()
    asyncio.run(steady(_Mix(), counts, 10_000, lambda: counts.total >= 2_000, 1))
    assert 2_000 <= counts.total + counts.left_out <= 10_000 * (time.monotonic() - began)
    assert not counts.wrong


def test_calls_that_do_not_end_are_bounded_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, _slow)
    monkeypatch.setattr("trials.soak.drive.MOST_AT_ONCE", 50)
    monkeypatch.setattr("trials.soak.drive._DRAIN", 0.01)
    counts = Counts()
    asyncio.run(steady(_Mix(), counts, 10_000, lambda: counts.left_out > 10, 1))
    assert counts.total == 50
    assert sum(counts.wrong.values()) == 50


def _level(series: Series) -> float:
    return 10 * series.bound.rise if series.bound is not None else 100.0


def _soak(growing: Series | None = None) -> Soak:
    """A soak of 100 samples in which all series are level, but for one that in the second half grows by twice what it may."""
    soak = Soak(Length(3600), "waterclock", 1, full=3_000, full_busy=0.9, call_us=200, rate=1_500)
    soak.counts = Counts(begun=Counter({"GET": 100}))
    soak.before = soak.after = {series.source: 40.0 for series in SERIES}
    for number in range(100):
        values = {series.source: _level(series) for series in SERIES}
        if growing is not None and growing.bound is not None:
            quarter = 2 * growing.bound.most(_level(growing))
            values[growing.source] += max(0, number - 50) / 25 * quarter
        soak.samples.append((number * 36.0, values))
    return soak


def test_what_is_level_holds() -> None:
    soak = _soak()
    found = report.judged(soak)
    assert report.holds(soak, found)
    assert not report.complaints(soak, found)
    assert {row[0] for row in report.table(soak, found).rows} == {"level"}


@pytest.mark.parametrize("series", [series for series in SERIES if series.bound], ids=lambda each: each.name)
def test_each_series_is_caught_when_it_grows(series: Series) -> None:
    """And it alone, by its name, with what shows it again."""
    soak = _soak(series)
    found = report.judged(soak)
    assert not report.holds(soak, found)
    (said,) = report.complaints(soak, found)
    assert said.startswith(f"{series.name} grows: by ")
    assert "--for 3600s --seed 1" in said


def test_a_series_that_is_not_there_does_not_hold() -> None:
    """A gauge that was renamed must not pass for one that is level."""
    soak = _soak()
    for _, values in soak.samples:
        del values["waterclock_tasks"]
    found = report.judged(soak)
    assert not report.holds(soak, found)
    (said,) = report.complaints(soak, found)
    assert "waterclock_tasks" in said


@pytest.mark.parametrize(
    "series", [each for each in SERIES if each.rest is not None], ids=lambda each: each.name
)
def test_what_stays_when_the_load_is_over_does_not_hold(series: Series) -> None:
    """One more than there may be, of what was 40 before."""
    soak = _soak()
    soak.after = soak.after | {series.source: 41.0 + (series.rest or 0)}
    found = report.judged(soak)
    assert not report.holds(soak, found)
    (said,) = report.complaints(soak, found)
    assert said.startswith(f"{series.name}: ")
    soak.after = soak.after | {series.source: 40.0 + (series.rest or 0)}
    assert report.holds(soak, found)


def test_a_short_soak_does_not_judge_what_follows_the_load() -> None:
    soak = _soak()
    soak.length = Length(16)
    judged = {series.name for series, _ in report.judged(soak)}
    assert judged == {series.name for series in SERIES if series.bound and not series.flows}
    assert {"resident memory", "tasks", "budgets known"} < judged


def test_wrong_answers_do_not_hold() -> None:
    soak = _soak()
    soak.counts.wrong["POST: status 500 instead of 200"] = 2
    found = report.judged(soak)
    assert not report.holds(soak, found)
    assert report.complaints(soak, found) == [
        "2 answers were wrong (python -m trials soak --for 3600s --seed 1)"
    ]
    assert "WRONG: POST: status 500 instead of 200 (2)" in report.notes(soak)


def test_everything_that_is_looked_at_is_drawn() -> None:
    soak = _soak()
    whole = report.whole(soak, report.judged(soak), {"processor": "one", "cores": 2})
    (drawn_figure,) = figure.figures(whole).values()
    names = [line.name for panel in drawn_figure.panels for line in panel.lines]
    assert names == [series.name for series in SERIES]
    assert drawn_figure.panels[0].x == "minutes"
