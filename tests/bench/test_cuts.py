"""Which cuts are made, that their lateness is what it is, and that one that is early or missing is seen."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bench.builds import COMPILED
from bench.cuts.callers import crowd
from bench.cuts.lateness import Lateness, from_log, over_allowances
from bench.cuts.plan import ALLOWANCES_MS, FLOOD, FULL, SHORT, SPREAD, TOGETHER, Block, plan, seconds
from bench.cuts.table import tables, verdicts
from bench.procs import HOST, Failed, Plan
from bench.report import as_markdown

# -- the plan ----------------------------------------------------------------------------------------------------------


def test_the_whole_makes_ten_thousand_cuts_of_each_proxy_in_less_than_five_minutes() -> None:
    """With three proxies, at every allowance and every number in flight."""
    blocks = plan(FULL)
    assert sum(block.cuts for block in blocks) >= 10_000
    assert seconds(blocks, proxies=3) < 270
    cells = {(block.in_flight, block.allowance_ms) for block in blocks}
    assert cells == {(width, allowance) for width in (1, 50, 1_000) for allowance in ALLOWANCES_MS}


def test_the_short_form_has_every_pattern_and_number_in_flight() -> None:
    """In the time that everybody can wait for."""
    blocks = plan(SHORT)
    assert seconds(blocks, proxies=3) < 20
    patterns = {(block.pattern, block.in_flight) for block in blocks}
    assert patterns == {(block.pattern, block.in_flight) for block in plan(FULL)}


def test_most_are_made_where_many_are_in_flight() -> None:
    """A cut of 5 s, alone, takes as long as a thousand of them together."""
    blocks = plan(FULL)
    by_width = {
        width: sum(b.cuts for b in blocks if b.in_flight == width and b.pattern != FLOOD)
        for width in (1, 50, 1_000)
    }
    assert by_width[1] < 200
    assert by_width[1] < by_width[50] < by_width[1_000]


def test_what_could_not_be_in_flight_is_called_a_flood_or_left_out() -> None:
    """1,000 callers at 5 ms that call again at once would be 200,000 calls a second."""
    for block in plan(FULL):
        rate = block.in_flight * 1_000 / block.allowance_ms
        assert block.pattern != SPREAD or rate <= 1_000
        assert block.in_flight == 1 or (block.pattern == FLOOD) == (block.pattern != SPREAD and rate > 10_000)


def test_blocks_have_names_by_which_a_log_is_sorted() -> None:
    """No two have the same."""
    names = [block.name for block in plan(FULL)]
    assert len(names) == len(set(names))
    assert "together-50-5" in names


# -- the callers -------------------------------------------------------------------------------------------------------


@contextmanager
def _proxy(after: float, answer: bytes) -> Iterator[int]:
    """Something that answers each request after so many seconds; yields its port."""
    with closing(socket.create_server((HOST, 0))) as listener:

        def serve(link: socket.socket) -> None:
            with link:
                while link.recv(65_536):
                    time.sleep(after)
                    link.sendall(answer)

        def accept() -> None:
            try:
                while True:
                    link, _ = listener.accept()
                    threading.Thread(target=serve, args=(link,), daemon=True).start()
            except OSError:
                return  # closed

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


_CUT = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 4\r\n\r\nlate"
_REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize("pattern", [SPREAD, TOGETHER])
def test_each_caller_makes_its_calls_and_its_kernel_says_when_they_were_answered(pattern: str) -> None:
    """Never less than what the answer took."""
    block = Block(pattern, 5, 20, 3)
    with _proxy(0.02, _CUT) as port, crowd(port, 5) as callers:
        calls = callers.calls(block, _REQUEST)
    assert [call.status for call in calls] == [504] * 15
    assert min(call.elapsed_ms for call in calls) >= 20


def test_an_answer_before_its_time_is_early() -> None:
    """A proxy that does not wait is caught."""
    block = Block(TOGETHER, 3, 60_000, 1)
    with _proxy(0, _CUT) as port, crowd(port, 3) as callers:
        calls = callers.calls(block, _REQUEST)
    seen = [call.elapsed_ms - block.allowance_ms for call in calls]
    assert Lateness("x", block.pattern, 3, 60_000, 3, seen_ms=seen).early_seen == 3


def test_a_connection_that_the_answer_ends_is_opened_anew() -> None:
    """And the next call goes out on the new one."""
    closes = _CUT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with _proxy(0, closes) as port, crowd(port, 2) as callers:
        assert len(callers.calls(Block(SPREAD, 2, 1, 4), _REQUEST)) == 8


def test_a_proxy_that_hangs_up_is_no_result() -> None:
    """The run says so, rather than wait."""
    with closing(socket.create_server((HOST, 0))) as listener, crowd(listener.getsockname()[1], 1) as callers:
        listener.accept()[0].close()
        with pytest.raises((Failed, OSError)):
            callers.calls(Block(TOGETHER, 1, 1_000, 1), _REQUEST)


# -- what is made of it ------------------------------------------------------------------------------------------------


def _log(folder: Path, name: str, *records: dict[str, object]) -> Plan:
    log = folder / "log"
    log.write_text("starting\n" + "".join(json.dumps(record) + "\n" for record in records))
    return Plan(name, (), 0, 0, "", log, folder)


def test_the_sidecar_s_log_is_sorted_by_block(tmp_path: Path) -> None:
    """What is no cut, and what belongs to the warm-up, is passed over."""
    target = "http://127.0.0.1:9/50/together-50-50/"
    cut = {"target": target, "outcome": "deadline_exceeded", "allowed_ms": 50.0, "elapsed_ms": 50.25}
    found = from_log(
        _log(
            tmp_path,
            COMPILED,
            cut,
            cut | {"outcome": "completed"},
            cut | {"target": "http://127.0.0.1:9/50/spread-50-50/", "elapsed_ms": 49.0},
            cut | {"target": "http://127.0.0.1:9/200/warm-up/"},
        )
    )
    assert found == {"together-50-50": [0.25], "spread-50-50": [-1.0]}


def test_envoy_s_log_is_compared_with_the_timeout_of_its_route(tmp_path: Path) -> None:
    """Which stands at the beginning of the path."""
    cut = {"target": "/200/together-1000-200/", "flags": "UT", "elapsed_us": 138_450}
    found = from_log(_log(tmp_path, "envoy", cut, cut | {"flags": "-"}))
    assert found == {"together-1000-200": [pytest.approx(-61.55)]}


def _found(pattern: str, width: int, *own: float, seen: float = 1.0, missing: int = 0) -> Lateness:
    expected = len(own) + missing
    return Lateness(COMPILED, pattern, width, 50, expected, [seen] * len(own), list(own))


def test_the_hardest_pattern_is_judged_and_a_flood_is_not() -> None:
    """Nor is one caller alone."""
    found = [
        _found(SPREAD, 1, 30.0),
        _found(SPREAD, 50, 0.5),
        _found(TOGETHER, 50, 1.8),
        _found(TOGETHER, 1_000, 4.0),
        _found(FLOOD, 1_000, 80.0),
    ]
    judged = list(verdicts(found, COMPILED))
    assert [(each.measured, each.reached) for each in judged] == [
        (1.8, "met"),
        (4.0, "beyond aim"),
        (0, "beyond aim"),
    ]
    assert "together" in judged[0].note


@pytest.mark.parametrize(
    "found",
    [_found(FLOOD, 1_000, -0.1), _found(SPREAD, 1, 0.5, seen=-0.1)],
    ids=["by its own clock", "by the callers'"],
)
def test_one_early_cut_is_a_miss_wherever_it_is(found: Lateness) -> None:
    """By either clock, and in a flood too."""
    early = list(verdicts([found], COMPILED))[-1]
    assert (early.measured, early.reached) == (1, "missed")


def test_with_a_cut_missing_nothing_was_measured() -> None:
    """The missing one may be the late one."""
    judged = list(verdicts([_found(SPREAD, 50, 0.5, missing=1), _found(SPREAD, 1_000, 0.5)], COMPILED))
    assert [each.reached for each in judged[:2]] == ["not measured", "beyond aim"]
    assert [each.reached for each in verdicts([], COMPILED)] == ["not measured"] * 3


def test_the_table_has_a_row_over_all_allowances_and_one_for_each() -> None:
    """And says what is odd."""
    other = _found(TOGETHER, 50, 3.0)
    other.allowance_ms, other.other_answers = 200, 2
    whole, each = tables([_found(TOGETHER, 50, 1.0, 2.0), other])
    assert f"| {COMPILED} | together | 50 | all | 3 | 2.00 | 3.00 | 3.00 | 0 |" in as_markdown(whole)
    assert "2 calls were answered with another status than 504" in as_markdown(whole)
    assert [row[3] for row in each.rows] == ["50", "200"]


def test_over_all_allowances_their_cuts_are_counted_together() -> None:
    """As the first row of the table has them."""
    found = over_allowances([_found(SPREAD, 1, 1.0), _found(SPREAD, 1, 2.0)])
    assert [each.expected for each in found] == [2]
