"""`waterclock explain` on a route with a ladder: the rung that would be taken with what is left, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy.cli import main

LADDER = """
budget: {default: 10s}
limit: 5
routes:
- name: chat
  match: {host: llm.x}
  effect: read
  stage: llm
  on_cut: truncate
  ladder:
  - {name: full, needs: 5s}
  - {name: fast, needs: 3s, set: {json: {$.model: small}}}
  - {name: minimal, needs: auto, upstream: "http://small.y"}
  - {name: cached, needs: 50ms, cache: {}}
  - {name: sorry, answer: {text: Later., status: 503}}
- name: page
  match: {host: page.x}
  effect: read
  min_start: 1s
  cache: {first: true}
  ladder:
  - {name: live}
  - {name: kept, needs: 100ms, cache: {}}
- name: strict
  match: {host: strict.x, methods: [GET]}
  ladder: [{name: only, needs: 2s}]
"""


def explained(
    tmp_path: Path, url: str, left: str | None, mode: str = "enforce"
) -> tuple[int, dict[str, str]]:
    """The status of the command, and its rows."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text(f"mode: {mode}\n{LADDER}")
    headers = [] if left is None else ["-H", f"Budget-Remaining-Ms: {left}"]
    result = CliRunner().invoke(
        main, ["explain", "-c", str(policy), "POST" if "llm" in url else "GET", url, *headers]
    )
    rows = dict(line.split(":", 1) for line in result.output.splitlines())
    return result.exit_code, {name: value.strip() for name, value in rows.items()}


@pytest.mark.parametrize(
    ("left", "decision", "degraded"),
    [
        (None, "start on rung full", None),
        ("5000", "start on rung full", None),
        ("4999", "start on rung fast", "level=1; rung=fast; stage=llm; reason=time"),
        ("2999", "start on rung minimal", "level=2; rung=minimal; stage=llm; reason=time"),
        ("1", "start on rung minimal", "level=2; rung=minimal; stage=llm; reason=time"),
        (
            "0",
            "answer 503, as rung sorry says; nothing is sent",
            "level=4; rung=sorry; stage=llm; reason=time",
        ),
    ],
)
def test_the_rung_that_is_taken(
    tmp_path: Path, left: str | None, decision: str, degraded: str | None
) -> None:
    """By what is left; the answer that it gives would say so."""
    status, rows = explained(tmp_path, "http://llm.x/v1/chat", left)
    assert status == 0
    assert rows["decision"] == decision
    assert rows.get("degraded") == degraded
    assert ("turn" in rows) == decision.startswith("start")
    assert (
        rows["on cut"] == "a stream of a known dialect is closed 200 ms before the end of what it is allowed"
    )


def test_every_rung_says_how_it_stands(tmp_path: Path) -> None:
    """What needs more than there is, what is taken, and what follows if that fails; what is measured is unknown here."""
    _, rows = explained(tmp_path, "http://llm.x/v1/chat", "4000")
    assert rows["why"] == "4000 ms are left, and the rungs above do not fit"
    assert [rows[f"rung {level}"] for level in range(5)] == [
        "full, needs 5s: needs more than is left",
        "fast, needs 3s: taken",
        "minimal, needs what it was measured to (unknown here, and reckoned as nothing), at small.y: if fast fails, or says nothing",
        "cached, needs 50ms, from the cache: if fast fails, or says nothing",
        "sorry, a fixed answer with status 503: if fast fails, or says nothing",
    ]
    _, rows = explained(tmp_path, "http://llm.x/v1/chat", "0")
    assert rows["rung 2"].endswith("at small.y: nobody is asked when nothing is left")
    assert rows["rung 4"].endswith(": taken")


def test_the_cache_of_a_route(tmp_path: Path) -> None:
    """It may be asked before anything else, and as a rung; `min_start` counts as the least need of those that ask somebody."""
    status, rows = explained(tmp_path, "http://page.x/", "999")
    assert status == 0
    assert rows["cache"] == "asked first: what is fresh there is given, and nothing is sent"
    assert rows["rung 0"] == "live, min_start 1s: needs more than is left"
    assert rows["rung 1"] == "kept, needs 100ms, from the cache: taken"
    assert rows["decision"] == "answer from the cache, if it has something (rung kept)"
    assert explained(tmp_path, "http://page.x/", "1000")[1]["decision"] == "start on rung live"


def test_no_rung_fits(tmp_path: Path) -> None:
    """Then the call is refused, as it would be below `min_start`."""
    status, rows = explained(tmp_path, "http://strict.x/", "1999")
    assert status == 1
    assert rows["decision"] == "refuse: below_min_start, answered 403"
    assert rows["why"] == "No rung of the ladder of route 'strict' fits what is left."
    status, rows = explained(tmp_path, "http://strict.x/", "0")
    assert status == 1
    assert rows["decision"] == "refuse: budget_exhausted, answered 403"


def test_rungs_below_a_cache_and_an_answer(tmp_path: Path) -> None:
    """What follows a miss is told; nothing follows a fixed answer."""
    text = LADDER.replace(
        "{name: kept, needs: 100ms, cache: {}}",
        "{name: kept, cache: {}}\n  - {name: bye, answer: {text: Later.}}",
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    said = CliRunner().invoke(
        main, ["explain", "-c", str(policy), "GET", "http://page.x/", "-H", "Budget-Remaining-Ms: 0"]
    )
    assert "kept, from the cache: taken" in said.output
    assert "bye, a fixed answer with status 200: if kept has nothing" in said.output


def test_observe(tmp_path: Path) -> None:
    """The call would go as it came, and its record says what would have been."""
    _, rows = explained(tmp_path, "http://llm.x/v1/chat", "4000", "observe")
    assert rows["mode"] == "observe: the call goes as it came, and is recorded with would=degrade"
    _, rows = explained(tmp_path, "http://strict.x/", "1999", "observe")
    assert rows["mode"] == "observe: it would be let pass, and recorded with would=degrade"
    assert "mode" not in explained(tmp_path, "http://llm.x/v1/chat", "6000", "observe")[1]


def test_calls_that_do_not_stand_on_it(tmp_path: Path) -> None:
    """What is refused whatever the time is refused here too."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(LADDER)
    words = ["explain", "-c", str(policy), "POST", "http://llm.x/", "-H", "Budget-Remaining-Ms: x"]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 1
    assert "rung" not in said.output
