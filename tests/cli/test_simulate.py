"""`waterclock simulate`: what it prints for people and for programs, how it ends, and what it says of a faulty plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import main
from proxy.config import ConfigError
from proxy.config.plan import parse_plan
from proxy.core.policy import Share
from proxy.core.simulation import Plan, Work
from proxy.core.units import MILLISECOND, SECOND

EXAMPLE = Path(__file__).parents[2] / "docs/examples/plan.yaml"


def simulate(*words: str | Path, columns: int = 80, encoding: str = "utf-8") -> Result:
    """Run the command into a pipe of so many columns."""
    runner = CliRunner(charset=encoding, env={"COLUMNS": str(columns)})
    return runner.invoke(main, ["simulate", *map(str, words)])


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """Writes a plan, and returns where it is."""

    def write(text: str) -> Path:
        path = tmp_path / "plan.yaml"
        path.write_text(text)
        return path

    return write


PRINTED = """\
One shared budget: 10 s for the whole job, the last 1 s of it for cleanup only
step    needs starts allowed ends outcome           0                  10│    13
A           4      0       4    4 completed         ████████             │
B           4      4       4    8 completed                 █████████    │
C           4      8       1    9 deadline_exceeded                  ██× │
                                  budget_remaining                       │
cleanup     1      9       1   10 completed                            ██│
incomplete; on_time   ends at 10 s

A fresh limit for each step: nothing is shared
step    needs starts allowed ends outcome           0                  10│    13
A           4      0       4    4 completed         ████████             │
B           4      4       4    8 completed                 █████████    │
C           4      8       4   12 completed                          ████│████
cleanup     1     12       4   13 completed                              │    ██
complete; late   ends at 13 s: 3 s late

All in seconds.  █ under way  × cut or not started  │ end of budget
"""


def test_the_worked_example() -> None:
    """The plan in the documentation, into a pipe of 80 columns: both tables, both verdicts, no colours."""
    result = simulate(EXAMPLE)
    assert "\n".join(line.rstrip() for line in result.output.splitlines()) + "\n" == PRINTED
    assert max(map(len, result.output.splitlines())) <= 80
    assert result.exit_code == 1


def test_where_there_is_only_ascii() -> None:
    """The same picture, from other signs."""
    result = simulate(EXAMPLE, encoding="ascii")
    assert result.exit_code == 1
    assert result.output.isascii()
    assert "##x" in result.output


@pytest.mark.parametrize("columns", [20, 60, 80, 100, 300])
def test_any_width(columns: int) -> None:
    """On a narrow terminal no figure is lost, and on a wide one the bars grow to a limit."""
    output = simulate(EXAMPLE, columns=columns).output
    assert "…" not in output
    assert "C           4      8       1    9 deadline_exceeded" in output
    assert max(map(len, output.splitlines())) <= 110


@pytest.mark.parametrize(
    ("text", "status", "verdict"),
    [
        ("total: 10s\nsteps: [{name: A, needs: 10s}]", 0, "complete; on_time   ends at 10 s"),
        ("total: 10s\nsteps: [{name: A, needs: 11s}]", 1, "incomplete; on_time   ends at 10 s"),
        (
            "total: 2s\nsteps: [{name: A, needs: 1s}, {name: B, needs: 1s, after: 2500ms}]",
            1,
            "incomplete; late   ends at 3.5 s: 1.5 s late\nThe pauses between its steps outlast the budget; no limit can cut those.",
        ),
    ],
)
def test_status(plan: Any, text: str, status: int, verdict: str) -> None:
    """0 when the job is complete and on time under the shared budget, else 1."""
    result = simulate(plan(text))
    assert result.exit_code == status
    assert verdict in result.output.partition("\n\n")[0]


GROUP = """\
total: 10s
width: 1
steps:
  - parallel:
    - {name: first, needs: 3s}
    - {name: "a name of rather more than sixteen", needs: 2s, cap: 4s}
    - {name: third, needs: 1s, cap: 2s}
"""


def test_waiting_is_shown(plan: Any) -> None:
    """A step that waits has a lighter bar, and is said to have waited; one that is never started has no start."""
    output = simulate(plan(GROUP)).output
    assert "waited 3" in output
    assert "a name of rathe… " in output
    [third] = [line for line in output.splitlines() if line.startswith("third") and "shed" in line]
    assert third.split()[1:5] == ["1", "-", "2", "2"]
    assert "░×" in third
    assert "░ waiting" in output


def test_json() -> None:
    """Everything, in milliseconds, under the names that the step log has."""
    result = simulate(EXAMPLE, "--json")
    assert result.exit_code == 1
    document = json.loads(result.output)
    assert (document["total_ms"], document["reserve_ms"]) == (10_000, 1_000)
    shared, fresh = document["shared"], document["fresh"]
    assert (shared["complete"], shared["on_time"], shared["ended_ms"], shared["late_ms"]) == (
        False,
        True,
        10_000,
        0,
    )
    assert (fresh["complete"], fresh["on_time"], fresh["ended_ms"], fresh["late_ms"]) == (
        True,
        False,
        13_000,
        3_000,
    )
    assert shared["steps"][2] == {
        "name": "C",
        "needs_ms": 4000,
        "arrived_ms": 8000,
        "started_ms": 8000,
        "allowed_ms": 1000,
        "bound": "budget_remaining",
        "waited_ms": 0,
        "ended_ms": 9000,
        "outcome": "deadline_exceeded",
        "reason": "budget_remaining",
    }
    assert fresh["cleanup"]["ended_ms"] == 13_000


def test_json_of_what_never_started(plan: Any) -> None:
    """No start is null, no cleanup call is null, and nobody is told of less than nothing."""
    text = "total: 1s\nsteps: [{name: A, needs: 2s}, {name: B, needs: 1s, after: 0.5ms}]"
    shared = json.loads(simulate(plan(text), "--json").output)["shared"]
    assert shared["cleanup"] is None
    second = shared["steps"][1]
    assert (second["started_ms"], second["allowed_ms"], second["ended_ms"]) == (None, 0, 1000.5)
    assert (second["outcome"], second["reason"]) == ("refused", "budget_exhausted")


def test_help_teaches() -> None:
    """Its example is a plan, and what it says of it is so."""
    text = simulate("--help").output
    assert max(map(len, text.splitlines())) <= 80
    example = text.partition("plan.yaml:\n")[2].partition("\n\n")[0]
    planned = parse_plan("\n".join(line.removeprefix("    ") for line in example.splitlines()))
    assert (planned.total, planned.reserve, planned.cap, planned.cleanup) == (
        10 * SECOND,
        SECOND,
        4 * SECOND,
        SECOND,
    )
    assert [work.needs for (work,) in planned.groups] == [4 * SECOND] * 3


# -- the plan's file ---------------------------------------------------------------------------------------------------


def test_every_key() -> None:
    """Each key has its place in the plan."""
    text = """\
total: 10s
reserve: 1s
cap: 4s
transit: 5ms
width: 3
stages: {llm: 5s, slack: 500ms}
carry: true
cleanup: 900ms
steps:
  - {name: A, needs: 4s, cap: 3s, min_start: 500ms, stage: llm, after: 250ms}
  - parallel: [{name: B, needs: 3s}, {name: C c, needs: 0s}]
"""
    assert parse_plan(text) == Plan(
        total=10 * SECOND,
        reserve=SECOND,
        cap=4 * SECOND,
        transit=5 * MILLISECOND,
        width=3,
        stages=(Share("llm", 5 * SECOND), Share("slack", 500 * MILLISECOND)),
        carry=True,
        cleanup=900 * MILLISECOND,
        groups=(
            (Work("A", 4 * SECOND, 3 * SECOND, 500 * MILLISECOND, "llm", 250 * MILLISECOND),),
            (Work("B", 3 * SECOND), Work("C c", 0)),
        ),
    )


def faults(text: str) -> list[str]:
    """What is said of a text, one line a fault."""
    with pytest.raises(ConfigError) as caught:
        parse_plan(text)
    return [str(fault) for fault in caught.value.faults]


STEPS = "steps: [{name: A, needs: 4s}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["plan.yaml:1: the plan is empty; write its total and its steps"]),
        ("[]", ["plan.yaml:1: a list stands where keys are expected; write keys with their values"]),
        ("total: 1s", ["plan.yaml:1: steps: is missing; write what the job does, like steps: [{name: search, needs: 4s}]"]),
        (STEPS, ["plan.yaml:1: total: is missing; write the time that the whole job may take, like total: 10s"]),
        (f"total: 10\n{STEPS}", ['plan.yaml:1: total: "10" has no unit; write 10s, 250ms, 5m or 1h']),
        (f"total: 1s\nwidht: 2\n{STEPS}", ["plan.yaml:2: widht: is not a key that is known here; did you mean width?"]),
        (f"total: 1s\nwidth: 0\n{STEPS}", ['plan.yaml:2: width: "0" is less than 1; write 1 to 1000']),
        (f"total: 1s\nreserve: 1s\n{STEPS}", ["plan.yaml:2: reserve: 1s is not less than total, 1s (line 1); change one of the two"]),
        (f"total: 1s\nstages: {{a: 600ms, b: 500ms}}\n{STEPS}", ["plan.yaml:2: stages: 1100ms together is more than total, 1s (line 1); make shares smaller, or the total longer"]),
        (f'total: 1s\nstages: {{"\\t": 1ms}}\n{STEPS}', ['plan.yaml:2: stages.\\t: "\\t" is not the name of a stage; write 1 to 64 characters of A-Z a-z 0-9 . _ -']),
        ("total: 1s\nsteps: []", ["plan.yaml:2: steps: has 0 entries; write 1 to 1000 of them"]),
        ("total: 1s\nsteps: [A]", ['plan.yaml:2: steps[0]: "A" stands where keys are expected; write keys with their values']),
        ("total: 1s\nsteps: [{}]", [
            "plan.yaml:2: steps[0].name: is missing; give the step the name that the tables show",
            "plan.yaml:2: steps[0].needs: is missing; write how long the step would take, like needs: 4s",
        ]),
        ("total: 1s\nsteps: [{name: A, needs: 1s}, {name: A, needs: 1s}]", ['plan.yaml:2: steps[1].name: "A" is the name of another step (line 2); give each step a name of its own']),
        ("total: 1s\nsteps: [{name: A, needs: 1s, cap: 1s, min_start: 2s}]", ["plan.yaml:2: steps[0].min_start: 2s is more than steps[0].cap, 1s (line 2); change one of the two"]),
        ("total: 1s\ncap: 1s\nsteps: [{name: A, needs: 1s, min_start: 2s}]", ["plan.yaml:3: steps[0].min_start: 2s is more than cap, 1s (line 2); change one of the two"]),
        ("total: 9s\nstages: {llm: 5s}\nsteps: [{name: A, needs: 1s, stage: lm}]", ['plan.yaml:3: steps[0].stage: "lm" has no share; did you mean llm?']),
        ("total: 9s\nsteps: [{name: A, needs: 1s, stage: llm}]", ['plan.yaml:2: steps[0].stage: "llm" has no share; give it a share under stages, or take the key out']),
        ("total: 9s\nstages: {slack: 5s}\nsteps: [{name: A, needs: 1s, stage: slack}]", ['plan.yaml:3: steps[0].stage: "slack" is the share that no call may claim; write the name of another stage']),
        ("total: 9s\nsteps:\n- parallel: []", ["plan.yaml:3: steps[0].parallel: has 0 entries; write 1 to 1000 of them"]),
        ("total: 9s\nsteps:\n- paralel: [{name: A, needs: 1s}]", [
            "plan.yaml:3: steps[0].paralel: is not a key that is known here; did you mean parallel?",
            "plan.yaml:3: steps[0].parallel: is missing; list the steps that start together",
        ]),
        ("total: 9s\nsteps:\n- parallel:\n  - {name: A, needs: 1}\n  - {name: A, needs: 1s}", [
            'plan.yaml:4: steps[0].parallel[0].needs: "1" has no unit; write 1s, 250ms, 5m or 1h',
            'plan.yaml:5: steps[0].parallel[1].name: "A" is the name of another step (line 4); give each step a name of its own',
        ]),
    ],
)  # fmt: skip
def test_faults(text: str, said: list[str]) -> None:
    """Every fault at once, each with its line, its key and what to write instead."""
    assert faults(text) == said


def test_a_faulty_plan_is_not_played(plan: Any) -> None:
    """Nothing is printed but the faults, and the status is 2."""
    path = plan("total: 10\nwidht: 2\nsteps: [{name: A, needs: 4}]")
    result = simulate(path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f'{path}:1: total: "10" has no unit; write 10s, 250ms, 5m or 1h',
        f"{path}:2: widht: is not a key that is known here; did you mean width?",
        f'{path}:3: steps[0].needs: "4" has no unit; write 4s, 250ms, 5m or 1h',
        "3 faults.",
    ]


def test_no_file(tmp_path: Path) -> None:
    """A plan that is not there is a fault too."""
    result = simulate(tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert "the file cannot be read: No such file or directory" in result.stderr


WORDS = ["total", "steps", "stages", "width", "parallel", "name", "needs", "stage", "1s", "2", "x", "slack"]
values = st.recursive(
    st.sampled_from(WORDS) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_anything(value: Any) -> None:
    """Whatever stands in it is a plan, or faults that each have a remedy."""
    said = []
    try:
        parse_plan(json.dumps(value))
    except ConfigError as error:
        said = error.faults
    assert all(fault.problem and fault.remedy for fault in said)
