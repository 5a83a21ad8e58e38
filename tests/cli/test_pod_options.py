"""What `waterclock run` is told of its pod: by its options, as the injector writes them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from proxy.cli import main
from tests.support.behaviours import answer
from tests.support.callers import call
from tests.support.sidecar import Sidecar
from tests.support.upstream import Upstream
from tests.support.waiting import eventually


def modes(sidecar: Sidecar) -> list[str]:
    """The mode at the start, and after each reload."""
    return [event["mode"] for event in sidecar.events if event["event"] in ("started", "reloaded")]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--exclude-outbound-ports", "25,x", '"x" is no port; write 1 to 65535, or a range like 9000-9100'),
        ("--exclude-outbound-ports", "0", '"0" is no port; write 1 to 65535, or a range like 9000-9100'),
        ("--exclude-outbound-ports", "9100-9000", '"9100-9000" ends before it begins; write 9000-9100'),
        ("--exclude-outbound-cidrs", "10.0.0.0/33", '"10.0.0.0/33" is no network; write one like 10.0.0.0/8'),
        ("--budget-max", "30", '"30" has no unit; write 30s'),
        ("--budget-max", "0s", '"0s" is no time at all; write one like 30s'),
        ("--inbound-port", "70000", "70000 is not in the range"),
    ],
)
def test_a_wrong_value_is_named_with_its_remedy(option: str, value: str, said: str) -> None:
    """The option, what is wrong with it, and what to write instead; nothing is started."""
    ended = CliRunner().invoke(main, ["run", option, value])
    assert ended.exit_code == 2
    assert option in ended.output
    assert said in " ".join(ended.output.split())


def test_budget_max_holds_a_longer_budget() -> None:
    """The policy allows an hour, the pod two seconds, the caller asks for a minute: two seconds it is."""
    with Sidecar(options=("--budget-max", "2s")) as sidecar, Upstream(answer()) as upstream:
        heard = call(sidecar, "GET", upstream.url("/"), headers={"Budget-Remaining-Ms": 60_000})
    assert 0 < int(heard.get("Budget-Allowed-Ms") or 0) <= 2000


def test_observe_waits_for_the_policy_to_allow_it() -> None:
    """Asked for by the pod, it holds from the moment the policy says so, and no longer than that."""
    with Sidecar(options=("--observe",)) as sidecar:
        sidecar.write_policy("pods: {observe: true}")
        eventually(lambda: modes(sidecar)[-1:] == ["observe"], what="the pod's wish holds")
        sidecar.write_policy("")
        eventually(lambda: modes(sidecar)[-1:] == ["enforce"], what="the pod's wish holds no longer")
        assert modes(sidecar) == ["enforce", "observe", "enforce"]
