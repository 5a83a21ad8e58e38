"""Which pods the API server asks about, and what it does when nobody answers."""

from __future__ import annotations

from typing import Any

import helm_python
import pytest

from proxy.kube import names
from tests.chart.rendering import Object, Render, Values

SYSTEM = {"kube-system", "kube-public", "kube-node-lease"}
NAME = "kubernetes.io/metadata.name"


def webhooks(render: Render, values: Values | None = None, namespace: str = "platform") -> list[Object]:
    """Return the webhook for labelled namespaces, and the one for pods of all others."""
    objects = render(values, namespace=namespace)
    [found] = [one for one in objects if one["kind"] == "MutatingWebhookConfiguration"]
    labelled, others = found["webhooks"]
    assert (labelled["name"], others["name"]) == ("namespace.waterclock.dev", "pod.waterclock.dev")
    return [labelled, others]


def expressions(webhook: Object) -> dict[str, dict[str, Any]]:
    """Return what a webhook asks of a namespace's labels."""
    return {one["key"]: one for one in webhook["namespaceSelector"]["matchExpressions"]}


def test_the_cluster_and_the_injector_are_left_alone(render: Render) -> None:
    """However they are labelled: nothing of them may wait for an injector."""
    for webhook in webhooks(render):
        excluded = expressions(webhook)[NAME]
        assert excluded["operator"] == "NotIn"
        assert set(excluded["values"]) == SYSTEM | {"platform"}


def test_further_namespaces_can_be_excluded(render: Render) -> None:
    """Naming one that is excluded anyway is no mistake."""
    for webhook in webhooks(render, {"excludedNamespaces": ["kube-system", "vault"]}):
        assert sorted(expressions(webhook)[NAME]["values"]) == sorted([*SYSTEM, "platform", "vault"])


def test_no_pod_is_asked_about_twice(render: Render) -> None:
    """A namespace is labelled or it is not."""
    labelled, others = (expressions(webhook)[names.INJECT] for webhook in webhooks(render))
    assert labelled["values"] == others["values"] == [names.ENABLED]
    assert (labelled["operator"], others["operator"]) == ("In", "NotIn")


def test_elsewhere_a_pod_has_to_ask(render: Render) -> None:
    """Pods of namespaces that nobody has labelled cost nothing."""
    labelled, others = webhooks(render)
    assert [one["name"] for one in labelled["matchConditions"]] == ["not-an-injector"]
    assert [one["name"] for one in others["matchConditions"]] == ["not-an-injector", "asks-for-it"]


def test_an_injector_is_known_by_its_labels(render: Render) -> None:
    """What the condition looks for is what the pods of the Deployment have."""
    labels = render.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    [condition, *_] = webhooks(render)[0]["matchConditions"]
    for name in ("app.kubernetes.io/name", "app.kubernetes.io/component"):
        assert f"labels['{name}'] == '{labels[name]}'" in condition["expression"]


def test_it_is_asked_as_promised(render: Render) -> None:
    """Only when a pod is created, for a few seconds, and again when somebody else has changed the pod after it."""
    for webhook in webhooks(render):
        assert webhook["rules"] == [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ]
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["timeoutSeconds"] <= 5
        assert webhook["reinvocationPolicy"] == "IfNeeded"
        assert webhook["sideEffects"] == "None"
        assert webhook["admissionReviewVersions"] == ["v1"]


def test_the_service_leads_to_the_pods(render: Render) -> None:
    """From the webhook to the port on which the process listens."""
    service, deployment = render.one("Service"), render.one("Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"webhook": 8443, "metrics": 8080}
    for webhook in webhooks(render, namespace="waterclock-system"):
        said = webhook["clientConfig"]["service"]
        assert (said["name"], said["namespace"]) == (
            service["metadata"]["name"],
            service["metadata"]["namespace"],
        )
        assert said["path"] == "/mutate"
        [port] = [port for port in service["spec"]["ports"] if port["port"] == said["port"]]
        assert port["targetPort"] == "webhook"
    template = deployment["spec"]["template"]["metadata"]
    assert service["spec"]["selector"].items() <= template["labels"].items()


def test_fail_is_said_of_both(render: Render) -> None:
    """A platform may rather have no pod than one without a sidecar."""
    for webhook in webhooks(render, {"injector": {"failurePolicy": "Fail"}}):
        assert webhook["failurePolicy"] == "Fail"


def test_it_may_not_take_longer(render: Render) -> None:
    """A pod waits five seconds at most."""
    with pytest.raises(helm_python.HelmValuesError, match="timeoutSeconds"):
        render({"injector": {"timeoutSeconds": 6}})
