"""What other injectors got wrong in public, each as the whole kind of pod that it is about (pure; tests/cluster has the rest)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from proxy.kube import names
from proxy.kube.injection.decision import Decision, Reason, Surroundings, Verdict
from proxy.kube.injection.rule import decide
from proxy.kube.settings import Settings
from tests.kube.injection.pods import INJECTED, Manifest, added, applied, container, containers_of, variables
from tests.kube.injection.restricted import broken_by

LABELS = {names.INJECT: names.ENABLED}
NEW = Surroundings("agents", LABELS)
OLD = Surroundings("agents", LABELS, native_sidecars=False)
REDIRECT = {names.INTERCEPT: "redirect"}


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A pod with one container, and what else a test says of it."""
    metadata: Manifest = {"generateName": "app-", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "app", "image": "app"}], **spec}}


def injected(given: Manifest, around: Surroundings = NEW) -> Manifest:
    """The pod as it is then."""
    decision = decide(given, around, Settings())
    assert decision.verdict is Verdict.INJECTED, decision.message
    return applied(given, decision)


def decided(given: Manifest, around: Surroundings = NEW) -> Decision:
    """What was decided."""
    return decide(given, around, Settings())


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
@pytest.mark.parametrize("annotations", [{}, REDIRECT], ids=["environment", "redirect"])
def test_a_job_ends(policy: str, annotations: dict[str, str]) -> None:
    """Only the app's containers count for a Job's end: ours are init containers (istio/istio#11045, linkerd2#1869)."""
    spec = injected(pod(annotations, restartPolicy=policy))["spec"]
    assert [each["name"] for each in spec["containers"]] == ["app"]
    assert spec["initContainers"][0]["restartPolicy"] == "Always"
    assert all("restartPolicy" not in each for each in spec["initContainers"][1:])


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_job_that_would_not_end_is_left_alone(policy: str) -> None:
    """Where sidecars are ordinary containers: no sidecar is better than a Job that hangs."""
    assert decided(pod(restartPolicy=policy), OLD).reason == Reason.JOB_WOULD_NOT_END
    assert decided(pod(restartPolicy="Always"), OLD).verdict is Verdict.INJECTED
    assert decided(pod(), OLD).verdict is Verdict.INJECTED


def test_no_app_before_the_sidecar() -> None:
    """The kubelet waits for its startup probe; without native sidecars, for its first container's hook (istio/istio#11130)."""
    for each in INJECTED:
        [sidecar] = [one for one in added(each) if one["name"] == names.SIDECAR]
        assert sidecar["startupProbe"]["httpGet"] == {"path": "/readyz", "port": 10803}
        if each.around.native_sidecars:
            assert each.injected()["spec"]["initContainers"][0] == sidecar
        else:
            assert each.injected()["spec"]["containers"][0] == sidecar
            assert sidecar["lifecycle"]["postStart"]["exec"]["command"] == ["waterclock", "wait"]


@pytest.mark.parametrize(
    ("grace", "within"), [(None, "25s"), (120, "115s"), (5, "1s"), (0, "1s"), ("x", "25s")]
)
def test_the_sidecar_outlives_the_app(grace: Any, within: str) -> None:
    """A native one is stopped last, and has no hook that could drain early; another waits for the app (istio/istio#19564)."""
    given = pod(terminationGracePeriodSeconds=grace)
    assert "lifecycle" not in container(injected(given), names.SIDECAR)
    stop = container(injected(given, OLD), names.SIDECAR)["lifecycle"]["preStop"]
    assert stop == {"exec": {"command": ["waterclock", "wait", "--for-app", "--timeout", within]}}


@pytest.mark.parametrize("own", [1, 3])
def test_init_containers_have_egress(own: int) -> None:
    """The sidecar stands before them, and they are told of it (vault-k8s#41, istio/istio#48854)."""
    mine = [{"name": f"init-{i}", "image": "i"} for i in range(own)]
    spec = injected(pod(initContainers=mine))["spec"]
    assert [each["name"] for each in spec["initContainers"]] == [
        names.SIDECAR,
        *(each["name"] for each in mine),
    ]
    assert all(
        variables(each)["http_proxy"] == "http://127.0.0.1:10800" for each in spec["initContainers"][1:]
    )


def test_redirected_init_containers_have_egress() -> None:
    """What leads calls to the sidecar runs when it listens; where nobody listens yet, after them."""
    mine = [{"name": "init", "image": "i"}]
    new = injected(pod(REDIRECT, initContainers=mine))["spec"]["initContainers"]
    assert [each["name"] for each in new] == [names.SIDECAR, names.REDIRECT, "init"]
    old = injected(pod(REDIRECT, initContainers=mine), OLD)["spec"]["initContainers"]
    assert [each["name"] for each in old] == ["init", names.REDIRECT]


@pytest.mark.parametrize("standard", ["privileged", "baseline", "restricted", None])
def test_a_restricted_namespace(standard: str | None) -> None:
    """Environment mode is admitted as it is; redirect mode is refused, with a message that says why (linkerd2#10232)."""
    labels = LABELS | ({"pod-security.kubernetes.io/enforce": standard} if standard else {})
    around = Surroundings("agents", labels)
    sidecar = container(injected(pod(), around), names.SIDECAR)
    assert broken_by(sidecar) == []
    decision = decided(pod(REDIRECT), around)
    if standard in ("baseline", "restricted"):
        assert decision.reason == Reason.REDIRECT_FORBIDDEN
        assert f"enforce: {standard}" in decision.message
        assert "waterclock.dev/intercept: environment" in decision.message
    else:
        assert decision.verdict is Verdict.INJECTED


OTHERS: Manifest = {"name": "mesh", "image": "mesh"}


@pytest.mark.parametrize("around", [NEW, OLD], ids=["native", "ordinary"])
@pytest.mark.parametrize("annotations", [{}, REDIRECT], ids=["environment", "redirect"])
def test_its_own_output_after_others_have_changed_it(
    annotations: dict[str, str], around: Surroundings
) -> None:
    """Another webhook adds containers in front, behind and in between: still no second sidecar (kserve/kserve#4332)."""
    given = injected(pod(annotations), around)
    for place in ("initContainers", "containers"):
        there = given["spec"].get(place) or []
        for at in range(len(there) + 1):
            changed = [*there[:at], OTHERS, *there[at:]]
            assert decided({**given, "spec": {**given["spec"], place: changed}}, around).patch == ()
    assert decided({**given, "metadata": {}}, around).reason == Reason.ALREADY_INJECTED


def test_every_container_is_told_of_the_sidecar() -> None:
    """In both cases of each name, and the exceptions as hosts first: who ignores networks still knows them (kopf#1277)."""
    given = pod(
        containers=[{"name": f"c{i}", "image": "c"} for i in range(3)],
        initContainers=[{"name": "i", "image": "i"}],
    )
    for each in containers_of(injected(given)):
        if each["name"] == names.SIDECAR:
            assert "env" not in each
            continue
        said = variables(each)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
            assert said[name] == said[name.lower()]
        assert said["NODE_USE_ENV_PROXY"] == "1"
        assert not any("/" in item for item in said["NO_PROXY"].split(","))
        assert {"localhost", "127.0.0.1", "kubernetes.default.svc"} <= set(said["NO_PROXY"].split(","))


PASSED_OVER = {
    Reason.HOST_NETWORK: pod(hostNetwork=True),
    Reason.MIRROR_POD: pod({"kubernetes.io/config.mirror": "x"}),
    Reason.OPTED_OUT: pod({names.INJECT: names.DISABLED}),
    Reason.ALREADY_INJECTED: pod(containers=[{"name": "app"}, {"name": names.SIDECAR}]),
    Reason.WINDOWS_POD: pod(os={"name": "windows"}),
}


@pytest.mark.parametrize("reason", PASSED_OVER)
@pytest.mark.parametrize("wrong", [{}, {names.INTERCEPT: "?"}], ids=["sound", "with a mistake"])
def test_pods_that_are_passed_over(reason: Reason, wrong: dict[str, str]) -> None:
    """With the reason, for the Event; and what is not injected is not judged either."""
    given = PASSED_OVER[reason]
    annotations = given["metadata"]["annotations"] | wrong
    decision = decided({**given, "metadata": {**given["metadata"], "annotations": annotations}})
    assert (decision.verdict, decision.reason) == (Verdict.SKIPPED, reason)
    assert decision.message


def test_no_system_namespace_and_not_its_own() -> None:
    """Whatever their labels say (szlabs/harbor-automation-4k8s#14); nor one that the platform names."""
    settings = Settings(excluded_namespaces=("kube-system", "vault"), namespace="clock")
    for name in ("kube-system", "vault", "clock"):
        assert decide(pod(), Surroundings(name, LABELS), settings).reason == Reason.EXCLUDED_NAMESPACE


PROBES: tuple[Manifest, ...] = (
    {"httpGet": {"path": "/healthz", "port": 8080, "httpHeaders": [{"name": "X-A", "value": "b"}]}},
    {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTPS"}},
    {"tcpSocket": {"port": 8080}},
    {"grpc": {"port": 8080, "service": "live"}},
    {"exec": {"command": ["true"]}, "periodSeconds": 3},
)


@pytest.mark.parametrize("mode", ["environment", "redirect"])
@pytest.mark.parametrize("inbound", [None, "8080"])
def test_probes_are_never_rewritten(mode: str, inbound: str | None) -> None:
    """Not one of any kind, in any place, in any mode (istio/istio#25177); where one would deceive, a warning says so."""
    annotations = {names.INTERCEPT: mode} | ({names.INBOUND_PORT: inbound} if inbound else {})
    ports = [{"name": "http", "containerPort": 8080}]
    kinds = ("startupProbe", "livenessProbe", "readinessProbe")
    for kind, probe in itertools.product(kinds, PROBES):
        given = pod(annotations, containers=[{"name": "app", "image": "app", "ports": ports, kind: probe}])
        decision = decided(given)
        assert container(applied(given, decision), "app")[kind] == probe
        deceived = mode == "redirect" and inbound and ({"tcpSocket", "grpc"} & probe.keys())
        assert any(kind in warning for warning in decision.warnings) == bool(deceived)
