"""What growth is reckoned from: the numbers of connections, the load of a point, what is promised, what is drawn."""

from __future__ import annotations

from bench.growth.command import COUNTS, PATIENCE, Setting, counts, scenario_of
from bench.growth.figures import Point, figures, promises, table
from bench.peers.base import OWN_DESCRIPTORS, largest
from bench.report import MIB

SETTING = Setting()


def point(connections: int, peak: float = 50, **changed: object) -> Point:
    made = Point(
        "waterclock",
        connections,
        seconds=2.0,
        requests=4_000,
        idle_bytes=39 * MIB,
        peak_bytes=int(peak * MIB),
        cpu_us=100.0,
        busy=0.9,
    )
    return Point(**{**vars(made), **changed})


def test_as_many_connections_as_there_are_descriptors_for() -> None:
    """A proxy takes two for each, and has some of its own."""
    assert counts(SETTING, short=False, descriptors=1_000_000) == list(COUNTS)
    few = counts(SETTING, short=False, descriptors=20_000)
    assert few[:-1] == list(COUNTS[:-1])
    assert few[-1] == 9_970
    assert 2 * few[-1] + OWN_DESCRIPTORS <= 20_000


def test_no_point_is_measured_twice() -> None:
    """Where 4,000 and 10,000 connections would both become what there is room for."""
    assert counts(SETTING, short=False, descriptors=1_060) == [1, 4, 16, 64, 256, 500]
    assert largest(10, 1_060) == 10


def test_many_connections_get_more_time() -> None:
    """They have all to be opened first; and an answer is waited for that long queues hold up."""
    few, many = scenario_of(16, SETTING), scenario_of(10_000, SETTING)
    assert few.full.seconds == SETTING.seconds
    assert many.full.seconds == SETTING.seconds + 5
    assert few.patience == many.patience == PATIENCE
    assert few.keep


def test_memory_is_judged_at_a_thousand_connections() -> None:
    verdicts = {
        each.target.figure: each for each in promises([point(1), point(1_000, 70), point(9_970, 200)])
    }
    assert [each.reached for each in verdicts.values()] == ["beyond aim", "met", "beyond aim"]
    assert [each.measured for each in verdicts.values()] == [39.0, 70.0, 0]
    assert [each.reached for each in promises([point(1_000, 81)])] == ["beyond aim", "missed", "beyond aim"]
    assert len(promises([point(64)])) == 2


def test_failed_requests_and_points_are_misses() -> None:
    assert promises([point(16, refused=1)])[-1].reached == "missed"
    broken = promises([point(16), Point("waterclock", 64, fault="it answered nothing")])[-1]
    assert broken.reached == "missed"
    assert broken.note == "1 points could not be measured"


def test_what_was_not_measured_is_not_promised() -> None:
    assert [each.reached for each in promises([])] == ["not measured", "not measured"]


def test_the_table_names_what_could_not_be_measured() -> None:
    shown = table([point(64), Point("mitmproxy", 64, fault="it answered nothing within 4 s")], ["a note"])
    assert len(shown.rows) == 1
    assert shown.notes == ["a note", "mitmproxy, 64 connections: it answered nothing within 4 s."]


def test_every_proxy_is_drawn_and_the_sidecar_stands_out() -> None:
    direct = Point("direct", 16, seconds=1.0, requests=30_000)
    points = [direct, point(16), point(1_000), Point("envoy", 16, fault="it fell over")]
    whole = {
        "points": [vars(each) for each in points],
        "sidecars": ["waterclock"],
        "machine": {"processor": "one"},
        "day": "2026-11-30",
    }
    rates, memory = figures(whole).values()
    assert [(line.name, line.own, list(line.points)) for line in rates.panels[0].lines] == [
        ("direct", False, [(16.0, 30_000.0)]),
        ("waterclock", True, [(16.0, 2_000.0), (1_000.0, 2_000.0)]),
    ]
    assert [line.name for line in memory.panels[0].lines] == ["waterclock"]
