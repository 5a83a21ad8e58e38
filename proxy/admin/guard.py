"""Keeps web pages away from the control API, which trusts whoever reaches the loopback.

A page can make the browser of a developer (through `kubectl port-forward`, say) send requests to 127.0.0.1. With a
name of its own that resolves there (DNS rebinding) it could read the answers, so the Host must be a loopback name;
and a browser names the page in Origin or Sec-Fetch-Site, while programs and people send neither.
"""

from __future__ import annotations

import ipaddress
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from proxy.admin.problems import Problem
from proxy.core.target import split_authority

_OWN_SITES = frozenset({"none", "same-origin"})


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Pass on only what a program or a person on this side can have sent."""
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not is_loopback(hosts[0]):
        detail = f"The request's Host is {', '.join(hosts) or 'missing'}, which is no name of the loopback."
        remedy = "Ask for http://127.0.0.1 or http://localhost with the control port."
        raise Problem(HTTPStatus.FORBIDDEN, detail, remedy)
    if "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES:
        detail = "The request comes from a web page."
        raise Problem(HTTPStatus.FORBIDDEN, detail, "Use the waterclock command, or curl.")
    return await handler(request)


def is_loopback(authority: str) -> bool:
    """Say whether a Host names this machine's loopback: 127.0.0.0/8, [::1], localhost, or a name under it."""
    try:
        host, _ = split_authority(authority, 80)
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
