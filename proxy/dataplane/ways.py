"""The ways in: what a request on the outbound port asks for, by the form of its target (RFC 9112 §3.2).

* absolute form: the sidecar is used as a forward proxy; `https://` is spoken for the caller;
* origin form on a connection that iptables redirected: the original destination is where it goes;
* origin form under the prefix of a base-URL route: the prefix is taken off, the rest goes to the route's upstream;
* origin form with another host's name in `Host`: forwarded by that name.

CONNECT has its own file, `tunnel`. A pure module: it looks at the request, and opens nothing.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from proxy.core.policy import Route
from proxy.core.reasons import Reason
from proxy.core.routing import Router
from proxy.core.target import DEFAULT_PORTS, Origin, Target, split_authority, split_url
from proxy.net.own import OwnPorts
from proxy.wire.events import RequestHead

_WEB_SOCKET: Final = re.compile(r"\Aws(?=s?://)", re.IGNORECASE)


class Arrival(NamedTuple):
    """Where a request goes, and the route that holds for it."""

    target: Target
    route: Route


class BadTarget(Exception):
    """A request that cannot be sent anywhere. `detail` names the place and the remedy."""

    def __init__(self, reason: Reason, detail: str) -> None:
        """Keep the reason and the sentence."""
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def names_sidecar(own: OwnPorts, host: str, port: int) -> bool:
    """Say whether an authority is the sidecar's own. Names other than `localhost` are found out when dialling."""
    return own.leads_back("127.0.0.1" if host == "localhost" else host, port)


def way_in(head: RequestHead, original: tuple[str, int] | None, router: Router, own: OwnPorts) -> Arrival:
    """Return where a request goes. `original`: the destination that iptables took it from. Raises BadTarget."""
    try:
        if head.target.startswith("/") or head.target == "*":
            if original is not None:
                return _redirected(head, original, router)
            return _by_prefix(head, router) or _by_host(head, router, own)
        # Some clients ask for a WebSocket by its own name (aiohttp): on the wire it begins as HTTP.
        target = _WEB_SOCKET.sub("http", head.target)
        scheme, authority, path = split_url(target)
        host, port = split_authority(authority, DEFAULT_PORTS[scheme])
        if names_sidecar(own, host, port):
            arrival = _by_prefix(head, router, path)
            if arrival is None:
                raise _loop(authority, path)
            return arrival
        return _arrive(scheme, host, port, authority, path, head.method, router)
    except ValueError as problem:
        raise BadTarget(Reason.MALFORMED, f"The request target cannot be used: {problem}.") from None


def _arrive(
    scheme: str,
    host: str,
    port: int,
    authority: str,
    path: str,
    method: str,
    router: Router,
    address: str | None = None,
) -> Arrival:
    route = router.by_target(host, path, method)
    if route.originate_tls and scheme == "http":
        scheme = "https"
        if port == DEFAULT_PORTS["http"]:
            port = DEFAULT_PORTS["https"]
            authority = authority.removesuffix(":80")
    ca = route.ca if scheme == "https" else None
    return Arrival(Target(Origin(scheme, host, port, address, ca), authority, path), route)


def _redirected(head: RequestHead, original: tuple[str, int], router: Router) -> Arrival:
    address, port = original
    shown = f"[{address}]" if ":" in address else address
    authority = (head.get(b"host") or b"").decode("latin-1") or f"{shown}:{port}"
    host, _ = split_authority(authority, port)
    return _arrive("http", host, port, authority, head.target, head.method, router, address)


def _by_prefix(head: RequestHead, router: Router, path: str | None = None) -> Arrival | None:
    path = head.target if path is None else path
    route = router.by_prefix(path, head.method)
    if route is None or route.upstream is None or route.prefix is None:
        return None
    upstream = route.upstream
    rest = path[len(route.prefix) :]
    if not (upstream.path or rest.startswith("/")):
        rest = "/" + rest
    default = upstream.port == DEFAULT_PORTS[upstream.scheme]
    name = f"[{upstream.host}]" if ":" in upstream.host else upstream.host
    authority = name if default else f"{name}:{upstream.port}"
    ca = route.ca if upstream.scheme == "https" else None
    origin = Origin(upstream.scheme, upstream.host, upstream.port, None, ca)
    return Arrival(Target(origin, authority, upstream.path + rest), route)


def _by_host(head: RequestHead, router: Router, own: OwnPorts) -> Arrival:
    authority = (head.get(b"host") or b"").decode("latin-1")
    if not authority:
        raise ValueError(
            "it has neither an absolute target nor a Host field; use the sidecar as an HTTP proxy"
        )
    host, port = split_authority(authority, DEFAULT_PORTS["http"])
    if names_sidecar(own, host, port):
        raise _loop(authority, head.target)
    return _arrive("http", host, port, authority, head.target, head.method, router)


def _loop(authority: str, path: str) -> BadTarget:
    shown = path.partition("?")[0]
    return BadTarget(
        Reason.LOOP,
        f"{authority} is the sidecar itself, and no route has a prefix that begins {shown!r}. Use it as an HTTP proxy "
        "(HTTP_PROXY), or add a route with `prefix` and `upstream`.",
    )
