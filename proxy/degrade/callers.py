"""By what a caller proves who it is, or says for whom it asks: names of fields, and of parameters in a URL.

APIs have many names for that, so it is told by the words in a name. One too many only costs a hit of the cache, or leaves a
field behind; one too few gives an answer, or a key, away.
"""

from __future__ import annotations

import re
from typing import Final

_CALLER: Final = re.compile(
    rb"(?:.*[-_])?(?:account|apikey|assertion|auth|authorization|behalf|cert|cookie|credentials?|customer|email|identity|"
    rb"key|org|organi[sz]ation|owner|passwd|password|principal|project|roles?|scopes?|secret|session|signature|subject|"
    rb"tenant|token|user|workspace|wsse)(?:[-_].*)?\Z"
)
# They match, and are made anew for each sending, or say what program is asking, or are for this hop.
_NO_CALLER: Final = frozenset(
    {
        b"idempotency-key",
        b"proxy-authorization",
        b"sec-websocket-key",
        b"user-agent",
        b"x-idempotency-key",
    }
)
_PARAMETER: Final = re.compile(r"(?:key|sig|code|x-(?:amz|goog|ms)-.*)\Z", re.IGNORECASE)


def tells_caller(name: bytes) -> bool:
    """Say whether a field of this name, in lower case, tells who is asking."""
    return name not in _NO_CALLER and _CALLER.match(name) is not None


def parameter_tells_caller(name: str) -> bool:
    """Say whether a parameter of this name in a URL does: an API key, a token, a signature."""
    return _PARAMETER.match(name) is not None or tells_caller(name.lower().encode("utf-8", "replace"))
