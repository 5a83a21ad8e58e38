"""Where a call goes: the origin that is connected to, and the target that is asked for there."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

from proxy.values import Value

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_CLUSTER_SUFFIXES: Final = (".svc", ".local", ".internal", ".localhost", ".cluster", ".lan", ".intranet")
# A name is at most 255 octets long (RFC 1035 §2.3.4), and never of dots alone.
_AUTHORITY: Final = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|(?!\.+(?::|\Z))[A-Za-z0-9._~!$&'()*+,;=%-]{1,255})(?::([0-9]{1,5}))?\Z"
)
_USERINFO: Final = re.compile(r"(?<=//)[^/?#]*@")


class Origin(NamedTuple):
    """One place that connections are opened to and shared for.

    `address`: connect to this address instead of looking the name up (a redirected connection). `ca`: a PEM file
    that its certificate is verified against, beside the system's own store. `tunnelled`: a client has asked for a tunnel
    to it, so a parent proxy is asked for one too. `inward`: it is the pod's own app, which a request has come for from
    outside, so what is said of calls that leave the pod is not about it.
    """

    scheme: str
    host: str
    port: int
    address: str | None = None
    ca: str | None = None
    tunnelled: bool = False
    inward: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Target(Value):
    """One request's target: its origin, the authority for `Host`, and the path with its query.

    `host`: what `Host` says, where that is not the authority: in a tunnel, a client may ask one place for another's name.
    """

    _fields: ClassVar[tuple[str, ...]] = ("origin", "authority", "path", "host")
    __slots__ = (*_fields, "_shown")

    def __init__(self, origin: Origin, authority: str, path: str, host: str | None = None) -> None:
        """Take what is known."""
        self.origin: Final = origin
        self.authority: Final = authority
        self.path: Final = path
        self.host: Final = host
        self._shown: str | None = None

    @property
    def url(self) -> str:
        """The absolute form, by which units are told apart: under another name it is another unit."""
        if self.host is None:
            return f"{self.origin.scheme}://{self.authority}{self.path}"
        return f"{self.origin.scheme}://{self.host}@{self.authority}{self.path}"

    @property
    def shown(self) -> str:
        """The absolute form without what holds keys and personal data more often than not.

        That is the values of its query and, in a target that was refused for it, user information.
        """
        if self._shown is None:
            url = self.url
            self._shown = hide_query(_USERINFO.sub("…@", url) if "@" in url and self.host is None else url)
        return self._shown


def hide_query(url: str) -> str:
    """Return a URL whose query keeps its names and loses its values; what has no name is a value."""
    head, mark, query = url.partition("?")
    if not query:
        return url
    shown = (
        f"{name}=…" if equals else "…"
        for name, equals, _ in (item.partition("=") for item in query.split("&"))
    )
    return head + mark + "&".join(shown)


@lru_cache(maxsize=1024)
def split_authority(authority: str, default_port: int) -> tuple[str, int]:
    """Return the host (lower case, no brackets) and port of `host[:port]`. Raises ValueError with a sentence."""
    match = _AUTHORITY.match(authority)
    if match is None:
        raise ValueError(f"{authority!r} is not a host with an optional port")
    port = int(match[2]) if match[2] is not None else default_port
    if not 0 < port < 65536:
        raise ValueError(f"port {port} is out of range (1 to 65535)")
    return match[1].strip("[]").lower().rstrip("."), port


def split_url(url: str) -> tuple[str, str, str]:
    """Return scheme, authority and path of an absolute-form target (RFC 9112 §3.2.2). Raises ValueError."""
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in DEFAULT_PORTS:
        raise ValueError("the target must be http:// or https:// in absolute form")
    ends = [at for at in (rest.find("/"), rest.find("?")) if at >= 0]
    end = min(ends, default=len(rest))
    authority, path = rest[:end], rest[end:]
    if "@" in authority:
        raise ValueError(
            "user information in a target is not accepted (RFC 9110 §4.2.4); send Authorization instead"
        )
    return scheme, authority, path if path.startswith("/") else "/" + path


@lru_cache(maxsize=1024)
def is_inside(host: str) -> bool:
    """Say whether a host is of our own side: a private address, or a name that only a cluster resolves.

    Only there does `Budget-*` travel by itself: a job's id is nobody else's business.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_CLUSTER_SUFFIXES)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return (
        not address.is_global
    )  # not `is_private`: some clusters give their pods addresses of 100.64/10 (RFC 6598)
