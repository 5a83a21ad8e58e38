"""What kind a call is: the first rule that applies decides, and what nobody knows is a write.

1. The route says so.
2. The shipped list of well-known LLM endpoints says so.
3. The protocol says so: a GraphQL query, a JSON-RPC method, an MCP tool that the operator trusts to read only.
4. The method says so.

Rule 3 needs the body, so it can only make a write into a read after the body has been held; `early_kind` answers
from the head alone, `late_kind` once the body is there.
"""

from __future__ import annotations

from typing import Any, Final

from proxy.core import exact_json, graphql
from proxy.core.calls import Kind, kind_of_method
from proxy.core.llm_endpoints import is_llm_endpoint
from proxy.core.policy import Protocol, Route
from proxy.core.target import Target

# Methods of the Model Context Protocol that only ask (specification 2025-06-18, "Server features").
_MCP_READS: Final = frozenset(
    {
        "initialize",
        "ping",
        "tools/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        # Notifications of a client: they report, and nothing answers them.
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
    }
)


def early_kind(route: Route, method: str, target: Target) -> Kind:
    """Return the kind as far as the head tells (rules 1, 2 and 4)."""
    if route.effect is not None:
        return route.effect
    if method == "POST" and is_llm_endpoint(
        target.origin.host, target.origin.port, target.path.partition("?")[0]
    ):
        return Kind.READ
    return kind_of_method(method)


def late_kind(route: Route, target: Target, body: bytes) -> Kind:
    """Return the kind of what `early_kind` took for a write, now that its body is known (rule 3)."""
    if route.effect is not None:
        return route.effect
    path = target.path.partition("?")[0]
    is_graphql = path.rstrip("/").rpartition("/")[2] == "graphql"
    if not is_graphql and b'"jsonrpc"' not in body:
        return Kind.WRITE
    try:
        message = exact_json.load(body)
    except ValueError:
        return Kind.WRITE
    if is_graphql:
        query = message.get("query") if isinstance(message, dict) else None
        return Kind.READ if isinstance(query, str) and graphql.only_asks(query) else Kind.WRITE
    messages = message if isinstance(message, list) else [message]
    return Kind.READ if all(_json_rpc_reads(route.protocol, item) for item in messages) else Kind.WRITE


def _json_rpc_reads(declared: Protocol, message: Any) -> bool:
    """Say whether one JSON-RPC message only reads. A message without a method is an answer, and passes."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return False
    method = message.get("method")
    if not isinstance(method, str):
        return method is None and ("result" in message or "error" in message)
    if method in _MCP_READS or any(pattern.fullmatch(method) for pattern in declared.read_methods):
        return True
    if method == "tools/call":
        params = message.get("params")
        tool = params.get("name") if isinstance(params, dict) else None
        return isinstance(tool, str) and any(pattern.fullmatch(tool) for pattern in declared.read_tools)
    return False
