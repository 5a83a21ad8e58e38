"""`waterclock check`: good, with what may surprise, or every fault."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from proxy.cli import main

LADDER = """
routes:
- name: chat
  match: {host: llm.x}
  EFFECT
  ladder:
  - {name: full, needs: 5s}
  - {name: cached, needs: 50ms, cache: {semantic: 0.92, text: "$.messages[-1].content"}}
"""


def checked(tmp_path: Path, text: str) -> tuple[int, str]:
    """The status and all that is printed."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text(text)
    result = CliRunner().invoke(main, ["check", str(policy)])
    return result.exit_code, result.output.replace(str(policy), "waterclock.yaml")


def test_a_policy_that_may_surprise(tmp_path: Path) -> None:
    """It is good, and what is not what it seems follows."""
    status, text = checked(tmp_path, LADDER.replace("EFFECT", "effect: read"))
    assert status == 0
    assert text == (
        "waterclock.yaml: good. 1 route, mode enforce.\n"
        "note: route chat, rung cached: semantic finds nothing, since no cache.service is given; the same request is found.\n"
    )


def test_a_ladder_for_what_may_be_a_write(tmp_path: Path) -> None:
    """It names the line."""
    status, text = checked(tmp_path, LADDER.replace("  EFFECT\n", ""))
    assert status == 2
    assert text.startswith(
        "waterclock.yaml:5: routes[0].ladder: is for reads, and nothing says that these calls are"
    )
    assert text.endswith("1 fault.\n")
