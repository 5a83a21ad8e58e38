"""Real clients, each asked for one thing: fetch this through the sidecar, and say whether you take it for complete."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import subprocess
from collections.abc import Callable
from typing import NamedTuple

import aiohttp
import httpx
import requests

from tests.support.callers import call
from tests.support.sidecar import Sidecar


class Fetched(NamedTuple):
    """What a client made of an answer."""

    status: int
    complete: bool
    body: bytes


def by_h11(sidecar: Sidecar, url: str, remaining_ms: int) -> Fetched:
    told = call(sidecar, "GET", url, headers=_stated(remaining_ms))
    return Fetched(told.status, told.complete, told.body)


def by_http_client(sidecar: Sidecar, url: str, remaining_ms: int) -> Fetched:
    connection = http.client.HTTPConnection(*sidecar.address, timeout=10)
    try:
        connection.request("GET", url, headers=_stated(remaining_ms))
        response = connection.getresponse()
        try:
            return Fetched(response.status, True, response.read())
        except http.client.IncompleteRead as error:
            return Fetched(response.status, False, error.partial)
        except (http.client.HTTPException, OSError):
            return Fetched(response.status, False, b"")
    finally:
        connection.close()


def by_requests(sidecar: Sidecar, url: str, remaining_ms: int) -> Fetched:
    with requests.Session() as session:
        session.trust_env = False
        proxies = {"http": sidecar.proxy_url}
        with session.get(
            url, headers=_stated(remaining_ms), proxies=proxies, stream=True, timeout=10
        ) as response:
            parts: list[bytes] = []
            try:
                parts.extend(response.iter_content(None))
            except requests.RequestException:
                return Fetched(response.status_code, False, b"".join(parts))
            return Fetched(response.status_code, True, b"".join(parts))


def by_httpx(sidecar: Sidecar, url: str, remaining_ms: int) -> Fetched:
    with (
        httpx.Client(proxy=sidecar.proxy_url, trust_env=False) as client,
        client.stream("GET", url, headers=_stated(remaining_ms)) as response,
    ):
        parts: list[bytes] = []
        try:
            parts.extend(response.iter_raw())
        except httpx.TransportError:
            return Fetched(response.status_code, False, b"".join(parts))
        return Fetched(response.status_code, True, b"".join(parts))


def by_aiohttp(sidecar: Sidecar, url: str, remaining_ms: int) -> Fetched:
    async def fetch() -> Fetched:
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=_stated(remaining_ms), proxy=sidecar.proxy_url) as response,
        ):
            parts: list[bytes] = []
            try:
                async for part in response.content.iter_any():
                    parts.append(part)  # noqa: PERF401 - what came before an error counts too
            except (aiohttp.ClientError, ConnectionError):
                return Fetched(response.status, False, b"".join(parts))
            return Fetched(response.status, True, b"".join(parts))

    return asyncio.run(fetch())


_CURL_PARTIAL = (18, 56)
"""curl's own names for what must happen: CURLE_PARTIAL_FILE, CURLE_RECV_ERROR."""


def by_curl(sidecar: Sidecar, url: str, remaining_ms: int) -> Fetched:
    (stated,) = _stated(remaining_ms).items()
    command = [
        "curl",
        "-s",
        "-N",
        "-x",
        sidecar.proxy_url,
        "-H",
        ": ".join(stated),
        "-w",
        "%{stderr}%{http_code}",
        url,
    ]
    done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    assert done.returncode in (0, *_CURL_PARTIAL), done
    return Fetched(int(done.stderr), done.returncode == 0, done.stdout)


def _stated(remaining_ms: int) -> dict[str, str]:
    return {"Budget-Remaining-Ms": str(remaining_ms)}


CLIENTS: dict[str, Callable[[Sidecar, str, int], Fetched]] = {
    "h11": by_h11,
    "http.client": by_http_client,
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
}
if shutil.which("curl"):
    CLIENTS["curl"] = by_curl
