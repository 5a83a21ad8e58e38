"""`waterclock explain`: what would become of a call, said without sending it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from proxy.cli import main

POLICY = """
limit: 5
budget: {default: 10s, width: 3, stages: {llm: 2s}}
routes:
  - {name: orders, match: {host: orders.x}, concurrency: 2, serialize: true, retries: {}, cap: 1s, stage: llm}
"""


def explained(tmp_path: Path, *words: str) -> tuple[int, str]:
    """The status and the text of the command."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text(POLICY)
    result = CliRunner().invoke(main, ["explain", "-c", str(policy), *words])
    return result.exit_code, result.output


def test_what_a_call_may_have_to_wait_for(tmp_path: Path) -> None:
    """Each limit that counts it, with its size; a read does not wait for the one write at a time."""
    status, text = explained(tmp_path, "POST", "http://orders.x/a")
    assert status == 0
    assert "2000 ms (stage_share), each attempt at most its cap" in text
    assert "limit (5), budget.width (3), concurrency of orders (2), serialize of orders (1)" in text
    assert "serialize" not in explained(tmp_path, "GET", "http://orders.x/a")[1]


def test_a_call_that_claims_the_slack(tmp_path: Path) -> None:
    """It is refused, with the sentence that a caller would get."""
    status, text = explained(tmp_path, "GET", "http://orders.x/a", "-H", "Budget-Stage: slack")
    assert status == 1
    assert "slack is the share that no call may claim" in text
