"""What the comparison makes of its rounds: ratios in pairs, what was added, and which build is judged."""

from __future__ import annotations

from bench.builds import COMPILED, PURE
from bench.comparison.added import Added
from bench.comparison.added import Row as Calm
from bench.comparison.findings import as_json, tables
from bench.comparison.floors import Results, floors, judged, verdicts
from bench.comparison.load import Burst
from bench.comparison.paced import Block, Pace
from bench.comparison.scenarios import SCENARIOS, SMALL_GET, Rounds
from bench.comparison.start import Starts
from bench.comparison.throughput import DIRECT, Comparison, Round, Row, pair_with_yardstick
from bench.report import as_markdown

MIB = 1024 * 1024


def round_of(rate: int, cpu_us: float, errors: int = 0) -> Round:
    burst = Burst(rate, 1.0, 100, 200, 300, errors, 0)
    return Round(burst, cpu_us, busy=0.9, others=0.0, log_bytes=1)


def row(name: str, *rounds: tuple[int, float], errors: int = 0) -> Row:
    found = Row(name, [round_of(*each, errors=errors) for each in rounds])
    return (
        found
        if name == DIRECT
        else Row(name, found.rounds, ready_ms=100, idle_bytes=40 * MIB, loaded_bytes=50 * MIB)
    )


def compared(*rows: Row) -> Comparison:
    pair_with_yardstick(rows)
    return Comparison(
        SMALL_GET, Rounds(len(rows[0].rounds), 1), list(rows), ["mitmproxy is left out: it is not there."]
    )


def calm(name: str, *blocks: list[float]) -> Calm:
    return Calm(name, [Block(ms) for ms in blocks])


def test_each_round_is_compared_with_envoys_same_round() -> None:
    """A slow minute of the machine falls on both, and drops out."""
    mine = row(PURE, (2_000, 50), (200, 500), (2_100, 50))
    compared(mine, row("envoy", (1_000, 100), (100, 1_000), (1_000, 100)))
    assert mine.ratios == [2.0, 2.0, 2.1]
    assert (mine.ratio, mine.cpu_ratio) == (2.0, 0.5)


def test_without_envoy_there_is_no_ratio() -> None:
    """And no promise can be kept that is made in one."""
    found = compared(row(PURE, (2_000, 50)))
    assert found.rows[0].ratio is None
    assert [each.reached for each in verdicts(Results(throughput=[found]))] == ["not measured"] * 2


def test_what_is_added_is_taken_turn_by_turn() -> None:
    """Less what the same turn took without a proxy: the median of the turns, and that by Envoy's."""
    found = Added(
        Pace(),
        [
            calm(DIRECT, [1.0], [5.0], [1.0]),
            calm("envoy", [2.0], [7.0], [2.0]),
            calm(PURE, [1.5], [5.5], [9.0]),
        ],
        [],
    )
    mine = found.row(PURE)
    assert mine is not None
    assert found.ms(mine, 0.99) == 0.5
    assert found.ratio(mine, 0.99) == 0.5
    assert found.ratio(found.rows[0], 0.99) is None


def test_nothing_is_said_by_envoys_time_where_it_adds_none() -> None:
    """A ratio to nothing, or to noise below it, would say anything."""
    found = Added(Pace(), [calm(DIRECT, [1.0]), calm("envoy", [0.9]), calm(PURE, [1.5])], [])
    assert found.ratio(found.rows[2], 0.99) is None


def test_the_compiled_build_is_judged_where_it_was_measured() -> None:
    """It is what runs in production; Python as it stands is shown beside it."""
    both = compared(row("envoy", (1_000, 100)), row(PURE, (500, 200)), row(COMPILED, (2_100, 40)))
    results = Results(throughput=[both])
    assert judged(results) == COMPILED
    assert [(each.measured, each.reached) for each in verdicts(results)] == [
        (2.1, "beyond aim"),
        (0.4, "beyond aim"),
    ]
    alone = Results(throughput=[compared(row("envoy", (1_000, 100)), row(PURE, (500, 200)))])
    assert judged(alone) == PURE
    assert [each.reached for each in verdicts(alone)] == ["missed", "missed"]


def test_every_line_of_a_part_that_ran_is_judged() -> None:
    """One that has no figure is not kept quiet about."""
    calls = Added(Pace(), [calm(DIRECT, [1.0]), calm("envoy", [2.0])], [])
    others = Results(
        throughput=[compared(row("envoy", (1_000, 100)))], added=calls, starts=[Starts("envoy", [50], [MIB])]
    )
    assert [each.reached for each in verdicts(others)] == ["not measured"] * 5
    mine = Results(starts=[Starts(COMPILED, [240, 420, 230], [39 * MIB, 46 * MIB, 44 * MIB])])
    assert [(each.measured, each.reached) for each in verdicts(mine)] == [(240, "beyond aim"), (44, "met")]


def test_a_request_that_fails_under_load_is_a_miss() -> None:
    """A proxy that refuses is fast."""
    bad = compared(row("envoy", (1_000, 100)), row(PURE, (5_000, 10), errors=3))
    assert [(each.measured, each.met) for each in floors(Results(throughput=[bad]))] == [("3 failed", False)]
    late = Added(Pace(), [calm(DIRECT, [1.0]), Calm(PURE, [Block([1.0], failed=0, unanswered=2)])], [])
    assert [(each.measured, each.met) for each in floors(Results(added=late))] == [("2 failed", False)]


def test_the_tables_name_who_is_left_out_and_why() -> None:
    """And give every row its figures beside Envoy's."""
    found = compared(row(DIRECT, (9_000, 0)), row("envoy", (1_000, 100)), row(PURE, (500, 200)))
    added = Added(
        Pace(),
        [calm(DIRECT, [1.0]), calm("envoy", [3.0]), calm(PURE, [2.0])],
        ["proxy.py is left out: it ended."],
    )
    results = Results(throughput=[found], added=added, versions={"envoy": "1.0"})
    text = "\n".join(map(as_markdown, tables(results, {"cores": 2})))
    assert "mitmproxy is left out: it is not there." in text
    assert "proxy.py is left out: it ended." in text
    assert "| waterclock | 500 | 0.50 | 0.10 | 0.20 | 0.30 | 200.0 | 2.00 | 90% | 40.0 | 50.0 | 100 |" in text
    assert "| waterclock | 2.00 | 2.00 | 2.00 | 1.00 | 0.50 | 1.00 | 0.50 | 1.00 | 0.50 |" in text
    whole = as_json(results, {"cores": 2})
    assert whole["added"]["rows"][2] == {"name": PURE, "failed": 0, "unanswered": 0, "us": [[2000]]}


def test_scenarios_are_told_apart_and_the_short_form_has_one() -> None:
    """Each is one line, known by its key, and small calls are what the promises are about."""
    assert len({each.key for each in SCENARIOS}) == len({each.what for each in SCENARIOS}) == len(SCENARIOS)
    assert [each for each in SCENARIOS if each.short] == [SMALL_GET]
    assert {each.connections for each in SCENARIOS} == {16, 1_000}
    assert all((each.body_bytes > 0) == (each.method == "POST") for each in SCENARIOS)
