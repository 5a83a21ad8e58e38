"""A `FakeCluster` over HTTP, as the API server speaks: for the real client, and for the injector as a process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from proxy.kube.cluster import (
    BUDGET_POLICIES,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    WEBHOOKS,
    ClusterError,
    Conflict,
    Gone,
    NotFound,
    Resource,
)
from tests.kube.fake_cluster import FakeCluster

_RESOURCES: Final = {
    (each.group, each.version, each.plural): each
    for each in (NAMESPACES, CONFIG_MAPS, SECRETS, EVENTS, LEASES, WEBHOOKS, BUDGET_POLICIES)
}
_STATUS: Final[Mapping[type[ClusterError], int]] = {NotFound: 404, Conflict: 409, Gone: 410}


class ApiServer:
    """`url` is where it is. `forbid` has (verb, plural) that are answered with 403, `seen` what was asked."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.url = ""
        self.page = 500
        self.forbid: set[tuple[str, str]] = set()
        self.garbage = False
        self.seen: list[tuple[str, str, dict[str, str], dict[str, str]]] = []

    def kubeconfig(self, folder: Path, token: str = "a-token") -> Path:
        """Write a kubeconfig that leads here, and return its path."""
        said = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(said))
        return path

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer whatever is asked."""
        self.seen.append((request.method, request.path, dict(request.query), dict(request.headers)))
        if self.garbage:
            return web.Response(text="<html>a load balancer speaks</html>", content_type="text/html")
        if request.path == "/version":
            major, minor = await self.cluster.version()
            return web.json_response({"major": str(major), "minor": f"{minor}+"})
        try:
            return await self._answer(request)
        except ClusterError as error:
            return _refused(_STATUS.get(type(error), 500), str(error))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        resource, namespace, name, subresource = _where(request.path)
        verb = _verb(request, name)
        if (verb, resource.plural) in self.forbid:
            said = f'{resource.plural} is forbidden: User "u" cannot {verb} resource "{resource.plural}"'
            return _refused(403, said)
        if verb == "watch":
            return await self._watch(request, resource, namespace)
        if verb == "list":
            return await self._list(request, resource, namespace)
        if verb == "get":
            return web.json_response(await self.cluster.get(resource, name, namespace))
        if verb == "delete":
            await self.cluster.delete(resource, name, namespace)
            return web.json_response({"kind": "Status", "status": "Success"})
        body = await request.json()
        if verb == "create":
            return web.json_response(await self.cluster.create(resource, body, namespace), status=201)
        if verb == "update":
            made = await self.cluster.replace(resource, body, namespace, subresource=subresource)
            return web.json_response(made)
        expected = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        assert request.content_type == expected
        return web.json_response(await self.cluster.patch(resource, name, body, namespace))

    async def _list(self, request: web.Request, resource: Resource, namespace: str) -> web.Response:
        """Answer a list in pages; the token of the next one is where it begins."""
        whole = await self.cluster.list(
            resource,
            namespace,
            fields=request.query.get("fieldSelector", ""),
            labels=request.query.get("labelSelector", ""),
        )
        first = int(request.query.get("continue", "0"))
        after = first + min(self.page, int(request.query["limit"]))
        if after < len(whole["items"]):
            whole["metadata"]["continue"] = str(after)
        whole["items"] = whole["items"][first:after]
        return web.json_response(whole)

    async def _watch(self, request: web.Request, resource: Resource, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        changes = self.cluster.watch(
            resource,
            request.query["resourceVersion"],
            namespace,
            fields=request.query.get("fieldSelector", ""),
            labels=request.query.get("labelSelector", ""),
        )
        try:
            async for change in changes:
                await response.write(_line({"type": change.type, "object": change.object}))
        except ClusterError as error:
            status = {"kind": "Status", "code": _STATUS.get(type(error), 500), "message": str(error)}
            await response.write(_line({"type": "ERROR", "object": status}))
        return response


@asynccontextmanager
async def serving(cluster: FakeCluster) -> AsyncIterator[ApiServer]:
    """Serve a cluster on a free port of 127.0.0.1, meanwhile."""
    server = ApiServer(cluster)
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        cluster.end_watches()
        await asyncio.sleep(0)
        await runner.cleanup()


def _where(path: str) -> tuple[Resource, str, str, str]:
    """Return what a path names: resource, namespace, name and subresource."""
    parts = path.strip("/").split("/")
    group, version, *rest = ["", *parts[1:]] if parts[0] == "api" else parts[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    found = _RESOURCES.get((group, version, plural))
    if found is None:
        raise NotFound("the server could not find the requested resource")
    return found, namespace, name, subresource


def _verb(request: web.Request, name: str) -> str:
    if request.method == "GET" and request.query.get("watch") == "true":
        return "watch"
    return {
        "GET": "get" if name else "list",
        "POST": "create",
        "PUT": "update",
        "PATCH": "patch",
        "DELETE": "delete",
    }[request.method]


def _refused(status: int, message: str) -> web.Response:
    body: dict[str, Any] = {"kind": "Status", "status": "Failure", "message": message, "code": status}
    return web.json_response(body, status=status)


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
