"""AdmissionReviews (`admission.k8s.io/v1`): what the API server asks, read from bytes, and what it is answered.

Whatever arrives has an answer. What is no AdmissionReview at all is an HTTP error; a review of something that is no pod
is let through with a warning, since it is for the webhook's configuration to say what is sent here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxy.config.faults import quoted, visible
from proxy.kube.injection.decision import Decision, Reason, Surroundings, Verdict
from proxy.kube.injection.patch import as_json
from proxy.kube.injection.rule import decide
from proxy.kube.settings import Settings

_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"

# Kubernetes API reference, AdmissionResponse.warnings: longer ones, and more of them, may be cut by the API server.
_WARNING: Final = 256
_WARNINGS: Final = 4096


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """What the API server asks. `namespace` is the request's; the pod's own may be empty, as its `name` may be.

    `kind` is the object's, with its subresource after a slash. `object` is any JSON value. `dry_run`: nothing is stored,
    so nothing may be written for it either.
    """

    uid: str
    operation: str
    kind: str
    namespace: str
    name: str
    object: Any
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class BadReview:
    """What is no AdmissionReview: to be answered with this HTTP status and message, since there is no uid to answer to."""

    message: str
    status: int = 400


def read(body: bytes | bytearray | str | Mapping[str, Any]) -> ReviewRequest | BadReview:
    """Return what a body asks. It is JSON as it arrived, or has been read already."""
    if not isinstance(body, Mapping):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError) as error:
            return BadReview(f"the body is not JSON: {visible(str(error), 200)}")
    if not isinstance(body, Mapping) or body.get("kind") != _KIND:
        return BadReview(f"the body is no {_KIND}")
    if body.get("apiVersion") != _API_VERSION:
        problem = f"the review is in apiVersion {quoted(str(body.get('apiVersion')))}"
        return BadReview(f"{problem}; register the webhook with admissionReviewVersions: [v1]")
    request = body.get("request")
    if not isinstance(request, Mapping):
        return BadReview(f"the {_KIND} has no request")
    uid = _text(request, "uid")
    if not uid:
        return BadReview("the request has no uid")
    kind = _text(_mapping(request, "kind"), "kind")
    below = _text(request, "subResource")
    asked = _mapping(request, "object")
    return ReviewRequest(
        uid=uid,
        operation=_text(request, "operation"),
        kind=f"{kind}/{below}" if below else kind,
        namespace=_text(request, "namespace") or _text(_mapping(asked, "metadata"), "namespace"),
        name=_text(request, "name"),
        object=request.get("object"),
        dry_run=request.get("dryRun") is True,
    )


def judge(request: ReviewRequest, around: Surroundings, settings: Settings) -> Decision:
    """Return what becomes of what a review is about."""
    if request.kind != "Pod":
        message = f"Reviews of {quoted(request.kind)} are not for the injector; the webhook's rules should name pods."
        return Decision(Verdict.SKIPPED, Reason.NOT_A_POD, message, warnings=(message,))
    if request.operation != "CREATE":
        message = f"Pods are injected when they are created, not on {quoted(request.operation)}."
        return Decision(Verdict.SKIPPED, Reason.NOT_A_CREATION, message)
    return decide(request.object, around, settings)


def answer(uid: str, decision: Decision) -> dict[str, Any]:
    """Return the AdmissionReview that answers: allowed unless the pod is refused, with the patch where there is one."""
    response: dict[str, Any] = {
        "uid": uid,
        "allowed": decision.verdict is not Verdict.REFUSED,
    }
    if decision.reason is not Reason.ALREADY_INJECTED:
        # Asked once more about its own work (reinvocationPolicy), it may not overwrite what it said the first time.
        response["auditAnnotations"] = {"verdict": str(decision.verdict), "reason": decision.reason}
    if decision.verdict is Verdict.REFUSED:
        code, reason = STATUS.get(decision.reason, _FORBIDDEN)
        message = f"waterclock: {decision.reason}: {decision.message}"
        response["status"] = {"status": "Failure", "code": code, "reason": reason, "message": message}
    if decision.patch:
        patch = json.dumps(as_json(decision.patch), separators=(",", ":")).encode()
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
    if decision.warnings:
        response["warnings"] = _bounded(decision.warnings)
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": response}


_FORBIDDEN: Final = (403, "Forbidden")
_BAD_REQUEST: Final = (400, "BadRequest")
STATUS: Final[Mapping[str, tuple[int, str]]] = {
    Reason.BAD_ANNOTATION: _BAD_REQUEST,
    Reason.USER_ID_CLASH: _BAD_REQUEST,
    Reason.NAME_CLASH: _BAD_REQUEST,
    Reason.PORT_CLASH: _BAD_REQUEST,
    Reason.REDIRECT_FORBIDDEN: _FORBIDDEN,
    Reason.OLD_CLUSTER: _FORBIDDEN,
}
"""The status of a refusal: 400 where the pod can be put right as it is, 403 where this place does not allow it."""


def _bounded(warnings: Sequence[str]) -> list[str]:
    """Return as many of the warnings as the API server passes on, each of a length that it does not cut."""
    kept: list[str] = []
    room = _WARNINGS
    for index, warning in enumerate(warnings):
        text = visible(f"waterclock: {warning}", _WARNING - 1)
        rest = f"waterclock: and {len(warnings) - index} more"
        if len(text.encode()) + len(rest) > room:
            return [*kept, rest]
        kept.append(text)
        room -= len(text.encode())
    return kept


def _text(of: Mapping[str, Any], name: str) -> str:
    value = of.get(name)
    return value if isinstance(value, str) else ""


def _mapping(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}
