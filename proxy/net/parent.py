"""The parent proxy of clusters whose only way out is one: who is reached through it, and the CONNECT that asks it.

For an http origin the parent is spoken to as it is: the request goes to it in absolute form (RFC 9112 §3.2.2). For
anything else it is asked for a tunnel (RFC 9110 §9.3.6), and what follows is between this end and the origin.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

from proxy.core.policy import Connections
from proxy.core.reasons import Reason
from proxy.core.upstream import Upstream
from proxy.net.errors import DialError
from proxy.wire.events import ResponseHead, Upgraded, WireFault
from proxy.wire.limits import Limits
from proxy.wire.parser import ResponseParser

_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LIMITS: Final = Limits(head_bytes=16 * 1024)


class _Rule(NamedTuple):
    """One entry of `no_proxy`. `port` None: every port. Exactly one of the others is set."""

    port: int | None
    name: str | None = None
    suffix: str | None = None
    network: _Network | None = None


def uses_parent(connections: Connections, host: str, port: int) -> bool:
    """Say whether `host` is reached through the parent proxy.

    Never, without a parent; never, what is on this host, and the parent itself. Else unless an entry of `no_proxy`
    fits: `*`, a name (`tool.example`), a suffix (`.svc`, `*.svc`), an address, a network (`10.0.0.0/8`), each with an
    optional `:port`. Names are not looked up for this, so an address or network fits only a host given as an address.
    """
    parent = connections.proxy
    if parent is None:
        return False
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or host.endswith(".localhost") or (host, port) == (parent.host, parent.port):
        return False
    if address is not None and (address.is_loopback or address.is_unspecified):
        return False
    return not any(_fits(rule, host, port, address) for rule in _rules(connections.no_proxy))


def authorization(parent: Upstream) -> str | None:
    """Return the value of `Proxy-Authorization` for a parent with user information, else None (RFC 7617).

    It goes on the CONNECT, and on each request in absolute form.
    """
    if not parent.userinfo:
        return None
    user, _, password = parent.userinfo.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")


class ConnectExchange(asyncio.Protocol):
    """Asks a parent proxy for a tunnel, and waits for what it says.

    It sends the request as soon as it has a transport. `answered` gives the bytes that already belong to what is
    behind the tunnel (mostly none), and the transport no longer reads; or raises DialError.
    """

    transport: asyncio.Transport

    def __init__(self, parent: Upstream, host: str, port: int) -> None:
        """Prepare the request. Raises DialError for a host that cannot stand in one."""
        if not (host.isascii() and host.isprintable() and " " not in host):
            raise DialError(Reason.MALFORMED, f"{host!r} is not a host; correct the target.")
        self._place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._shown = f"the parent proxy {parent.host}:{parent.port}"
        credentials = authorization(parent)
        field = f"Proxy-Authorization: {credentials}\r\n" if credentials else ""
        self._request = f"CONNECT {self._place} HTTP/1.1\r\nHost: {self._place}\r\n{field}\r\n".encode(
            "ascii"
        )
        self._parser = ResponseParser(_LIMITS)
        self._parser.start("CONNECT")
        self._answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = bytearray()

    async def answered(self) -> bytes:
        """Wait for the answer."""
        await self._answer
        return bytes(self._rest)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Read the answer."""
        if self._answer.done():
            self._rest += data
            return
        for event in self._parser.feed(data):
            if isinstance(event, ResponseHead) and not event.interim:
                self._decide(event)
            elif isinstance(event, Upgraded):
                self._rest += event.rest
            elif isinstance(event, WireFault):
                self._fail(f"did not answer as an HTTP proxy ({event.detail}) check that it is one")

    def eof_received(self) -> bool:
        """Take the parent's end, which is early before its answer and useless after it."""
        self._fail("closed the connection instead of opening a tunnel; check its access rules and its log")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who waits."""
        if exc is None:
            self.eof_received()
        else:
            self._fail(f"broke the connection instead of opening a tunnel ({exc}); check its log")

    def _decide(self, head: ResponseHead) -> None:
        if self._answer.done():
            return
        if 200 <= head.status < 300:
            self.transport.pause_reading()
            self._answer.set_result(None)
        elif head.status == 407:
            self._fail("asks for credentials (407); put them in the URL of `connections.proxy`")
        else:
            self._fail(
                f"answered {head.status} {head.reason}".rstrip() + "; check its access rules, or `noProxy`"
            )

    def _fail(self, what: str) -> None:
        if not self._answer.done():
            detail = f"No way to {self._place}: {self._shown} {what}."
            self._answer.set_exception(DialError(Reason.PARENT_PROXY_REFUSED, detail))
            self._answer.exception()  # when the caller has left, nobody else looks at it


@lru_cache(maxsize=64)
def _rules(entries: tuple[str, ...]) -> tuple[_Rule, ...]:
    return tuple(_rule(entry.strip().lower()) for entry in entries if entry.strip())


def _rule(entry: str) -> _Rule:
    host, port = _split_port(entry)
    if host == "*":
        return _Rule(port, suffix="")
    if host.startswith((".", "*.")):
        return _Rule(port, suffix=host.removeprefix("*"))
    try:
        return _Rule(port, network=ipaddress.ip_network(host.strip("[]"), strict=False))
    except ValueError:
        return _Rule(port, name=host.rstrip("."))


def _split_port(entry: str) -> tuple[str, int | None]:
    """Take a `:port` off an entry. A colon in a bare IPv6 address or network is none."""
    host, mark, port = entry.rpartition(":")
    if mark and port.isdecimal() and (":" not in host or host.endswith("]")):
        return host, int(port)
    return entry, None


def _fits(rule: _Rule, host: str, port: int, address: _Address | None) -> bool:
    if rule.port is not None and rule.port != port:
        return False
    if rule.suffix is not None:
        return host.endswith(rule.suffix)
    if rule.network is not None:
        return address is not None and address.version == rule.network.version and address in rule.network
    return host == rule.name or host.endswith(f".{rule.name}")  # as curl, Go and Python read such a list


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
