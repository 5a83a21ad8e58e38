"""A Prometheus, or what speaks as one (Thanos, Mimir, VictoriaMetrics), asked over HTTP.

Of its API only instant queries are used: `GET /api/v1/query?query=...`. An answer is read up to a bound, and within a time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from http.client import (  # noqa: TID251 - a command may wait; no call passes through it
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
)
from ssl import SSLError
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from proxy.tuning.faults import Untunable

PATIENCE_S: Final = 60.0
MOST_BYTES: Final = 32 * 1024 * 1024
_SAID: Final = 300


class Series(NamedTuple):
    """One element of an instant vector."""

    labels: Mapping[str, str]
    value: float


class Prometheus:
    """Answers queries. Raises Untunable."""

    def __init__(self, url: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        """`url` may hold a path before `/api`, and a user with a password."""
        self._url = _split(url)
        self._path = self._url.path.rstrip("/") + "/api/v1/query"
        self._headers = {"Accept": "application/json", **dict(headers)}
        if self._url.username is not None and not any(name.lower() == "authorization" for name, _ in headers):
            user = f"{unquote(self._url.username)}:{unquote(self._url.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self.warnings: list[str] = []

    @property
    def name(self) -> str:
        """Where it is, without the credentials."""
        port = f":{self._url.port}" if self._url.port is not None else ""
        return f"{self._url.scheme}://{self._url.hostname}{port}{self._url.path.rstrip('/')}"

    def query(self, expression: str) -> list[Series]:
        """Return the vector that an expression comes to."""
        status, location, body = self._get(f"{self._path}?{urlencode({'query': expression})}")
        document = _document(body)
        if document is not None and document.get("status") == "error":
            said = _shown(document.get("error"))
            raise Untunable(f"{self.name} refuses the query {expression!r}: {said}", "correct what it names")
        if status in (401, 403):
            problem = f"{self.name} asks for credentials (status {status})"
            remedy = "give them, as a header or in the address"
            raise Untunable(
                problem, remedy, "--header 'Authorization: Bearer TOKEN'", "https://USER:PASSWORD@HOST"
            )
        if 300 <= status < 400:
            raise Untunable(f"{self.name} leads on to {_shown(location)}", "name that place, without /api")
        if status != 200 or document is None:
            raise self._other(f"it answers {status}" + ("" if document is not None else " and no JSON"))
        try:
            found = [_series(each) for each in _vector(document)]
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise self._other("its answer is no vector") from None
        self._warned(document)
        return found

    def _get(self, target: str) -> tuple[int, str, bytes]:
        url = self._url
        make = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection = make(url.hostname or "", url.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", target, headers=self._headers)
            response: HTTPResponse = connection.getresponse()
            body = response.read(MOST_BYTES + 1)
            location = response.headers.get("Location", "")
        except SSLError as error:
            problem = f"{self.name} cannot be trusted: {_why(error)}"
            raise Untunable(
                problem, "name the authority of its certificate", "export SSL_CERT_FILE=ca.pem"
            ) from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise Untunable(f"{self.name} cannot be asked: {_why(error)}", *_REACH) from None
        except ValueError:
            raise Untunable("a header cannot be sent as it is", "write --header NAME:VALUE") from None
        finally:
            connection.close()
        if len(body) > MOST_BYTES:
            raise Untunable(
                f"{self.name} answers with more than {MOST_BYTES} bytes", "choose fewer pods: --match"
            )
        return response.status, location, body

    def _other(self, why: str) -> Untunable:
        remedy = "name its address as for Grafana, with the path before /api if it has one"
        return Untunable(f"what is at {self.name} does not speak as Prometheus: {why}", remedy)

    def _warned(self, document: dict[str, Any]) -> None:
        warnings = document.get("warnings")
        for warning in warnings[:3] if isinstance(warnings, list) else ():
            said = f"{self.name} warns: {_shown(warning)}."
            if said not in self.warnings:
                self.warnings.append(said)


_REACH: Final = (
    "name the address that it has here; from outside the cluster",
    "kubectl port-forward svc/prometheus 9090",
    "waterclock tune --prometheus http://127.0.0.1:9090 ...",
)


def _split(url: str) -> SplitResult:
    remedy = "write it like http://prometheus.monitoring:9090"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Untunable("the address of Prometheus is no URL", remedy) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Untunable(
            "the address of Prometheus is not a URL of http or https with a host and no query", remedy
        )
    if not (parts.path.isascii() and parts.path.isprintable() and " " not in parts.path):
        raise Untunable("the path of the address cannot be sent as it is", remedy)
    return parts


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _vector(document: dict[str, Any]) -> list[dict[str, Any]]:
    data = document["data"]
    if document["status"] != "success" or data["resultType"] != "vector":
        raise ValueError(data["resultType"])
    found: list[dict[str, Any]] = data["result"]
    return found


def _series(element: dict[str, Any]) -> Series:
    labels = {str(name): str(value) for name, value in element["metric"].items()}
    return Series(labels, float(element["value"][1]))


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {PATIENCE_S:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"it does not speak HTTP ({type(error).__name__})"


def _shown(value: object) -> str:
    text = str(value)
    return "".join(each if each.isprintable() else "?" for each in text[:_SAID])
