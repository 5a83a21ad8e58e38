"""The redirect for real: a pod's network, a world beyond it, and an app that knows nothing of proxies."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.kube.redirect import apply
from proxy.kube.redirect.rules import Redirect
from tests.support.behaviours import answer, stall
from tests.support.callers import Caller, call
from tests.support.ports import free_port
from tests.support.upstream import Upstream
from tests.support.waiting import eventually
from tests.ways.apart import run, within
from tests.ways.podnet import FAR, POD, WORLD, PodNetwork, PodSidecar, pod_network, python, redirect, tables

NAIVE = Path(__file__).with_name("naive.py")
APP_PORT = 8080
APP_USER = 1000
JOB_MS = 6000
RESERVE_MS = 5000

READ_ONLY_ROOT = 'mount -o remount,bind,ro / && mount -t tmpfs -o ro none /run && exec "$@"'
HIDE_NFT = "mount --bind /bin/false $(readlink -f $(command -v iptables-nft-restore)) && "


def only(*capabilities: str) -> tuple[str, ...]:
    """The words before a command that run it as root with these capabilities alone."""
    some = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    return "setpriv", "--bounding-set", some, "--inh-caps", some


both = pytest.mark.parametrize("version", [4, 6], ids=["IPv4", "IPv6"])


@pytest.fixture
def pod() -> Iterator[PodNetwork]:
    with pod_network() as pod:
        yield pod


@pytest.fixture
def led(pod: PodNetwork) -> Iterator[PodSidecar]:
    """A pod in redirect mode, as its init container leaves it: some things are excluded, the app's port is led."""
    told = redirect(
        "--inbound-port", str(APP_PORT), "--exclude-outbound-ports", "7001,7100-7200",
        "--exclude-outbound-cidrs", "192.0.2.0/24,2001:db8::/32",
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (0, "")
    options = ("--inbound-port", str(APP_PORT))
    sidecar = pod.sidecar(f"budget: {{reserve: {RESERVE_MS}ms}}", options=options)
    with sidecar:
        yield sidecar


@pytest.fixture
def app() -> Iterator[None]:
    """The app, which is started before anybody knows of budgets. Depends on the pod being there."""
    process = subprocess.Popen(
        python(str(NAIVE), str(APP_PORT), uid=APP_USER), stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        process.kill()


@both
def test_an_app_that_knows_nothing_is_held_to_its_budget(
    pod: PodNetwork, led: PodSidecar, app: None, version: int
) -> None:
    """The job's header arrives at the app's own port; its tool, which says nothing for ever, is cut in time."""
    with pod.in_the_world(Upstream(stall(), host=WORLD[version])) as tool:
        with within(pod.world):
            target = f"/run?tool={tool.url('/facts')}"
            stated = {"Budget-Remaining-Ms": JOB_MS, "Budget-Id": f"job-{version}", "Host": "app"}
            told = call(_At(POD[version], APP_PORT), "GET", target, headers=stated)
        said = json.loads(told.body)
        assert (told.status, said["status"]) == (200, 504)
        assert said["outcome"].startswith("deadline_exceeded; effect=none;")
        assert "waterclock" in said["via"]
        assert JOB_MS - RESERVE_MS <= told.after < JOB_MS
        assert told.get("budget-id") == f"job-{version}"
        (record,) = led.records_of(f"job-{version}")
        assert record["target"] == tool.url("/facts")
        (request,) = tool.requests
        assert 0 < int(request.get("budget-remaining-ms") or 0) <= JOB_MS - RESERVE_MS
        assert (request.get("via") or "").count("waterclock") == 1, "led here once, and not round and round"
        assert len(tool.connections) == 1


@both
def test_only_what_should_be_is_led(pod: PodNetwork, led: PodSidecar, version: int) -> None:
    """Excluded ports, ranges and networks go past, and so do DNS, the loopback, the pod itself and the sidecar's user."""
    loopback = {4: "127.0.0.1", 6: "::1"}[version]
    for host, port, goes_past in (
        (WORLD[version], 7000, False),
        (WORLD[version], 7001, True),
        (WORLD[version], 7099, False),
        (WORLD[version], 7100, True),
        (WORLD[version], 7200, True),
        (WORLD[version], 7201, False),
        (WORLD[version], 53, True),
        (FAR[version], 7000, True),
    ):
        with pod.in_the_world(Upstream(answer(), host=host, port=port)) as upstream:
            assert _asked_directly(upstream) is goes_past, (host, port)
    for host in (loopback, POD[version]):
        with Upstream(answer(), host=host) as upstream:
            assert _asked_directly(upstream), host
    with pod.in_the_world(Upstream(answer(), host=WORLD[version])) as upstream:
        ask = (
            f"import http.client as h; c = h.HTTPConnection('{upstream.host}', {upstream.port}, timeout=10); "
        )
        command = python("-c", ask + "c.request('GET', '/'); c.getresponse(); c.close()")
        subprocess.run([*led.as_user, *command], check=True)
        subprocess.run(command, check=True)
        assert [request.get("via") is None for request in upstream.requests] == [True, False]


@both
def test_the_apps_port_is_entered_through_the_sidecar(pod: PodNetwork, led: PodSidecar, version: int) -> None:
    """From outside, whatever family; another port is not."""
    with (
        Upstream(answer(), host=POD[version], port=free_port()) as elsewhere,
        Upstream(answer(), port=APP_PORT) as app,
        within(pod.world),
    ):
        assert call(_At(elsewhere.host, elsewhere.port), "GET", "/x").get("budget-id") is None
        assert elsewhere.requests[0].get("via") is None
        assert call(_At(POD[version], APP_PORT), "GET", "/x").get("budget-id") is not None
        assert "waterclock" in (app.requests[0].get("via") or "")


@pytest.mark.parametrize("back_end", ["-nft", "-legacy"])
def test_every_run_leaves_its_own_rules_and_no_other(
    pod: PodNetwork, back_end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, twice, with other arguments, and undone; what others have set stays as it was."""
    monkeypatch.setattr(apply, "_BACK_ENDS", (back_end,))
    for family in ("iptables", "ip6tables"):
        for words in (
            ("-N", "MESH"),
            ("-A", "MESH", "-p", "tcp", "--dport", "15001", "-j", "RETURN"),
            ("-A", "OUTPUT", "-p", "tcp", "-j", "MESH"),
        ):
            run(f"{family}{back_end}", "-t", "nat", *words)
    before = tables()
    first = Redirect.excluding(((25, 25), (9000, 9100)), ("10.96.0.0/16", "fd00::/8"), APP_PORT)
    list(apply.put(first))
    once = tables()
    assert once.count("--dport 9000:9100") == 2
    assert once.count("-A OUTPUT -p tcp -j WATERCLOCK_OUTPUT") == 2
    list(apply.put(first))
    assert tables() == once
    list(apply.put(Redirect()))
    assert "9000" not in tables()
    assert "PREROUTING -p tcp" not in tables()
    assert tables().count("-A OUTPUT -p tcp -j WATERCLOCK_OUTPUT") == 2
    list(apply.put(first))
    assert tables() == once
    list(apply.take_away())
    assert tables() == before
    assert [sentence for sentence in apply.take_away() if "no rules to take away" not in sentence] == []


def test_undone_by_the_command(pod: PodNetwork) -> None:
    """What `waterclock redirect` sets, `waterclock redirect --undo` takes away."""
    assert redirect("--inbound-port", "8080").returncode == 0
    assert "WATERCLOCK" in tables()
    told = redirect("--undo")
    assert (told.returncode, told.stderr) == (0, "")
    assert "WATERCLOCK" not in tables()
    with pod.in_the_world(Upstream(answer(), host=WORLD[4])) as upstream:
        assert _asked_directly(upstream)


@pytest.mark.parametrize("back_end", ["nft", "legacy"])
def test_net_admin_alone_is_enough(pod: PodNetwork, back_end: str) -> None:
    """As root with no other capability, on a read-only root: as the init container runs. No lock file is in the way.

    The legacy back end opens a raw socket, and needs NET_RAW for it.
    """
    hidden, capabilities = ("", ["net_admin"]) if back_end == "nft" else (HIDE_NFT, ["net_admin", "net_raw"])
    mounted = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", hidden + READ_ONLY_ROOT, "sh")
    told = redirect("--inbound-port", "8080", before=(*mounted, *only(*capabilities)))
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines() == [
        f"IPv4: connections are led to port 10800 (iptables-{back_end}-restore).",
        f"IPv6: connections are led to port 10800 (ip6tables-{back_end}-restore).",
    ]
    assert tables().count("-A PREROUTING -p tcp -j WATERCLOCK_PREROUTING") == 2


def test_without_net_admin(pod: PodNetwork) -> None:
    """It says what is missing and what to do, and that the rules are not in force."""
    told = redirect(before=only())
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith(
        "waterclock: NET_ADMIN is missing. Run this container as root with that capability"
    )
    told = redirect("--undo", before=only())
    assert told.returncode == 1
    assert "WATERCLOCK" not in tables()


def test_a_pod_without_ipv6(pod: PodNetwork) -> None:
    """No such address, no such loopback: the rest is set, and the sidecar listens where it can."""
    Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    assert redirect().returncode == 0
    with pod.in_the_world(Upstream(answer(), host=WORLD[4])) as upstream, pod.sidecar():
        assert not _asked_directly(upstream)


class _At:
    """An address to call."""

    def __init__(self, *address: str | int) -> None:
        self.address: tuple[str, int] = address  # type: ignore[assignment]


def _asked_directly(upstream: Upstream) -> bool:
    """Ask a server as an app does; say whether the request went past the sidecar."""
    before = len(upstream.requests)
    with Caller((upstream.host, upstream.port)) as caller:
        assert caller.request("GET", "/", {"Host": "tool"}).answer().status == 200
    (request,) = eventually(lambda: upstream.requests[before:])
    return request.get("via") is None
