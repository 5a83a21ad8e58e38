"""AdmissionReviews: what is read from them, and the answers that the API server gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.kube import names
from proxy.kube.injection import explain, review
from proxy.kube.injection.decision import Decision, Operation, Reason, Surroundings, Verdict
from proxy.kube.injection.review import BadReview, ReviewRequest
from proxy.kube.settings import Settings

POD = {"metadata": {"generateName": "a-"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
LABELLED = Surroundings("agents", {names.INJECT: names.ENABLED})


def asked(**request: Any) -> dict[str, Any]:
    """A review, as the API server sends it for a pod of a Deployment."""
    whole = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "agents",
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": POD,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole | request}


def read(**request: Any) -> ReviewRequest:
    """What is read from a review."""
    found = review.read(json.dumps(asked(**request)).encode())
    assert isinstance(found, ReviewRequest)
    return found


def test_what_is_read() -> None:
    """The namespace is the request's: the pod of a Deployment has none of its own, nor a name."""
    uid = "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert read() == ReviewRequest(uid, "CREATE", "Pod", "agents", "", POD, dry_run=False)
    assert read(dryRun=True).dry_run
    assert read(namespace=None, object={"metadata": {"namespace": "own"}}).namespace == "own"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 5_000, "not JSON"),
        (b"[]", "no AdmissionReview"),
        (b'"AdmissionReview"', "no AdmissionReview"),
        (b'{"kind": "Pod"}', "no AdmissionReview"),
        (b'{"kind": "AdmissionReview"}', "admissionReviewVersions: [v1]"),
        (
            b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}',
            "admissionReviewVersions: [v1]",
        ),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "no request"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {}}', "no uid"),
        (
            b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": 7}}',
            "no uid",
        ),
    ],
)
def test_what_is_no_review(body: bytes, said: str) -> None:
    """There is no uid to answer to, so it is an HTTP error, and says what is wrong."""
    found = review.read(body)
    assert isinstance(found, BadReview)
    assert found.status == 400
    assert said in found.message


@pytest.mark.parametrize(
    ("request_", "reason", "warned"),
    [
        ({"kind": {"kind": "Deployment"}}, Reason.NOT_A_POD, True),
        ({"kind": None}, Reason.NOT_A_POD, True),
        ({"subResource": "ephemeralcontainers", "operation": "UPDATE"}, Reason.NOT_A_POD, True),
        ({"operation": "DELETE", "object": None, "oldObject": POD}, Reason.NOT_A_CREATION, False),
        ({"operation": "UPDATE"}, Reason.NOT_A_CREATION, False),
        ({"object": None}, Reason.NOT_A_POD, False),
        ({"object": {"spec": {"containers": "app"}}}, Reason.NOT_A_POD, False),
    ],
)
def test_reviews_of_something_else_are_let_through(
    request_: dict[str, Any], reason: Reason, warned: bool
) -> None:
    """Whether to refuse it is the API server's business; a webhook that is sent the wrong things says so."""
    found = read(**request_)
    decision = review.judge(found, LABELLED, Settings())
    response = review.answer(found.uid, decision)["response"]
    assert (decision.verdict, decision.reason) == (Verdict.SKIPPED, reason)
    assert response["allowed"] is True
    assert "patch" not in response
    assert bool(response.get("warnings")) is warned


def test_the_answer_to_a_pod_that_is_injected() -> None:
    """Its form is the API's; what was decided is in the audit log too."""
    whole = review.answer("u", review.judge(read(), LABELLED, Settings()))
    assert (whole["apiVersion"], whole["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = whole["response"]
    assert response.keys() == {"uid", "allowed", "patchType", "patch", "auditAnnotations"}
    assert response["auditAnnotations"] == {"verdict": "injected", "reason": "Injected"}


@pytest.mark.parametrize("reason", [each for each in Reason if each in review.STATUS])
def test_the_answer_to_a_pod_that_is_refused(reason: Reason) -> None:
    """A status with code, reason and a message that begins with whose it is."""
    response = review.answer("u", Decision(Verdict.REFUSED, reason, "It cannot be. Do this."))["response"]
    assert response["allowed"] is False
    code, name = review.STATUS[reason]
    message = f"waterclock: {reason}: It cannot be. Do this."
    assert response["status"] == {"status": "Failure", "code": code, "reason": name, "message": message}


def test_every_refusal_has_a_status() -> None:
    """A reason without one would be a 403 by accident."""
    from proxy.kube.injection.rule import REFUSED

    assert {reason for reason, _ in REFUSED} == set(review.STATUS)


def test_warnings_are_as_long_as_the_api_server_passes_on() -> None:
    """At most 256 characters each and 4096 bytes in all; what does not fit is counted; nothing in them speaks to a terminal."""
    warnings = ("\x1b[31mred\n", "x" * 1000, *("水" * 200 for _ in range(20)))
    decision = Decision(Verdict.INJECTED, Reason.INJECTED, "", (Operation("add", "/a", 1),), warnings)
    said = review.answer("u", decision)["response"]["warnings"]
    assert said[0] == "waterclock: \\x1b[31mred\\n"
    assert max(map(len, said)) == 256
    assert sum(len(each.encode()) for each in said) <= 4096
    assert said[-1] == f"waterclock: and {22 - (len(said) - 1)} more"


def test_what_happens_in_a_pod_is_told_in_lines_and_in_json() -> None:
    """People read the first, programs the second; both say the same."""
    pod = {**POD, "metadata": {"annotations": {names.INBOUND_PORT: "8080"}}}
    decision = review.judge(read(object=pod), LABELLED, Settings())
    told = explain.as_object(decision)
    assert [told[name] for name in ("verdict", "reason")] == ["injected", "Injected"]
    lines = explain.as_text(decision).splitlines()
    assert lines[0] == "injected (Injected)"
    assert lines[1].strip() == decision.message
    assert lines[2].strip().startswith("warning: waterclock.dev/inbound-port: set the Service's targetPort")
    assert len(lines) == 2 + len(decision.warnings) + len(told["patch"])
    assert "  add /spec/initContainers: waterclock" in lines
