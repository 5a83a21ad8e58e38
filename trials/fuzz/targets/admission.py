"""AdmissionReviews: each has an answer that is a valid AdmissionReview, and a patch in it applies to the object."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn
from zlib import crc32

import jsonpatch

from proxy.kube.events import happening
from proxy.kube.injection.decision import Decision, Surroundings, Verdict
from proxy.kube.injection.explain import as_object, as_text
from proxy.kube.injection.patch import apply
from proxy.kube.injection.review import BadReview, ReviewRequest, answer, judge, read
from proxy.kube.settings import Settings, parse_settings
from proxy.kube.templates import pods_in
from trials.fuzz.target import Seen, Target, gist, hold

_LABELS: Final = {"waterclock.dev/inject": "enabled"}
_AROUND: Final = (
    Surroundings("default", _LABELS, {}),
    Surroundings("default", {}, {}),
    Surroundings("default", _LABELS | {"pod-security.kubernetes.io/enforce": "restricted"}, {}),
    Surroundings("default", _LABELS, {"waterclock.dev/policy": "other"}, native_sidecars=False),
)
_SETTINGS: Final = (
    Settings(),
    parse_settings("intercept: redirect\n"),
    parse_settings("oldClusters: refuse\n"),
)


def check(data: bytes) -> Seen:
    """Answer it, in a place that follows from its bytes."""
    review = read(data)
    if isinstance(review, BadReview):
        hold(400 <= review.status < 500 and review.message, "a-bad-review-is-told-why", review)
        return {f"bad: {gist(review.message)}"}
    drawn = crc32(data)
    around, settings = _AROUND[drawn % len(_AROUND)], _SETTINGS[drawn // 8 % len(_SETTINGS)]
    decision = judge(review, around, settings)
    said = json.dumps(answer(review.uid, decision))
    _valid(json.loads(said, parse_constant=_no_number), review)
    seen = {f"{decision.verdict} {decision.reason}", f"warnings {min(len(decision.warnings), 3)}"}
    if decision.patch:
        seen |= _applies(review, decision, json.loads(said), around, settings)
    happened = happening(review.object, review.namespace, review.name, decision)
    seen.add(
        f"event {happened.reason if happened else 'none'} {happened is not None and happened.kind == 'Pod'}"
    )
    json.dumps(as_object(decision))
    as_text(decision).encode("utf-8", "surrogatepass")
    if isinstance(review.object, Mapping):
        seen.add(f"pods {len(list(pods_in(review.object)))}")
    return seen


def _valid(said: Any, review: ReviewRequest) -> None:
    """Hold an answer against what the API server accepts (admission.k8s.io/v1)."""
    hold(
        (said["apiVersion"], said["kind"]) == ("admission.k8s.io/v1", "AdmissionReview"),
        "an-answer-is-a-review",
        said,
    )
    response = said["response"]
    known = {"uid", "allowed", "auditAnnotations", "status", "patchType", "patch", "warnings"}
    hold(response.keys() <= known, "an-answer-has-no-other-member", response.keys())
    hold(response["uid"] == review.uid, "an-answer-has-the-uid", response["uid"], review.uid)
    hold(isinstance(response["allowed"], bool), "allowed-is-a-bool", response["allowed"])
    hold(("patch" in response) == ("patchType" in response), "a-patch-has-a-type", response.keys())
    hold(response["allowed"] or "patch" not in response, "what-is-refused-is-not-patched")
    hold(response["allowed"] or response["status"]["code"] in (400, 403), "a-refusal-has-a-status", response)
    for name, value in response.get("auditAnnotations", {}).items():
        hold(isinstance(name, str) and isinstance(value, str), "audit-annotations-are-texts", name, value)
    warnings = response.get("warnings", [])
    hold(sum(len(each.encode()) for each in warnings) <= 4096, "warnings-are-short", warnings)
    hold(all(each.isprintable() for each in warnings), "warnings-can-be-shown", warnings)


def _applies(
    review: ReviewRequest, decision: Decision, said: Any, around: Surroundings, settings: Settings
) -> set[str]:
    """Apply the patch by somebody else's code, and look at the pod again: it is injected already."""
    patch = json.loads(base64.b64decode(said["response"]["patch"], validate=True), parse_constant=_no_number)
    after = jsonpatch.apply_patch(review.object, patch)
    hold(after == apply(decision.patch, review.object), "two-programs-apply-it-alike", patch)
    hold(decision.verdict is Verdict.INJECTED, "only-the-injected-are-patched", decision.verdict)
    again = judge(replace(review, object=after), around, settings)
    hold(not again.patch, "nobody-is-injected-twice", again.reason)
    return {f"operations {min(len(patch), 12)}"}


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


TARGET: Final = Target(
    "admission",
    "AdmissionReviews: the answer is a valid one with the same uid, a patch applies to the object, nothing raises",
    check,
    tokens=(
        b'"waterclock.dev/inject":"enabled"',
        b'"waterclock.dev/intercept":"redirect"',
        b'"waterclock.dev/inbound-port":"8080"',
        b'"waterclock.dev/exclude-outbound-ports":"25,9000-9100"',
        b'"waterclock.dev/exclude-outbound-cidrs":"10.0.0.0/8"',
        b'"waterclock.dev/observe":"true"',
        b'"waterclock.dev/policy":"x"',
        b'"waterclock.dev/status":"{}"',
        b'"name":"waterclock"',
        b'"annotations":',
        b'"ownerReferences":[{"controller":true}]',
        b'"generateName":"a-"',
        b'"metadata":',
        b'"spec":',
        b'"containers":[]',
        b'"initContainers":[{"name":"i","restartPolicy":"Always"}]',
        b'"env":[{"name":"HTTP_PROXY","value":"x"}]',
        b'"envFrom":[]',
        b'"ports":[{"containerPort":10801}]',
        b'"securityContext":{"runAsUser":2180}',
        b'"hostNetwork":true',
        b'"volumes":[]',
        b'"volumeMounts":null',
        b'"os":{"name":"windows"}',
        b'"livenessProbe":{"httpGet":{"port":10801}}',
        b'"subResource":"ephemeralcontainers"',
        b'"dryRun":true',
        b'"operation":"UPDATE"',
        b"null",
        b"{}",
        b"[]",
        b'""',
        b"0",
        b"-1",
        b"1e400",
        b"2180.0",
        b"true",
        b'"\\ud800"',
        b'"\\u0000"',
        b'"~1~0/"',
    ),
    largest=8192,
)
