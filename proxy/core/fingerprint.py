"""The fingerprint of a unit of work: the same call, made again, has the same one.

A caller that repeats itself does not repeat every byte: an agent that plans anew writes its JSON with other spaces,
a JSON-RPC client counts its ids up, an MCP client makes a new progress token. These are taken out of account; the
method, the target and all else that the body says are not. A body of which it is not sure what it says, or a long one
(`exact_json`), is taken as it stands: two units must never be taken for one, or the second is refused for what the first did.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from proxy.core import exact_json

_DIGEST_BYTES: Final = 16
_WHITESPACE: Final = b" \t\r\n"
# Members of an MCP request's `params._meta` that are made anew for each sending; the last three are for tracing.
_META_OF_ONE_SENDING: Final = ("progressToken", "traceparent", "tracestate", "baggage")


def fingerprint(method: str, target: str, body: bytes) -> str:
    """Return the fingerprint (32 hex digits) of a call whose whole body is known."""
    digest = start(method, target)
    digest.update(canonical(body))
    return digest.hexdigest()


def start(method: str, target: str) -> blake2b:
    """Begin the fingerprint of a body that passes in pieces and is taken as it comes: `update`, then `hexdigest`."""
    return blake2b(f"{method} {target}\n".encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)


def canonical(body: bytes) -> bytes:
    """Return a body in the one form that all its repetitions share: canonical JSON without the ids of one sending."""
    if not body.lstrip(_WHITESPACE).startswith((b"{", b"[")):
        return body
    try:
        value = exact_json.load(body)
        _forget_sending(value)
        return exact_json.dump(value)
    except ValueError:  # not JSON after all, or none that is sure
        return body


def _forget_sending(value: Any) -> None:
    """Take out what names one sending of a JSON-RPC request, and not the work it asks for.

    An answer keeps its id: there it says which question is answered.
    """
    for message in value if isinstance(value, list) else [value]:
        if isinstance(message, dict) and "jsonrpc" in message and "method" in message:
            message.pop("id", None)
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            if isinstance(meta, dict):
                for name in _META_OF_ONE_SENDING:
                    meta.pop(name, None)
