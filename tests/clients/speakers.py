"""The clients again, for calls that go well: each makes any call, and gives back what its user would see."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
import httpx
import requests
import urllib3

from tests.clients.calls import Call
from tests.clients.writers import FETCH, NODE


class Seen(NamedTuple):
    """An answer. The names of fields are in lower case."""

    status: int
    fields: Mapping[str, str]
    body: bytes


class Broken(Exception):
    """The client says that the answer is not whole."""


class Speaker(NamedTuple):
    """One client, and why it is not here, if it is not."""

    name: str
    speak: Callable[[Call, str, str, bytes], Seen]
    missing: str | None = None


def _lower(fields: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in fields.items()}


def _trusting(call: Call) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if call.ca is not None:
        context.load_verify_locations(call.ca)
    return context


def with_curl(call: Call, method: str, url: str, body: bytes) -> Seen:
    """curl finds its proxy in the environment, in lower case."""
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--include",
        "--suppress-connect-headers",
        "--request",
        method,
    ]
    if body:
        command += ["--data-binary", body.decode(), "--header", "Content-Type: application/json"]
    if call.ca is not None:
        command += ["--cacert", str(call.ca)]
    ended = subprocess.run([*command, url], capture_output=True, check=False)
    if ended.returncode != 0:
        raise Broken(f"{ended.returncode}: {ended.stderr.decode()}")
    head, _, content = ended.stdout.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    return Seen(int(first.split()[1]), _lower(fields), content)


def with_requests(call: Call, method: str, url: str, body: bytes) -> Seen:
    """requests finds its proxy in the environment."""
    verify = str(call.ca) if call.ca is not None else True
    try:
        with requests.Session() as session:
            response = session.request(method, url, data=body or None, verify=verify)
    except requests.RequestException as error:
        raise Broken(str(error)) from error
    return Seen(response.status_code, _lower(response.headers), response.content)


def with_urllib3(call: Call, method: str, url: str, body: bytes) -> Seen:
    """urllib3 is told its proxy, and its user apart."""
    with _pool(call) as pool:
        try:
            response = pool.request(method, url, body=body or None)
        except urllib3.exceptions.HTTPError as error:
            raise Broken(str(error)) from error
    return Seen(response.status, _lower(response.headers), response.data)


def _pool(call: Call) -> urllib3.PoolManager:
    context = _trusting(call)
    if not call.proxy:
        return urllib3.PoolManager(ssl_context=context, retries=False)
    user, _, place = call.proxy.removeprefix("http://").rpartition("@")
    headers = urllib3.make_headers(proxy_basic_auth=user) if user else None
    return urllib3.ProxyManager(f"http://{place}", proxy_headers=headers, ssl_context=context, retries=False)


def with_httpx(call: Call, method: str, url: str, body: bytes) -> Seen:
    """httpx finds its proxy in the environment."""
    try:
        with httpx.Client(verify=_trusting(call)) as client:
            response = client.request(method, url, content=body or None)
    except httpx.HTTPError as error:
        raise Broken(str(error)) from error
    return Seen(response.status_code, _lower(response.headers), response.content)


def with_aiohttp(call: Call, method: str, url: str, body: bytes) -> Seen:
    """aiohttp finds its proxy in the environment when it is told to look."""

    async def speak() -> Seen:
        async with (
            aiohttp.ClientSession(trust_env=True) as session,
            session.request(method, url, data=body or None, ssl=_trusting(call)) as response,
        ):
            return Seen(response.status, _lower(response.headers), await response.read())

    try:
        return asyncio.run(speak())
    except aiohttp.ClientError as error:
        raise Broken(str(error)) from error


def with_node(call: Call, method: str, url: str, body: bytes) -> Seen:
    """Node's own fetch. It takes its proxy from the environment when it is told to, and opens tunnels even for http://."""
    environment = {**os.environ, "NODE_USE_ENV_PROXY": "1" if call.proxy else "0"}
    if call.ca is not None:
        environment["NODE_EXTRA_CA_CERTS"] = str(call.ca)
    command: list[str | Path] = [NODE, FETCH, method, url, body.decode()]
    ended = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout)
    if "error" in ended:
        raise Broken(ended["error"])
    return Seen(ended["status"], ended["fields"], ended["body"].encode())


SPEAKERS = [
    Speaker("curl", with_curl, None if shutil.which("curl") else "curl is not installed"),
    Speaker("requests", with_requests),
    Speaker("urllib3", with_urllib3),
    Speaker("httpx", with_httpx),
    Speaker("aiohttp", with_aiohttp),
    Speaker("node", with_node),
]
