"""Readers of what names a place or a part of HTTP: addresses, URLs, prefixes, methods, header fields, certificates."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from proxy.config.faults import Refusal, quoted
from proxy.config.reading import Scalar, Value, scalar
from proxy.config.scalars import integer
from proxy.config.shape import Shape
from proxy.core.policy import Address
from proxy.core.target import DEFAULT_PORTS
from proxy.core.upstream import Upstream

_ADDRESS: Final = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]+):([0-9]{1,5})\Z")
_LABELS: Final = r"(?=.{1,253}(?:[:/]|\Z))[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_-]{1,63})*"
_NAME: Final = re.compile(rf"\.?{_LABELS}\Z")
_URL: Final = re.compile(
    rf"(?P<scheme>[A-Za-z]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|{_LABELS})(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*)\Z"
)
_USERINFO: Final = re.compile(r"(http://)([A-Za-z0-9._~!$&'()*+,;=:%-]+)@(.*)\Z")  # RFC 3986 §3.2.1
# A number of a database may end it (Redis URI scheme). Options in a query are not taken: some of them switch TLS off.
_STORE: Final = re.compile(
    rf"rediss?://(?:[A-Za-z0-9._~!$&'()*+,;=:%-]+@)?(?P<host>\[[0-9A-Fa-f:.]+\]|{_LABELS})(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?:/[0-9]{0,4})?\Z"
)
_LONGEST_STORE: Final = 1024
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+\Z")
_PATH: Final = 4096  # PATH_MAX: of a path, the end is what tells
_DOTS: Final = re.compile(r"/\.\.?(?:/|\Z)")
_METHOD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,31}\Z")
FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}\Z")  # RFC 9110 §5.1, a token
_ROUTE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")

# How the longer ones look to readers that know no lookaround, and cannot tell an IP address from another text.
_ANY_URL: Final = r"://[^/?#\s]+(?:/[^?#\s]*)?\Z"
_UPSTREAM: Final = re.compile(rf"[Hh][Tt][Tt][Pp][Ss]?{_ANY_URL}")
_PARENT: Final = re.compile(rf"[Hh][Tt][Tt][Pp]{_ANY_URL}")
_ANY_STORE: Final = re.compile(r"rediss?://[^/?#\s]+(?:/[0-9]{0,4})?\Z")
_BYPASS: Final = re.compile(r"(?:[A-Za-z0-9_.-]+|[\[\]]*[0-9A-Fa-f:.]+(?:%.*)?(?:/[0-9.]+)?[\[\]]*)\Z")

port: Final = integer(1, 65535)


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise Refusal(f"port {number} is out of range", "write a port from 1 to 65535")
    return number


def _address(text: str) -> Address:
    match = _ADDRESS.match(text)
    try:
        if match is None:
            raise ValueError
        host = match[1].strip("[]")
        if (ipaddress.ip_address(host).version == 6) != match[1].startswith("["):
            raise ValueError
    except ValueError:
        problem = f"{quoted(text)} is not an IP address with a port"
        raise Refusal(problem, "write one like 127.0.0.1:10800 or [::1]:10800") from None
    return Address(host, _port(match[2]))


address: Final = scalar(_address, Shape(pattern=_ADDRESS))


def _url(text: str, schemes: tuple[str, ...], example: str) -> Upstream:
    """Return the parts of a URL. Raises Refusal."""
    match = _URL.match(text)
    if match is None or match["scheme"].lower() not in schemes:
        what = " or ".join(f"{scheme}://" for scheme in schemes)
        problem = f"{quoted(text)} is not a URL of {what} with a host"
        raise Refusal(problem, f"write one like {example}, without user, query and fragment")
    scheme, host = match["scheme"].lower(), match["host"].lower().strip("[]")
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise Refusal(f"{quoted(host)} is not an IPv6 address", f"write one like {example}") from None
    number = DEFAULT_PORTS[scheme] if match["port"] is None else _port(match["port"])
    return Upstream(scheme, host, number, match["path"].rstrip("/"))


def _upstream(text: str) -> Upstream:
    upstream = _url(text, ("http", "https"), "https://api.example.com/v1")
    if _DOTS.search(upstream.path):
        raise Refusal(f"{quoted(text)} has . or .. as a segment", "write the path that is meant")
    return upstream


upstream: Final = scalar(_upstream, Shape(pattern=_UPSTREAM))


def _parent_proxy(text: str) -> Upstream:
    example = "http://proxy.example.com:3128"
    userinfo, plain = "", text
    if (match := _USERINFO.match(text)) is not None:
        userinfo, plain = match[2], match[1] + match[3]
    parent = replace(_url(plain, ("http",), example), userinfo=userinfo)
    if parent.path or plain.count(":") - parent.host.count(":") < 2:
        raise Refusal(f"{quoted(text)} is not http://host:port", f"write one like {example}")
    return parent


parent_proxy: Final = scalar(_parent_proxy, Shape(pattern=_PARENT))


def _service(text: str) -> Upstream:
    example = "http://waterclock-cache.waterclock-system.svc:10805"
    service = _url(text, ("http",), example)
    if service.path:
        raise Refusal(f"{quoted(text)} has a path", f"write one like {example}")
    return service


service: Final = scalar(_service, Shape(pattern=_PARENT))


def _store(text: str) -> str:
    match = _STORE.match(text)
    if match is None or len(text) > _LONGEST_STORE:
        example = "redis://cache.internal:6379/0 or rediss://user:password@cache.internal"
        raise Refusal(f"{quoted(text)} is not the URL of a store", f"write one like {example}")
    host = match["host"].strip("[]")
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise Refusal(f"{quoted(host)} is not an IPv6 address", "write one like [fd00::1]") from None
    if match["port"] is not None:
        _port(match["port"])
    return text


store: Final = scalar(_store, Shape(pattern=_ANY_STORE, longest=_LONGEST_STORE))


def _bypass(text: str) -> str:
    try:
        if "/" in text:
            return str(ipaddress.ip_network(text))
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError as error:
        if "host bits" in str(error):
            right = ipaddress.ip_network(text, strict=False)
            raise Refusal(f"{quoted(text)} is an address within a network", f"write {right}") from None
    if not _NAME.match(text):
        problem = f"{quoted(text)} is not a host, a suffix, an address or a network"
        raise Refusal(problem, "write one like api.internal, .svc or 10.0.0.0/8, without port and *")
    return text.lower()


bypass: Final = scalar(_bypass, Shape(pattern=_BYPASS))


def _prefix(text: str) -> str:
    if not _PREFIX.match(text) or _DOTS.search(text):
        what = "ends with /" if text.endswith("/") else "is not a prefix of paths"
        raise Refusal(
            f"{quoted(text)} {what}", "write one like /openai: a / before each segment, and none at the end"
        )
    return text


prefix: Final = scalar(_prefix, Shape(pattern=_PREFIX))


def _method(text: str) -> str:
    if not _METHOD.match(text):
        known = text.upper()
        remedy = f"write {known}" if _METHOD.match(known) else "write one like GET"
        raise Refusal(f"{quoted(text)} is not the name of a method in upper case", remedy)
    return text


method: Final = scalar(_method, Shape(pattern=_METHOD))


def _field(text: str) -> bytes:
    if not FIELD.match(text):
        raise Refusal(f"{quoted(text)} is not the name of a header", "write one like Idempotency-Key")
    return text.lower().encode("ascii")


header: Final = scalar(_field, Shape(pattern=FIELD))


def _route_name(text: str) -> str:
    if text == "fallback":
        raise Refusal('"fallback" is the name of what no route matches', "write another name")
    if not _ROUTE_NAME.match(text):
        remedy = "write 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit"
        raise Refusal(f"{quoted(text)} is not the name of a route", remedy)
    return text


route_name: Final = scalar(_route_name, Shape(pattern=_ROUTE_NAME, never=("fallback",)))


def _certificates(value: Value) -> str:
    text = value.text()
    if value.report.has_files:
        _load_certificates(text)
    return text


def _load_certificates(text: str) -> None:
    import ssl

    remedy = "write the path of a PEM file with certificates of authorities"
    shown = quoted(text, _PATH)
    try:
        if not Path(text).is_file():
            raise Refusal(f"there is no file {shown}", remedy)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=text)
    except ssl.SSLError as error:
        raise Refusal(f"{shown} holds no usable certificate ({error.reason or error})", remedy) from None
    except (OSError, ValueError) as error:
        problem = f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise Refusal(problem, "check the path and its permissions") from None


certificates: Final = Scalar(_certificates)
