"""The real `Cluster`: the official client's connection, credentials and TLS, and JSON as it comes.

Its generated models stay unused: they would cost every object three times its memory, and know no BudgetPolicy. This
is the one place where foreign errors become ours.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from proxy import __version__
from proxy.kube.cluster import Change, ClusterError, Conflict, Gone, NotFound, Object, Resource
from proxy.kube.names import MANAGER

_JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_PAGE: Final = 500
_REQUEST: Final = aiohttp.ClientTimeout(total=15, sock_connect=5)
_WATCH_SECONDS: Final = (240, 360)
"""How long a watch may last before the server ends it, by chance between these, so that not all end together."""
_SILENCE: Final = 100.0
"""Seconds without a word after which a watch's connection counts as lost. The server sends a bookmark each minute."""


async def connect(kubeconfig: Path | None = None) -> KubernetesCluster:
    """Return a cluster as a kubeconfig describes it, or, without one, as a pod finds it. Raises ClusterError."""
    configuration = Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)
        else:
            await config.load_kube_config(
                str(kubeconfig), client_configuration=configuration, persist_config=False
            )
        # Whatever proxy variables this process has are for calls that leave the cluster.
        configuration.client_session_kwargs = {"trust_env": False}
        return KubernetesCluster(configuration)
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, AttributeError) as error:
        where = str(kubeconfig) if kubeconfig is not None else "in the pod"
        remedy = (
            "name another file with --kubeconfig"
            if kubeconfig is not None
            else "run it in a pod with a service account, or give it --kubeconfig FILE"
        )
        raise ClusterError(
            f"the way to the API server is not described {where}: {error}; {remedy}"
        ) from error


class KubernetesCluster:
    """Implements `Cluster`. Close it when it is no longer used."""

    def __init__(self, configuration: Configuration) -> None:
        """Take where the API server is and who asks. Opens no connection yet; a running loop is needed."""
        self._client = ApiClient(configuration)
        self._host: str = configuration.host

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    # -- Cluster ---------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return one object. Raises NotFound."""
        return await self._ask("get", "GET", resource, namespace, name)

    async def list(
        self, resource: Resource, namespace: str = "", *, fields: str = "", labels: str = ""
    ) -> Object:
        """Return a list object with all items, fetched in pages. Without a namespace, of all of them."""
        query = _selection(fields, labels) | {"limit": str(_PAGE)}
        whole = await self._ask("list", "GET", resource, namespace, query=query)
        page = whole
        while page["metadata"].get("continue"):
            query["continue"] = page["metadata"]["continue"]
            page = await self._ask("list", "GET", resource, namespace, query=query)
            whole["items"] += page["items"]
        return whole

    async def watch(
        self, resource: Resource, version: str, namespace: str = "", *, fields: str = "", labels: str = ""
    ) -> AsyncIterator[Change]:
        """Yield what changes after a resourceVersion, until the server ends the watch. Raises Gone."""
        lasts = random.randint(*_WATCH_SECONDS)
        query = _selection(fields, labels) | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(lasts),
        }
        call = _Call("watch", resource, namespace)
        timeout = aiohttp.ClientTimeout(total=lasts + 15, sock_connect=5, sock_read=_SILENCE)
        with call.translated():
            response = await self._send(call, "GET", query=query, timeout=timeout)
            try:
                while line := await response.content.readline():
                    yield call.change(json.loads(line))
            finally:
                response.close()

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Object:
        """Create an object. Raises Conflict when it is there."""
        return await self._ask("create", "POST", resource, namespace, body=body)

    async def replace(
        self, resource: Resource, body: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Put an object in the place of the one it was read as. Raises Conflict, NotFound."""
        name = body["metadata"]["name"]
        return await self._ask("update", "PUT", resource, namespace, name, subresource, body=body)

    async def patch(
        self, resource: Resource, name: str, body: Mapping[str, Any] | Sequence[Any], namespace: str = ""
    ) -> Object:
        """Change an object: a sequence is a JSON patch (RFC 6902), a mapping a merge patch (RFC 7396). Raises NotFound."""
        kind = _MERGE_PATCH if isinstance(body, Mapping) else _JSON_PATCH
        body = body if isinstance(body, Mapping) else list(body)
        return await self._ask("patch", "PATCH", resource, namespace, name, body=body, content_type=kind)

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete an object. Raises NotFound."""
        _ = await self._ask("delete", "DELETE", resource, namespace, name)

    async def version(self) -> tuple[int, int]:
        """Return the server's major and minor version."""
        said = await self._ask("get", "GET", _VERSION)
        # A distribution may write `34+`.
        minor = "".join(each for each in said["minor"] if each.isdigit())
        return int(said["major"]), int(minor)

    # -- requests --------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        verb: str,
        method: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = _JSON,
    ) -> Object:
        call = _Call(verb, resource, namespace, name, subresource)
        query = query if body is None else {"fieldManager": MANAGER}
        with call.translated():
            response = await self._send(
                call, method, query=query, body=body, content_type=content_type, timeout=_REQUEST
            )
            answer: Object = json.loads(await response.read())
            return answer

    async def _send(
        self,
        call: _Call,
        method: str,
        *,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the client's own, of several parts
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = _JSON,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer's head. Raises what `translated` knows."""
        headers = {
            "Accept": _JSON,
            "Content-Type": content_type,
            "User-Agent": f"waterclock-injector/{__version__}",
        }
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], "", method, None)
        url = self._host + call.path + (f"?{urlencode(query)}" if query else "")
        answer = await self._client.call_api(method, url, headers, body, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        if response.status >= 400:
            raise call.refused(response.status, await response.read())
        return response


_VERSION: Final = Resource("", "", "version", "Version", namespaced=False)


def _selection(fields: str, labels: str) -> dict[str, str]:
    chosen = {"fieldSelector": fields, "labelSelector": labels}
    return {name: value for name, value in chosen.items() if value}


class _Call:
    """What is asked of the API server, for its path and for the sentence when it fails."""

    def __init__(
        self, verb: str, resource: Resource, namespace: str, name: str = "", subresource: str = ""
    ) -> None:
        self._verb = verb
        self._resource = resource
        self._namespace = namespace
        self._name = name
        self._subresource = subresource

    @property
    def path(self) -> str:
        """The path of the URL (Kubernetes API concepts, "Resource URIs")."""
        resource = self._resource
        if resource == _VERSION:
            return "/version"
        parts = ["apis", resource.group] if resource.group else ["api"]
        parts.append(resource.version)
        parts += ["namespaces", self._namespace] if self._namespace else []
        parts += [resource.plural, self._name, self._subresource]
        return "".join(f"/{quote(part, safe='')}" for part in parts if part)

    def translated(self) -> _Translated:
        """Return a context in which the client's errors become ours."""
        return _Translated(self)

    def failed(self, error: Exception) -> ClusterError:
        """Return what to raise when there was no answer to understand."""
        if isinstance(error, TimeoutError):
            problem = "the API server did not answer in time"
        elif isinstance(error, aiohttp.ClientError | OSError):
            problem = f"the API server could not be reached: {str(error) or type(error).__name__}"
        elif isinstance(error, config.ConfigException):
            problem = f"the service account's token could not be read: {error}"
        else:
            problem = f"the API server's answer could not be read: {error}"
        return ClusterError(f"{self}: {problem}")

    def refused(self, status: int, body: bytes) -> ClusterError:
        """Return what to raise for an answer of 400 or more; its body is a Status where the API server made it."""
        try:
            said = str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            said = body[:200].decode(errors="replace")
        sentence = f"{self}: {said.strip() or 'no reason given'} (HTTP {status})"
        if status == 403:
            scope = f" in namespace {self._namespace}" if self._namespace else ""
            plural = self._resource.plural + (f"/{self._subresource}" if self._subresource else "")
            group = f" of {self._resource.group}" if self._resource.group else ""
            sentence += (
                f"; let the injector's role {self._verb} {plural}{group}{scope} (the chart's RBAC does), "
                "or wait if the namespace is being deleted"
            )
        elif status == 401:
            sentence += "; the token or client certificate is not accepted (any more): renew the credentials"
        elif status == 404 and not self._name and not self._namespace:
            sentence += "; the cluster does not know this kind: install the chart, which defines it"
        return _KINDS.get(status, ClusterError)(sentence)

    def change(self, line: Object) -> Change:
        """Return what one line of a watch says. Raises Gone, or ClusterError for another error in its place."""
        if line["type"] == "ERROR":
            status = line["object"]
            raise self.refused(int(status.get("code") or 500), json.dumps(status).encode())
        return Change(line["type"], line["object"])

    def __str__(self) -> str:
        """Name it as a person would: `get ConfigMap agents/waterclock-policy`."""
        place = "/".join(part for part in (self._namespace, self._name) if part)
        kind = self._resource.kind + (f" {self._subresource}" if self._subresource else "")
        return f"{self._verb} {kind} {place}".rstrip()


_KINDS: Final[Mapping[int, type[ClusterError]]] = {404: NotFound, 409: Conflict, 410: Gone}

_FOREIGN: Final = (
    aiohttp.ClientError,
    config.ConfigException,
    OSError,  # TimeoutError is one
    ValueError,  # no JSON, or a line longer than the client's buffer
    KeyError,
    TypeError,  # JSON of another shape than an API server's
)


class _Translated:
    """Around everything that is asked of the client."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _FOREIGN):
            raise self._call.failed(error) from error
