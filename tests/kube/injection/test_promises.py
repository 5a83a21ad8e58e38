"""What holds for every pod that is injected, whatever stands in it."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from proxy.kube.injection import review
from proxy.kube.injection.decision import Reason, Verdict
from proxy.kube.injection.patch import as_json
from proxy.kube.injection.rule import decide
from tests.kube.injection.pods import INJECTED, Given, Manifest, added, containers_of
from tests.kube.injection.restricted import broken_by, volume_is_allowed

each_pod = pytest.mark.parametrize("given", INJECTED, ids=[each.name for each in INJECTED])


def without_env(container: Manifest) -> Manifest:
    return {name: value for name, value in container.items() if name != "env"}


@each_pod
def test_its_own_output_again(given: Given) -> None:
    """The API server asks again when another webhook has changed the pod (reinvocationPolicy: IfNeeded)."""
    again = decide(given.injected(), given.around, given.settings)
    assert (again.verdict, again.reason, again.patch) == (Verdict.SKIPPED, Reason.ALREADY_INJECTED, ())


@each_pod
def test_the_apps_containers_stay_what_they_are(given: Given) -> None:
    """In their order, with every field but the variables: images, commands, probes, mounts."""
    own = {each["name"] for each in containers_of(given.pod)}
    for place in ("initContainers", "containers"):
        before = given.pod["spec"].get(place) or []
        after = [each for each in given.injected()["spec"].get(place, []) if each["name"] in own]
        assert [*map(without_env, after)] == [*map(without_env, before)]


@each_pod
def test_variables_are_only_added_or_lengthened(given: Given) -> None:
    """Those of the app keep their places, and their values but for a NO_PROXY that grows at its end."""
    after = {each["name"]: each for each in containers_of(given.injected())}
    for container in containers_of(given.pod):
        old, new = container.get("env") or [], after[container["name"]].get("env") or []
        for before, now in zip(old, new, strict=False):
            grown = {**before, "value": now.get("value")} if before["name"].upper() == "NO_PROXY" else before
            assert now == (grown if "valueFrom" not in before else before)
            assert now.get("value", "").startswith(before.get("value", ""))
        names = [each["name"] for each in new[len(old) :]]
        assert len(names) == len(set(names))
        assert not set(names) & {each["name"] for each in old}


@each_pod
def test_everything_else_of_the_pod_stays(given: Given) -> None:
    """Labels, the rest of the spec, the app's volumes and annotations: nothing is taken away."""
    after = given.injected()
    spec, spec_too = given.pod["spec"], after["spec"]
    for name in set(spec) - {"containers", "initContainers", "volumes"}:
        assert spec_too[name] == spec[name]
    own = spec.get("volumes") or []
    assert spec_too["volumes"][: len(own)] == own
    metadata, metadata_too = given.pod["metadata"], after["metadata"]
    for name in set(metadata) - {"annotations"}:
        assert metadata_too[name] == metadata[name]
    for name, value in (metadata.get("annotations") or {}).items():
        now = metadata_too["annotations"][name]
        assert now == (f"{value.replace(', ', ',')},waterclock-journal" if "safe-to-evict" in name else value)


@each_pod
def test_injected_containers_have_requests_and_limits(given: Given) -> None:
    """An autoscaler on CPU and a quota on limits count every container (dapr/dapr#2147, linkerd/linkerd2#2750)."""
    for container in added(given):
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]


@each_pod
def test_what_is_added_is_allowed_under_the_restricted_standard(given: Given) -> None:
    """The sidecar always, in both modes; the container that redirects breaks it by what it needs, and by nothing else."""
    for container in added(given):
        needed = ["capabilities.add", "runAsNonRoot", "runAsUser"]
        assert broken_by(container) == (needed if container["name"] == "waterclock-redirect" else [])
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    own = given.pod["spec"].get("volumes") or []
    assert all(map(volume_is_allowed, given.injected()["spec"]["volumes"][len(own) :]))


@each_pod
def test_the_input_is_not_changed_and_the_answer_is_the_same_each_time(given: Given) -> None:
    """The same arguments, the same bytes, and the pod that was given stays as it is."""
    pod = copy.deepcopy(given.pod)
    answers = [json.dumps(review.answer("u", given.decide())) for _ in range(2)]
    assert answers[0] == answers[1]
    assert given.pod == pod


@each_pod
def test_what_a_patch_adds_is_nobody_elses(given: Given) -> None:
    """A caller that changes what one decision holds does not change the next one's."""
    first: Any = [each.value for each in given.decide().patch if isinstance(each.value, dict)]
    text = json.dumps(as_json(given.decide().patch))
    for value in first:
        for inner in value.values():
            if isinstance(inner, dict):
                inner.clear()
        value.clear()
    assert json.dumps(as_json(given.decide().patch)) == text


@each_pod
def test_the_answer_carries_the_patch(given: Given) -> None:
    """As the API reference has it: allowed, a JSON patch in base64, and the uid of the request."""
    response = review.answer("some-uid", given.decide())["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("some-uid", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == as_json(given.decide().patch)
