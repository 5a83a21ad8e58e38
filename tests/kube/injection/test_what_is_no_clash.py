"""What looks like a clash with the sidecar and is none: it is injected."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.kube.injection.decision import Surroundings, Verdict
from proxy.kube.injection.rule import decide
from proxy.kube.names import ENABLED, INJECT, USER_ID
from proxy.kube.settings import Settings

AROUND = Surroundings("agents", labels={INJECT: ENABLED})
OURS, OTHER = {"runAsUser": USER_ID}, {"runAsUser": 1000}


def verdict(*containers: dict[str, Any], **spec: Any) -> Verdict:
    named = [{"name": f"c{at}", "image": "app", **each} for at, each in enumerate(containers)]
    return decide({"metadata": {}, "spec": {"containers": named, **spec}}, AROUND, Settings()).verdict


@pytest.mark.parametrize(
    ("containers", "clashes"),
    [
        ([{"securityContext": OTHER}], False),
        ([{"securityContext": OTHER}, {}], True),
        ([{}], True),
        ([{"securityContext": OURS}], True),
    ],
)
def test_the_pods_user_id_counts_where_a_container_has_it(
    containers: list[dict[str, Any]], clashes: bool
) -> None:
    """A container's own id is the one that it runs as."""
    assert (verdict(*containers, securityContext=OURS) is Verdict.REFUSED) == clashes


@pytest.mark.parametrize(("protocol", "clashes"), [("UDP", False), ("SCTP", False), ("TCP", True)])
def test_only_ports_of_tcp_clash(protocol: str, clashes: bool) -> None:
    """The sidecar listens on no other."""
    port = {"containerPort": 10803, "protocol": protocol}
    assert (verdict({"ports": [port]}) is Verdict.REFUSED) == clashes
