"""The ways in: what a request on the outbound port asks for, by the form of its target (RFC 9112 §3.2).

* absolute form: the sidecar is used as a forward proxy; `https://` is spoken for the caller;
* origin form on a connection that iptables redirected: the original destination is where it goes;
* origin form in a tunnel: the place that the CONNECT named is where it goes, and which route it takes;
* origin form under the prefix of a base-URL route: the prefix is taken off, the rest goes to the route's upstream;
* origin form with another host's name in `Host`: forwarded by that name.

CONNECT itself has its own file, `tunnel`. A pure module: it looks at the request, and opens nothing.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from proxy.core.policy import Route
from proxy.core.reasons import Reason
from proxy.core.routing import Router
from proxy.core.target import DEFAULT_PORTS, Origin, Target, split_authority, split_url
from proxy.net.own import OwnPorts
from proxy.wire.events import RequestHead

_WEB_SOCKET: Final = re.compile(r"\Aws(?=s?://)", re.IGNORECASE)


Arrival: TypeAlias = tuple[Target, Route]
"""Where a request goes, and the route that holds for it."""

_known: Final[dict[str, Target]] = {}  # by absolute forms: the same few are asked for again and again
_MOST_KNOWN: Final = 512
_LONGEST_KNOWN: Final = 256


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


def way_in(head: RequestHead, place: Origin | None, router: Router, own: OwnPorts) -> Arrival:
    """Return where a request goes. Raises BadTarget.

    `place`: where its connection leads. It has an address where iptables took it from there, and none where a CONNECT has
    asked for it.
    """
    try:
        if place is not None and place.address is None:
            return _tunnelled(head, place, router)
        if head.target.startswith("/") or head.target == "*":
            if place is not None:
                return _redirected(head, place, router)
            return _by_prefix(head, router) or _by_host(head, router, own)
        target = _absolute(head.target)
        origin, path = target.origin, target.path
        if names_sidecar(own, origin.host, origin.port):
            arrival = _by_prefix(head, router, path)
            if arrival is None:
                raise _loop(target.authority, path)
            return arrival
        route = router.by_target(origin.host, path, head.method)
        if route.originate_tls or route.ca is not None:
            return _led(route, origin.scheme, origin.host, origin.port, target.authority, path)
        return target, route
    except ValueError as problem:
        raise BadTarget(Reason.MALFORMED, f"The request target cannot be used: {problem}.") from None


def _absolute(text: str) -> Target:
    """Return what a target in absolute form asks for. A query is not remembered: it is hardly ever the same, or anybody's."""
    target = _known.get(text)
    if target is None:
        # Some clients ask for a WebSocket by its own name (aiohttp): on the wire it begins as HTTP.
        scheme, authority, path = split_url(_WEB_SOCKET.sub("http", text))
        host, port = split_authority(authority, DEFAULT_PORTS[scheme])
        target = Target(Origin(scheme, host, port), authority, path)
        if len(text) <= _LONGEST_KNOWN and "?" not in text:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[text] = target
    return target


def _arrive(
    scheme: str,
    host: str,
    port: int,
    authority: str,
    path: str,
    method: str,
    router: Router,
    address: str | None = None,
    tunnelled: bool = False,
) -> Arrival:
    route = router.by_target(host, path, method)
    return _led(route, scheme, host, port, authority, path, address, tunnelled)


def _led(
    route: Route,
    scheme: str,
    host: str,
    port: int,
    authority: str,
    path: str,
    address: str | None = None,
    tunnelled: bool = False,
) -> Arrival:
    """Return where a route leads what was asked for."""
    if route.originate_tls and scheme == "http":
        scheme, tunnelled = "https", False
        if port == DEFAULT_PORTS["http"]:
            port = DEFAULT_PORTS["https"]
            authority = authority.removesuffix(":80")
    ca = route.ca if scheme == "https" else None
    return Target(Origin(scheme, host, port, address, ca, tunnelled), authority, path), route


def _redirected(head: RequestHead, place: Origin, router: Router) -> Arrival:
    authority = _host(head) or _name(place.host, place.port)
    host, _ = split_authority(authority, place.port)
    return _arrive("http", host, place.port, authority, head.target, head.method, router, place.address)


def _tunnelled(head: RequestHead, place: Origin, router: Router) -> Arrival:
    """Return the way of a request that came through a tunnel: to where the tunnel leads, and nowhere else.

    The CONNECT has named the place, so its name is what counts for the route. `Host` may be another name for it (a virtual
    host that was asked for by its address), and is passed on; it chooses neither the place nor the route, and
    whatever is known of writes under the one name says nothing of those under the other.
    """
    default, path = DEFAULT_PORTS["http"], head.target
    own = _name(place.host, place.port).removesuffix(f":{default}")
    named = _host(head) or own
    if not (path.startswith("/") or path == "*"):
        scheme, named, path = split_url(_WEB_SOCKET.sub("http", path))
        if scheme != "http" or split_authority(named, default) != (place.host, place.port):
            raise ValueError(
                f"through a tunnel to {own} nothing else can be asked for; open one to that place"
            )
    same = split_authority(named, default) == (place.host, place.port)
    authority = named if same else own
    target, route = _arrive(
        "http", place.host, place.port, authority, path, head.method, router, tunnelled=True
    )
    return target if same else target._replace(host=named), route


def _by_prefix(head: RequestHead, router: Router, path: str | None = None) -> Arrival | None:
    path = head.target if path is None else path
    route = router.by_prefix(path, head.method)
    if route is None or route.upstream is None or route.prefix is None:
        return None
    upstream = route.upstream
    rest = path[len(route.prefix) :]
    if not (upstream.path or rest.startswith("/")):
        rest = "/" + rest
    authority = _name(upstream.host, upstream.port).removesuffix(f":{DEFAULT_PORTS[upstream.scheme]}")
    ca = route.ca if upstream.scheme == "https" else None
    origin = Origin(upstream.scheme, upstream.host, upstream.port, None, ca)
    return Target(origin, authority, upstream.path + rest), route


def _by_host(head: RequestHead, router: Router, own: OwnPorts) -> Arrival:
    authority = _host(head)
    if not authority:
        raise ValueError(
            "it has neither an absolute target nor a Host field; use the sidecar as an HTTP proxy"
        )
    host, port = split_authority(authority, DEFAULT_PORTS["http"])
    if names_sidecar(own, host, port):
        raise _loop(authority, head.target)
    return _arrive("http", host, port, authority, head.target, head.method, router)


def _host(head: RequestHead) -> str:
    return (head.get(b"host") or b"").decode("latin-1")


def _name(host: str, port: int) -> str:
    host = host.partition("%")[0]  # a zone means nothing to anybody else (RFC 6874 §1)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _loop(authority: str, path: str) -> BadTarget:
    shown = path.partition("?")[0]
    return BadTarget(
        Reason.LOOP,
        f"{authority} is the sidecar itself, and no route has a prefix that begins {shown!r}. Use it as an HTTP proxy "
        "(HTTP_PROXY), or add a route with `prefix` and `upstream`.",
    )
