"""`waterclock tune`: what it prints for people and for programs, what it changes, and how it ends."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main
from proxy.config import load
from tests.admin.jobs import ended, opened
from tests.admin.writes import Sidecar
from tests.cli.controls import Commands, answering, serving
from tests.support.ports import free_port
from tests.tuning import serving as http
from tests.tuning.telling import CUT, POLICY_TEXT, line

TABLES = """\
Stages of a budget of 10 s, 1 s of it the reserve
stage       share  jobs    p50    p95    p99  headroom   cut  verdict
retrieval     1.5   200  0.399  0.399  0.399       1.1  0.0%  generous
llm           5.5   200    3.2    3.2  > 5.5       < 0  2.0%  tight
formatting    0.5    40      -      -      -         -  0.0%  too few
All in seconds, cut: the jobs whose share was used up. > x: it falls among jobs
that were cut, and these would have needed more than x.
Fewer than 100 jobs say nothing about one in a hundred: formatting.

Proposed shares, 9 s in all with 0.5 s of slack
stage       now  proposed  cut now  cut then  by
retrieval   1.5     0.442     0.0%      0.0%  what was needed
llm         5.5      7.56     2.0%  0.0-2.0%  needed at least
formatting  0.5       0.5        -         -  too few: kept
What is over goes to llm.
Where only the least is known, look again when there are samples under the new
shares.

Needs of rungs
route  rung  needs  tries  p50  p95  proposed
chat   full      5    200  3.2  3.2      3.53
chat   fast      0      0    -    -         0  too few
chat   auto   auto      0    -    -         -  left alone
"""


def trimmed(text: str) -> str:
    """Without the blanks that tables put behind their lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "waterclock.yaml"
    file.write_text(POLICY_TEXT)
    return file


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """200 jobs: a retrieval and a model each, of which 4 were cut; one in five was formatted."""
    lines = []
    for number in range(200):
        job: dict[str, Any] = {"budget_id": f"run-{number}", "route": "chat", "rung": "full"}
        cut = CUT if number < 4 else {}
        lines.append(line(budget_id=f"run-{number}"))
        lines.append(
            line(**job, step=2, stage="llm", started_ms=500.0, elapsed_ms=5500.2 if cut else 3200.0, **cut)
        )
        if number % 5 == 4:
            lines.append(
                line(
                    budget_id=f"run-{number}", step=3, stage="formatting", started_ms=8000.0, elapsed_ms=80.0
                )
            )
    file = tmp_path / "a.log"
    file.write_bytes(b"".join(lines))
    return file


def tune(*words: str | Path, given: bytes = b"", columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["tune", *map(str, words)], input=given)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_what_it_prints(policy: Path, log: Path) -> None:
    """The table, the proposal, the rungs, and the change, in 80 columns; nothing is written."""
    result = tune("-c", policy, log, "--give", "llm")
    assert (result.exit_code, result.stderr) == (0, "")
    tables, diff = trimmed(result.stdout).split("\n---", 1)
    assert tables == TABLES
    assert "-    retrieval: 1500ms # search and rerank\n" in diff
    assert "+    retrieval: 442ms # search and rerank\n" in diff
    assert '+    llm: "7558ms"\n' in diff
    assert "+      - {name: full, needs: 3534ms}\n" in diff
    assert diff.count("\n-") == diff.count("\n+") - 1 == 3
    assert diff.endswith("changes " + str(policy) + "; sidecars that run on it take it up.\n")
    assert policy.read_text() == POLICY_TEXT


def test_no_table_breaks_a_name(policy: Path, log: Path) -> None:
    """However narrow the terminal, and however long the name: a row is a line."""
    name = "formatting-of-" + 30 * "x"
    policy.write_text(POLICY_TEXT.replace("formatting", name))
    log.write_text(log.read_text().replace("formatting", name))
    text = trimmed(tune("-c", policy, log).stdout)
    assert f"\n{name}    0.5    40      -      -      -         -  0.0%  too few\n" in text
    narrow = tune("-c", policy, log, columns=30).stdout.splitlines()
    assert sum(line.startswith(f"{name} ") and line.rstrip().endswith("too few") for line in narrow) == 1


@pytest.mark.parametrize(
    ("least", "said", "unsaid"),
    [
        (1, "Of fewer than 100 jobs the 99th percentile is only the largest: formatting.", "Fewer than"),
        (41, "Fewer than the 41 jobs of --samples: formatting.", "one in a hundred"),
        (300, "Fewer than 300 jobs say nothing about one in a hundred: ", "the largest"),
    ],
)
def test_how_few_is_said_as_it_was_asked(policy: Path, log: Path, least: int, said: str, unsaid: str) -> None:
    """One job in a hundred is only spoken of where a hundred were wanted."""
    text = tune("-c", policy, log, "--samples", str(least), columns=200).stdout
    assert said in text
    assert unsaid not in text


def test_it_can_be_seen_without_signs(policy: Path, log: Path) -> None:
    """Where the terminal knows ASCII only."""
    result = CliRunner(charset="ascii").invoke(main, ["tune", "-c", str(policy), str(log)])
    assert result.exit_code == 0
    assert result.stdout.isascii()


def test_for_programs(policy: Path, log: Path) -> None:
    """The same figures, in milliseconds; null is what nobody knows."""
    result = tune("-c", policy, log, "--give", "llm", "--json")
    found = json.loads(result.stdout)
    assert (found["default_ms"], found["reserve_ms"], found["carry"], found["written"]) == (
        10_000,
        1_000,
        False,
        False,
    )
    llm = found["stages"][1]
    assert (llm["stage"], llm["samples"], llm["cut"], llm["censored"], llm["verdict"]) == (
        "llm",
        200,
        4,
        4,
        "tight",
    )
    assert (llm["p99_ms"], llm["headroom_ms"]) == ({"low": 5500, "high": None}, None)
    assert found["stages"][2]["p50_ms"] is None
    proposal = found["proposal"]
    assert (proposal["total_ms"], proposal["slack_ms"], proposal["missing_ms"], proposal["rest_to"]) == (
        9000,
        500,
        0,
        "llm",
    )
    assert sum(share["after_ms"] for share in proposal["shares"]) == 8500
    assert proposal["shares"][1]["cut_before"] == {"least": 0.02, "most": 0.02}
    assert [need["finding"] for need in found["needs"]] == ["measured", "too few samples", "auto: left alone"]
    assert found["diff"].startswith(f"--- {policy}\n")
    assert found["notes"] == []


def test_no_colours_but_on_a_terminal(policy: Path, log: Path) -> None:
    """What callers have named is shown, and not obeyed."""
    log.write_bytes(log.read_bytes() + line(stage="x\x1b[31m", budget_id="run-x"))
    text = tune("-c", policy, log).stdout
    assert "\x1b" not in text
    assert "to which this policy gives no share" in text


# -- the change --------------------------------------------------------------------------------------------------------


def test_the_change_is_made(policy: Path, log: Path) -> None:
    """The file says what was proposed; asked again, nothing is left to change."""
    proposed = json.loads(tune("-c", policy, log, "--json").stdout)
    result = tune("-c", policy, log, "--write")
    assert result.exit_code == 0
    assert result.stdout.endswith(f"{policy} has been changed.\n")
    shares = {share.stage: share.span // 1_000_000 for share in load(policy).budget.stages}
    assert shares == {each["stage"]: each["after_ms"] for each in proposed["proposal"]["shares"]} | {
        "slack": 500
    }
    assert load(policy).routes[1].ladder[0].needs == proposed["needs"][0]["proposed_ms"] * 1_000_000
    assert "# search and rerank" in policy.read_text()
    policy.write_text(POLICY_TEXT)
    assert json.loads(tune("-c", policy, log, "--json", "--write").stdout)["written"] is True


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch")
@pytest.mark.parametrize("text", [POLICY_TEXT, POLICY_TEXT.rstrip(), POLICY_TEXT.replace("# What", "# Wás")])
def test_the_diff_can_be_applied(policy: Path, log: Path, tmp_path: Path, text: str) -> None:
    """By other programs: it makes the same file as --write does."""
    policy.write_text(text)
    diff = json.loads(tune("-c", policy, log, "--json").stdout)["diff"]
    other = tmp_path / "other.yaml"
    other.write_text(text)
    subprocess.run(["patch", "-s", str(other)], input=diff.encode(), check=True)
    assert tune("-c", policy, log, "--write").exit_code == 0
    assert other.read_bytes() == policy.read_bytes()


def test_what_is_as_it_should_be_is_left(policy: Path, log: Path) -> None:
    """No diff, and --write writes nothing."""
    found = json.loads(tune("-c", policy, log, "--json", "--write").stdout)
    assert found["written"] is True
    before = policy.stat()
    # What was cut at the old share tells no more of the new one, so these samples propose nothing further for it.
    again = tune("-c", policy, log, "--json", "--write", "--samples", "201")
    assert (again.exit_code, json.loads(again.stdout)["diff"]) == (3, "")
    assert (policy.stat().st_ino, policy.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_slack_and_margin(policy: Path, log: Path) -> None:
    """Both may be chosen; the slack is written too."""
    found = json.loads(tune("-c", policy, log, "--json", "--slack", "0s", "--margin", "50", "--write").stdout)
    assert (found["proposal"]["slack_ms"], found["margin"]) == (0, 0.5)
    assert sum(share["after_ms"] for share in found["proposal"]["shares"]) == 9000
    assert "slack: 0s\n" in policy.read_text()


def test_what_cannot_be_written_is_shown_all_the_same(policy: Path, log: Path) -> None:
    """The tables and the diff come first; then why, and what to do."""
    policy.write_text(POLICY_TEXT.replace("500ms\n    slack: 500ms", "&half 500ms\n    slack: *half"))
    result = tune("-c", policy, log, "--write", "--give", "formatting")
    assert result.exit_code == 1
    assert result.stdout.startswith("Stages of a budget")
    assert "is written once and used in several places" in result.stderr


def test_standard_input_is_not_written(log: Path) -> None:
    """A policy from a pipe: the diff can be applied where it came from."""
    result = tune("-c", "-", log, given=POLICY_TEXT.encode())
    assert result.exit_code == 0
    assert "--- standard input" in result.stdout
    refused = tune("-c", "-", log, "--write", given=POLICY_TEXT.encode())
    assert refused.exit_code == 1
    assert "came from standard input, which cannot be written" in refused.stderr
    assert "has been changed" not in refused.stdout


# -- sources -----------------------------------------------------------------------------------------------------------


def test_logs_of_all_kinds(policy: Path, log: Path, tmp_path: Path) -> None:
    """Several, compressed ones, and a pipe."""
    packed = tmp_path / "a.log.1.gz"
    packed.write_bytes(gzip.compress(log.read_bytes().replace(b"p1-1", b"p2-1")))
    text = tune("-c", policy, packed, "-", given=log.read_bytes(), columns=120).stdout
    assert "retrieval     1.5   400" in text


def test_a_running_sidecar(policy: Path, sidecar: Sidecar) -> None:
    """Its last jobs, by the control API, which may be named with or without its scheme."""
    for number in range(3):
        budget = opened(sidecar.ledger, f"run-{number}", 60_000, staged=True)
        ended(sidecar.ledger, budget, 1, 0, 500, stage="retrieval")
        sidecar.ledger.close(budget, budget.opened + 10**9, "request")
    policy.write_text("budget: {default: 10s, reserve: 1s, stages: {retrieval: 4s, llm: 5s}}\n")
    with serving(sidecar) as port:
        for url in (f"http://127.0.0.1:{port}", f"127.0.0.1:{port}"):
            result = tune("-c", policy, "--control", url, "--json", "--samples", "3")
            assert result.exit_code == 0, result.stderr
            stages = {each["stage"]: each for each in json.loads(result.stdout)["stages"]}
            assert (stages["retrieval"]["samples"], stages["llm"]["samples"]) == (3, 0)
            assert stages["retrieval"]["p50_ms"]["low"] == pytest.approx(500, rel=0.02)


def test_a_prometheus(policy: Path) -> None:
    """Asked over the range, for the pods that are meant, with the headers that it wants."""
    asked: list[http.Asked] = []

    def answer(request: http.Asked) -> http.Answer:
        asked.append(request)
        result: list[Any] = []
        if "stage_used_ratio" in request.target:
            labels = {"stage": "llm", "le": "0.5"}
            result = [{"metric": labels | {"le": le}, "value": [0, "200"]} for le in ("0.5", "1", "+Inf")]
        document = {"status": "success", "data": {"resultType": "vector", "result": result}}
        return http.Answer(json.dumps(document).encode())

    with http.serving(answer) as port:
        words = ("--range", "7d", "--match", "namespace=agents", "--header", "X-Scope-OrgID: a")
        result = tune("-c", policy, "--prometheus", f"http://127.0.0.1:{port}", *words)
    assert result.exit_code == 0, result.stderr
    assert "llm           5.5   200  ≤ 2.75  ≤ 2.75  ≤ 2.75    ≥ 2.75" in result.stdout
    assert all("%5B7d%5D" in each.target and "namespace%3D%22agents%22" in each.target for each in asked)
    assert {each.headers["X-Scope-OrgID"] for each in asked} == {"a"}


def test_too_few_samples_are_said(policy: Path, tmp_path: Path) -> None:
    """Nothing is proposed, and the status says so."""
    log = tmp_path / "few.log"
    log.write_bytes(line())
    result = tune("-c", policy, log)
    assert (result.exit_code, result.stderr) == (3, "")
    assert "0.0%  too few\n" in result.stdout
    assert result.stdout.endswith("Nothing is proposed: there are too few samples.\n")
    assert json.loads(tune("-c", policy, log, "--json").stdout)["proposal"] is None


def test_a_policy_with_ladders_only(tmp_path: Path, log: Path) -> None:
    """It has needs to tune, and no shares."""
    policy = tmp_path / "ladders.yaml"
    text = (
        POLICY_TEXT.replace("    stage: llm\n", "")
        .replace(", stage: retrieval", "")
        .replace(", stage: formatting", "")
    )
    start, end = text.index("  stages:"), text.index("routes:")
    policy.write_text(text[:start] + text[end:])
    result = tune("-c", policy, log)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("Needs of rungs\n")


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a.log", "--prometheus", "http://p"),
        ("--prometheus", "http://p", "--control", "http://c"),
        ("a.log", "--range", "1h"),
        ("a.log", "--match", "a=b"),
        ("a.log", "--margin", "much"),
        ("a.log", "--margin", "-5%"),
        ("a.log", "--slack", "5"),
        ("a.log", "--samples", "0"),
        ("-", "-"),
        ("--control", "https://a:1"),
        ("--control", "http://a:x"),
        ("--control", ""),
        ("--prometheus", "http://p", "--header", "x"),
        ("--prometheus", "http://p", "--header", "a b: c"),
    ],
)
def test_faults_of_the_command(policy: Path, words: tuple[str, ...]) -> None:
    """Status 2, and how it is written."""
    result = tune("-c", policy, *words)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("budget: {stages: {a: 1}}", 2, "has no unit"),
        ("mode: observe", 1, "has neither stages nor ladders"),
        ("", 1, "has neither stages nor ladders"),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: {waterclock.yaml: 'mode: observe'}\n",
            2,
            "kubectl get configmap NAME",
        ),
    ],
)
def test_faults_of_the_policy(tmp_path: Path, log: Path, text: str, status: int, says: str) -> None:
    """What helps is said, before anything is read."""
    policy = tmp_path / "other.yaml"
    policy.write_text(text)
    result = tune("-c", policy, log)
    assert (result.exit_code, result.stdout) == (status, "")
    assert says in result.stderr


def test_without_a_policy(log: Path) -> None:
    """The built-in one has nothing to tune."""
    result = tune(log)
    assert (result.exit_code, result.stderr) == (
        1,
        "waterclock: there is no policy to tune here.\nName its file with -c FILE.\n",
    )


def test_faults_of_the_sources(policy: Path, tmp_path: Path) -> None:
    """Each says what it is, and what helps."""
    other = tmp_path / "other.log"
    other.write_text("hello\n")
    assert "is not the log of a sidecar: among 1 line there is no step" in tune("-c", policy, other).stderr
    assert "No such file" in tune("-c", policy, tmp_path / "none").stderr
    nobody = free_port()
    said = tune("-c", policy, "--control", f"127.0.0.1:{nobody}").stderr
    assert "no sidecar answers at 127.0.0.1" in said
    assert "kubectl port-forward POD 10802" in said
    assert "cannot be asked" in tune("-c", policy, "--prometheus", f"http://127.0.0.1:{nobody}").stderr
    with answering(b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"budgets": 1}') as port:
        assert (
            "speaks of budgets in another way" in tune("-c", policy, "--control", f"127.0.0.1:{port}").stderr
        )
    said = tune("-c", policy, "--prometheus", f"http://127.0.0.1:{nobody}", "--range", "1 day").stderr
    assert "'1 day' is no range" in said


def test_a_stage_that_there_is_not(policy: Path, log: Path) -> None:
    """Said before a long log is read."""
    result = tune("-c", policy, log, "--give", "lm")
    assert result.exit_code == 1
    assert "The stages of this policy are retrieval, llm, formatting." in result.stderr


def test_it_is_taught(asked: Commands) -> None:
    """The help says what is read, what is proposed, and how it ends."""
    text = asked.good("tune", "--help")
    for word in ("kubectl logs", "--prometheus", "--control", "> x", "status 0", "3 when", "docs/tune.md"):
        assert word in text
