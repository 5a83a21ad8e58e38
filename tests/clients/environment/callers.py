"""Clients of Python, each as its users write it, in a process that has nothing but its environment to go by.

    python callers.py CLIENT URL...

Calls each URL once with GET and prints a line for each: the URL, and the status or what went wrong.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import sys
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 10
"""How long a call may take on a busy machine (seconds)."""


def with_requests(url: str) -> int:
    """`requests.get`."""
    import requests

    return requests.get(url, timeout=PATIENCE).status_code


def with_urllib(url: str) -> int:
    """`urllib.request.urlopen`."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        return int(response.status)


def with_http_client(url: str) -> int:
    """A connection to where the URL says: nothing else was asked for."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
    connection.request("GET", parts.path)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def with_urllib3(url: str) -> int:
    """A pool, which is told of proxies or has none."""
    import urllib3

    with urllib3.PoolManager() as pool:
        return pool.request("GET", url, timeout=PATIENCE, retries=False).status


def with_httpx(url: str) -> int:
    """`httpx.get`."""
    import httpx

    return httpx.get(url, timeout=PATIENCE).status_code


def with_aiohttp(url: str, *, trust_env: bool = False) -> int:
    """A session, as it is by default."""
    import aiohttp

    async def call() -> int:
        async with (
            aiohttp.ClientSession(trust_env=trust_env) as session,
            session.get(url, timeout=aiohttp.ClientTimeout(PATIENCE)) as response,
        ):
            return response.status

    return asyncio.run(call())


def with_aiohttp_told(url: str) -> int:
    """A session that was told to look at its environment."""
    return with_aiohttp(url, trust_env=True)


def with_openai(url: str) -> int:
    """The OpenAI SDK."""
    import openai

    with openai.OpenAI(api_key="none", base_url=url, timeout=PATIENCE, max_retries=0) as client:
        client.models.list()
    return 200


def with_anthropic(url: str) -> int:
    """The Anthropic SDK."""
    import anthropic

    with anthropic.Anthropic(api_key="none", base_url=url, timeout=PATIENCE, max_retries=0) as client:
        client.models.list()
    return 200


def with_stripe(url: str) -> int:
    """The Stripe SDK."""
    import stripe

    stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
    client = stripe.StripeClient("sk_test_none", base_addresses={"api": url}, max_network_retries=0)
    client.v1.customers.list()
    return 200


def with_botocore(url: str) -> int:
    """The AWS SDK."""
    import botocore.config
    import botocore.session

    client: Any = botocore.session.Session().create_client(
        "s3",
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        endpoint_url=url,
        config=botocore.config.Config(retries={"max_attempts": 0}, read_timeout=PATIENCE),
    )
    client.head_bucket(Bucket="none")
    return 200


def with_azure(url: str) -> int:
    """The pipeline of the Azure SDKs."""
    import azure.core
    import azure.core.rest

    client: azure.core.PipelineClient[Any, Any] = azure.core.PipelineClient(base_url=url)
    with client:
        return int(client.send_request(azure.core.rest.HttpRequest("GET", url)).status_code)


def with_kubernetes(url: str) -> int:
    """The Kubernetes client."""
    import kubernetes.client

    configuration = kubernetes.client.Configuration(host=url.rstrip("/"))
    with kubernetes.client.ApiClient(configuration) as client:
        kubernetes.client.VersionApi(client).get_code(_request_timeout=PATIENCE)
    return 200


def with_websockets(url: str) -> int:
    """The WebSocket client `websockets`."""
    import websockets.sync.client

    address = url.replace("http", "ws", 1)
    with websockets.sync.client.connect(address, open_timeout=PATIENCE):
        return 101


CLIENTS: dict[str, Callable[[str], int]] = {
    "requests": with_requests,
    "urllib": with_urllib,
    "http.client": with_http_client,
    "urllib3": with_urllib3,
    "httpx": with_httpx,
    "aiohttp": with_aiohttp,
    "aiohttp with trust_env=True": with_aiohttp_told,
    "openai": with_openai,
    "anthropic": with_anthropic,
    "stripe": with_stripe,
    "botocore": with_botocore,
    "azure-core": with_azure,
    "kubernetes": with_kubernetes,
    "websockets": with_websockets,
}


def main() -> None:
    """Call each of the URLs."""
    call = CLIENTS[sys.argv[1]]
    for url in sys.argv[2:]:
        try:
            print(url, call(url), flush=True)
        except Exception as error:  # noqa: BLE001 - what a client raises is what is to be shown
            print(url, f"{type(error).__name__}: {error}"[:300].replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
