"""Pods as nobody would write them: any JSON value in any place. Nothing raises, and every answer is a sound one."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from proxy.kube import names
from proxy.kube.injection import explain, review
from proxy.kube.injection.decision import BudgetPolicyRef, Reason, Surroundings, Verdict
from proxy.kube.injection.patch import apply
from proxy.kube.injection.rule import decide
from proxy.kube.settings import Intercept, OldClusters, Settings
from tests.kube.injection.pods import GIVEN, INJECTED, applied, containers_of

LABELS = {names.INJECT: names.ENABLED}
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            *(
                names.ENABLED,
                names.DISABLED,
                "redirect",
                "true",
                "8080",
                "30s",
                "25,9000-9100",
                "10.0.0.0/8",
                "*",
                "",
            ),
            *(
                names.SIDECAR,
                names.POLICY_VOLUME,
                "NO_PROXY",
                "http_proxy",
                "http://127.0.0.1:10800",
                "windows",
                "\ud800",
            ),
        ]
    ),
)
KEYS = st.one_of(
    TEXTS,
    st.sampled_from([names.INJECT, names.INTERCEPT, names.INBOUND_PORT, names.POLICY, names.EXCLUDE_CIDRS]),
    st.sampled_from(
        ["name", "value", "valueFrom", "env", "ports", "containerPort", "securityContext", "runAsUser"]
    ),
)
NUMBERS = st.sampled_from([0, -1, 2180, 10801, 2180.0, 10**400, True, False])
ANYTHING = st.recursive(
    st.one_of(st.none(), NUMBERS, st.floats(), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value."""
    found = [path]
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in below:
        found += places(inner, (*path, step))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A value with something else in one place."""
    if not path:
        return new
    whole = copy.copy(value)
    whole[path[0]] = put(value[path[0]], path[1:], new)
    return whole


@st.composite
def pods(draw: st.DrawFn) -> Any:
    """One of the golden pods, with a few places that hold something else."""
    pod: Any = draw(st.sampled_from(GIVEN)).pod
    for _ in range(draw(st.integers(1, 3))):
        pod = put(pod, draw(st.sampled_from(places(pod))), draw(ANYTHING))
    return pod


@st.composite
def odd_pods(draw: st.DrawFn) -> Any:
    """One of the golden pods that are injected, with fields that nobody knows, null lists, and odd variables and names."""
    pod: Any = draw(st.sampled_from(INJECTED)).pod
    for place in draw(st.lists(st.sampled_from(places(pod)), min_size=1, max_size=4)):
        there = at(pod, place)
        if isinstance(there, dict) and not {"annotations", "labels"} & set(place):
            pod = put(pod, place, {**there, f"x{draw(st.text(max_size=5))}": draw(ANYTHING)})
        elif isinstance(there, list) and place[-1] not in ("containers", "command"):
            pod = put(pod, place, draw(st.none() | st.just([])))
        elif isinstance(there, str) and place[-1] in ("value", "image"):
            pod = put(pod, place, draw(TEXTS))
    for index, container in enumerate(pod["spec"]["containers"]):
        env = container.get("env") or []
        more = draw(st.lists(VARIABLES, max_size=4))
        pod = put(pod, ("spec", "containers", index), {**container, "env": env + more})
    return pod


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """What stands in a place; None where changes before have taken it away."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


VARIABLES = st.builds(
    lambda name, rest: {"name": name, **rest},
    st.sampled_from(
        ["HTTP_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY", "a/b~c"]
    ),
    st.one_of(
        st.builds(dict),
        TEXTS.map(lambda text: {"value": text}),
        st.just({"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
        st.just({"value": None, "valueFrom": None}),
    ),
)
SELECTORS = st.none() | st.dictionaries(st.sampled_from(["matchLabels", "matchExpressions"]), ANYTHING)
POLICIES = st.lists(st.builds(BudgetPolicyRef, TEXTS, SELECTORS, TEXTS), max_size=3)
AROUND = st.builds(
    Surroundings,
    namespace=TEXTS,
    labels=st.dictionaries(KEYS, TEXTS, max_size=3).map(lambda said: LABELS | said),
    annotations=st.dictionaries(KEYS, TEXTS, max_size=3),
    policies=POLICIES,
    native_sidecars=st.booleans(),
)
SETTINGS = st.builds(
    Settings,
    intercept=st.sampled_from(Intercept),
    old_clusters=st.sampled_from(OldClusters),
)


@given(pod=pods() | ANYTHING, around=AROUND, settings=SETTINGS)
@example(pod=None, around=Surroundings("a"), settings=Settings())
@example(pod={"spec": {"containers": []}}, around=Surroundings("a"), settings=Settings())
@example(pod={"spec": {"containers": [{"name": "a"}]}}, around=Surroundings("a", LABELS), settings=Settings())
def test_no_pod_is_too_strange(pod: Any, around: Surroundings, settings: Settings) -> None:
    """A decision, an answer and an explanation for all of them."""
    decision = decide(pod, around, settings)
    json.dumps(review.answer("u", decision))
    assert explain.as_text(decision)
    assert bool(decision.patch) == (decision.verdict is Verdict.INJECTED)


@given(pod=odd_pods(), native=st.booleans(), intercept=st.sampled_from(Intercept), policies=POLICIES)
def test_what_is_odd_is_injected_all_the_same(
    pod: Any, native: bool, intercept: Intercept, policies: list[BudgetPolicyRef]
) -> None:
    """Two programs apply the patch alike, the app's containers keep their order and fields, and once is enough."""
    around = Surroundings("agents", LABELS, policies=policies, native_sidecars=native)
    settings = Settings(intercept=intercept)
    decision = decide(pod, around, settings)
    assume(decision.reason != Reason.JOB_WOULD_NOT_END)
    assert decision.verdict is Verdict.INJECTED, decision.message
    injected = applied(pod, decision)
    assert repr(apply(decision.patch, pod)) == repr(injected)
    assert decide(injected, around, settings).reason == Reason.ALREADY_INJECTED
    own = {each["name"]: each for each in containers_of(pod)}
    after = [each for each in containers_of(injected) if each["name"] in own]
    assert [each["name"] for each in after] == [*own]
    for each in after:
        assert repr({**each, "env": 0}) == repr({**own[each["name"]], "env": 0})
    assert repr(decide(pod, around, settings)) == repr(decision)


@given(
    body=st.binary(max_size=60)
    | ANYTHING.map(json.dumps)
    | st.builds(
        lambda request: json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        ),
        st.fixed_dictionaries(
            {"uid": st.sampled_from(["u", "", 3])},
            optional={
                "operation": st.sampled_from(["CREATE", "UPDATE", "DELETE", None, {}]),
                "kind": st.sampled_from([{"kind": "Pod"}, {"kind": "Deployment"}, {"kind": 1}, "Pod", None]),
                "subResource": st.sampled_from(["", "ephemeralcontainers", 4]),
                "namespace": ANYTHING,
                "name": ANYTHING,
                "object": ANYTHING | pods(),
                "dryRun": ANYTHING,
            },
        ),
    )
)
def test_no_review_is_too_strange(body: Any) -> None:
    """Bytes of any kind: an HTTP error, or an answer to the uid that was in it."""
    asked = review.read(body)
    if isinstance(asked, review.BadReview):
        assert asked.status == 400
        assert asked.message
        return
    decision = review.judge(asked, Surroundings(asked.namespace, LABELS), Settings())
    response = review.answer(asked.uid, decision)["response"]
    assert response["uid"] == asked.uid
    assert sum(len(each.encode()) for each in response.get("warnings", [])) <= 4096
