"""The rule: what becomes of a pod. Two tables of small checks, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from proxy.config.faults import quoted
from proxy.kube import names
from proxy.kube.injection.decision import Decision, Object, Reason, Surroundings, Verdict
from proxy.kube.injection.patch import make_patch
from proxy.kube.injection.pod import NotAPod, Pod, read_pod, user_of
from proxy.kube.injection.policy_choice import choose_policy
from proxy.kube.injection.wishes import OWN_PORTS, Wishes, read_wishes
from proxy.kube.settings import Intercept, OldClusters, Settings

_MIRROR: Final = "kubernetes.io/config.mirror"
_ENFORCED: Final = "pod-security.kubernetes.io/enforce"
_NO_NET_ADMIN: Final = ("baseline", "restricted")  # Pod Security Standards: neither lets NET_ADMIN be added


@dataclass(frozen=True, slots=True)
class Case:
    """All that the rule looks at."""

    pod: Pod
    around: Surroundings
    settings: Settings
    wishes: Wishes

    @property
    def intercept(self) -> Intercept:
        """How the pod's calls reach the sidecar."""
        return self.wishes.intercept or self.settings.intercept


Check = Callable[[Case], str | None]
"""Says why it holds for this pod, in a sentence with the remedy; None when it does not hold."""


def decide(pod: Any, around: Surroundings, settings: Settings) -> Decision:
    """Return what becomes of a pod: any JSON value, since what is no pod is passed on as it is.

    The same arguments give the same decision, to the byte of its patch.
    """
    try:
        read = read_pod(pod)
    except NotAPod as error:
        message = f"This is no pod: {error}. It is passed on as it is; the API server will refuse it."
        return Decision(Verdict.SKIPPED, Reason.NOT_A_POD, message)
    case = Case(read, around, settings, read_wishes(read, around))
    for verdict, checks in ((Verdict.SKIPPED, SKIPPED), (Verdict.REFUSED, REFUSED)):
        for reason, check in checks:
            holds = check(case)
            if holds is not None:
                return Decision(verdict, reason, holds, warnings=_of_names(verdict, case.wishes))
    return _injected(case)


def _injected(case: Case) -> Decision:
    policy = choose_policy(case.pod, case.around, case.wishes)
    native = case.around.native_sidecars
    patch, of_containers = make_patch(case.pod, case.wishes, policy, case.settings, native=native)
    kind = "" if native else ", as an ordinary container, since this cluster has no native sidecars"
    message = (
        f"The sidecar was added{kind}. Calls reach it by {_WAYS[case.intercept]}; its policy is {policy}."
    )
    warnings = (*case.wishes.warnings, *of_containers, *_of_inbound(case))
    return Decision(Verdict.INJECTED, Reason.INJECTED, message, patch, warnings)


_WAYS: Final = {
    Intercept.ENVIRONMENT: "proxy variables",
    Intercept.REDIRECT: "redirection",
}


def _of_names(verdict: Verdict, wishes: Wishes) -> tuple[str, ...]:
    """Return the warnings of a pod that is not injected: a misspelt name may be why it is refused."""
    return wishes.warnings if verdict is Verdict.REFUSED else ()


# -- skipped ---------------------------------------------------------------------------------------------------------


def _not_requested(case: Case) -> str | None:
    if case.wishes.inject is not None:
        return None
    return f"Nothing asks for the sidecar. Label the namespace, or annotate the pod: {names.INJECT}: {names.ENABLED}."


def _excluded_namespace(case: Case) -> str | None:
    name = case.around.namespace
    if name not in (*case.settings.excluded_namespaces, case.settings.namespace):
        return None
    return f"The namespace {name} is never injected (excludedNamespaces, and the injector's own)."


def _opted_out(case: Case) -> str | None:
    return None if case.wishes.inject else f"{_sentence(case.wishes.said_by)} {names.INJECT} is disabled."


def _already_injected(case: Case) -> str | None:
    if any(container["name"] == names.SIDECAR for container in case.pod.all_containers):
        return f"The pod has a container named {names.SIDECAR} already."
    if names.STATUS in case.pod.annotations:
        return f"The pod's annotation {names.STATUS} says that it was injected. If it was not, take it out."
    return None


def _mirror_pod(case: Case) -> str | None:
    if _MIRROR not in case.pod.annotations:
        return None
    return "This mirrors a static pod, which the kubelet runs from a file. Add the sidecar in that file."


def _host_network(case: Case) -> str | None:
    if not case.pod.spec.get("hostNetwork"):
        return None
    return "The pod is on its node's network, where the sidecar would take the node's ports and calls. Set hostNetwork to false."


def _windows_pod(case: Case) -> str | None:
    if (case.pod.spec.get("os") or {}).get("name") != "windows":
        return None
    return "The pod runs on Windows, and the sidecar on Linux only."


def _job_would_not_end(case: Case) -> str | None:
    # Job controllers make no pods with Always, so this is every pod of a Job, and every other that is to end.
    ends = case.pod.spec.get("restartPolicy") in ("Never", "OnFailure")
    if case.around.native_sidecars or case.settings.old_clusters is OldClusters.REFUSE or not ends:
        return None
    return (
        "The pod is to end, and an ordinary sidecar container would keep it running. Native sidecars let it end: "
        "they need Kubernetes 1.29 or newer."
    )


SKIPPED: Final[Sequence[tuple[Reason, Check]]] = (
    (Reason.NOT_REQUESTED, _not_requested),
    (Reason.EXCLUDED_NAMESPACE, _excluded_namespace),
    (Reason.OPTED_OUT, _opted_out),
    (Reason.ALREADY_INJECTED, _already_injected),
    (Reason.MIRROR_POD, _mirror_pod),
    (Reason.HOST_NETWORK, _host_network),
    (Reason.WINDOWS_POD, _windows_pod),
    (Reason.JOB_WOULD_NOT_END, _job_would_not_end),
)
"""Why a pod is passed on as it is. All of it is asked before anything is refused: what is not injected is not judged."""


# -- refused ---------------------------------------------------------------------------------------------------------


def _bad_annotation(case: Case) -> str | None:
    return ". ".join(_sentence(fault) for fault in case.wishes.faults) + "." if case.wishes.faults else None


def _old_cluster(case: Case) -> str | None:
    if case.around.native_sidecars or case.settings.old_clusters is not OldClusters.REFUSE:
        return None
    return (
        "This cluster has no native sidecars (Kubernetes 1.29 or newer has them), and the injector is told to refuse "
        "pods there (oldClusters: refuse). Take the request out, or have oldClusters set to container."
    )


def _redirect_forbidden(case: Case) -> str | None:
    enforced = case.around.labels.get(_ENFORCED)
    if case.intercept is not Intercept.REDIRECT or enforced not in _NO_NET_ADMIN:
        return None
    return (
        f"Redirect mode needs NET_ADMIN in an init container, which this namespace forbids ({_ENFORCED}: {enforced}). "
        f"Annotate the pod with {names.INTERCEPT}: {Intercept.ENVIRONMENT}."
    )


def _user_id_clash(case: Case) -> str | None:
    taken = [place for place, part in _places(case.pod) if user_of(part) == names.USER_ID]
    if not taken:
        return None
    return (
        f"{_sentence(taken[0])} runs as user {names.USER_ID}, which is the sidecar's: calls of the two could not be "
        "told apart. Set runAsUser to another id."
    )


def _places(pod: Pod) -> Iterator[tuple[str, Object]]:
    """Yield what may state a user id, and its name in a sentence."""
    if any(user_of(container) is None for container in pod.all_containers):
        yield "the pod", pod.spec
    for container in pod.all_containers:
        yield f"container {quoted(container['name'])}", container


def _name_clash(case: Case) -> str | None:
    ours = (names.POLICY_VOLUME, names.JOURNAL_VOLUME)
    volume = next((each["name"] for each in case.pod.volumes if each["name"] in ours), None)
    if volume is not None:
        return f"The pod has a volume named {volume}, as one of the sidecar's is. Give it another name."
    if any(container["name"] == names.REDIRECT for container in case.pod.all_containers):
        return f"The pod has a container named {names.REDIRECT}, as one of ours is. Give it another name."
    return None


def _port_clash(case: Case) -> str | None:
    for container in case.pod.all_containers:
        for port in container.get("ports") or ():
            if port.get("containerPort") in OWN_PORTS and port.get("protocol", "TCP") == "TCP":
                return (
                    f"Container {quoted(container['name'])} listens on port {port['containerPort']}; the sidecar takes "
                    f"{OWN_PORTS[0]} to {OWN_PORTS[-1]} in the pod. Let it listen on another port."
                )
    return None


REFUSED: Final[Sequence[tuple[Reason, Check]]] = (
    (Reason.BAD_ANNOTATION, _bad_annotation),
    (Reason.OLD_CLUSTER, _old_cluster),
    (Reason.REDIRECT_FORBIDDEN, _redirect_forbidden),
    (Reason.USER_ID_CLASH, _user_id_clash),
    (Reason.NAME_CLASH, _name_clash),
    (Reason.PORT_CLASH, _port_clash),
)
"""Why a pod may not be created as it is: with the sidecar it would not work, or not do what was asked for."""


# -- warnings --------------------------------------------------------------------------------------------------------


def _of_inbound(case: Case) -> Iterator[str]:
    """Yield what the author of a pod with an inbound port should know."""
    port = case.wishes.inbound_port
    if port is None:
        return
    if case.intercept is Intercept.ENVIRONMENT:
        yield f"{names.INBOUND_PORT}: set the Service's targetPort to {names.INBOUND_PORT_NUMBER}, or calls to it go past the sidecar"
        return
    for container in case.pod.all_containers:
        named = {each.get("name"): each.get("containerPort") for each in container.get("ports") or ()}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            for kind in ("tcpSocket", "grpc"):
                asked = ((container.get(probe) or {}).get(kind) or {}).get("port")
                if asked is not None and port in (
                    asked,
                    named.get(asked) if isinstance(asked, str) else None,
                ):
                    yield f"container {container['name']}: {probe} by {kind} on port {port} is answered by the sidecar; use httpGet"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
