"""What `helm test` runs in a pod: it goes well with a sidecar, and says what is wrong without."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.chart.rendering import CHART
from tests.support.behaviours import answer
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream

PROGRAM = CHART / "files/budgeted-call.py"


def send(tool: str, mode: str = "enforce", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it as the pod does, with these proxy variables."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text(), tool, mode],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
        env=os.environ | variables,
    )


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_sidecar_is_found_and_believed(mode: str) -> None:
    """The call with time is completed; the one without is refused, where the policy enforces."""
    with Sidecar({"mode": mode}) as sidecar, Upstream(answer()) as upstream:
        said = send(upstream.url("/"), mode, HTTP_PROXY=sidecar.proxy_url, no_proxy="127.0.0.1")
        assert len(upstream.requests) == (1 if mode == "enforce" else 2)
    assert said.returncode == 0, said
    assert "Budget-Outcome: completed" in said.stdout
    assert ("Budget-Outcome: refused" in said.stdout) == (mode == "enforce")


def test_a_sidecar_that_lets_everything_pass_is_found_out() -> None:
    """A policy that enforces has to show."""
    with Sidecar({"mode": "observe"}) as sidecar, Upstream(answer()) as upstream:
        said = send(upstream.url("/"), HTTP_PROXY=sidecar.proxy_url)
    assert said.returncode == 1
    assert "should have been refused" in said.stderr


def test_a_pod_without_a_sidecar_says_so() -> None:
    """Under failurePolicy Ignore this is what a pod looks like that nobody injected."""
    said = send("http://127.0.0.1:9/")
    assert said.returncode == 1
    assert "This pod was not injected" in said.stderr


def test_another_proxy_is_no_sidecar() -> None:
    """Its answers say nothing of a budget."""
    with Upstream(answer()) as other:
        said = send("http://127.0.0.1:9/", HTTP_PROXY=other.url(""))
    assert said.returncode == 1
    assert "did not pass through a sidecar" in said.stderr


def test_a_sidecar_that_is_gone_is_told_from_a_tool_that_is() -> None:
    """The one cannot be reached; of the other the sidecar tells."""
    gone = f"http://127.0.0.1:{free_port()}"
    said = send("http://127.0.0.1:9/", HTTP_PROXY=gone)
    assert said.returncode == 1
    assert f"The sidecar at {gone} did not answer" in said.stderr
    with Sidecar() as sidecar:
        said = send(f"http://127.0.0.1:{free_port()}/", HTTP_PROXY=sidecar.proxy_url)
    assert said.returncode == 1
    assert "should have been completed" in said.stderr
    assert "connect_failed" in said.stdout
