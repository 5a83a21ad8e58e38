"""What the names of fields and parameters tell: who is asking, or nothing at all.

APIs have many names for who is asking, so it is told by the words in a name. One too many leaves a field behind, or costs a
hit; one too few gives a key away. What makes two requests the same is the other way round: every field counts that is not
known to be noise, since nobody can know all the names that an answer may depend on.
"""

from __future__ import annotations

import re
from typing import Final

# Written together with other words as often as apart: x-userid, jsessionid, x-amzn-oidc-accesstoken.
_ANYWHERE: Final = re.compile(
    rb"accesskey|account|apikey|assertion|auth|bearer|cert|claim|company|consumer|cookie|credential|csrf|customer|email|group|"
    rb"identity|impersonat|jwt|member|oidc|organi[sz]ation|owner|passw|permission|principal|profile|project|saml|secret|"
    rb"session|signature|tenant|token|user|workspace|xsrf"
)
# Parts of other words too: these stand alone.
_ALONE: Final = re.compile(
    rb"(?:.*[-_])?(?:behalf|clientid|client[-_]id|dn|keys?|org|orgid|otp|pat|pin|roles?|scopes?|sid|sig|sub|subject|sudo|dpop|login|pass|pwd|sas|ticket|msisdn|"
    rb"teams?|uid|wsse)(?:[-_].*)?\Z|.*(?:api|access|auth|secret|private)[-_]?key\Z|act[-_]as\Z"
)
# They match, and say what program is asking, or are made anew for each sending, or are for this hop.
_NO_CALLER: Final = frozenset(
    {
        b"idempotency-key",
        b"proxy-authorization",
        b"sec-websocket-key",
        b"user-agent",
        b"x-idempotency-key",
        b"x-user-agent",
    }
)
_NOISE: Final = frozenset(
    {
        b"baggage",
        b"cache-control",  # read by itself
        b"connection",
        b"content-length",
        b"date",
        b"dnt",
        b"expect",
        b"host",  # the URL tells
        b"idempotency-key",
        b"keep-alive",
        b"max-forwards",
        b"origin-trial",
        b"pragma",
        b"priority",
        b"proxy-authorization",
        b"proxy-connection",
        b"request-id",
        b"retry-count",
        b"save-data",
        b"sentry-trace",
        b"te",
        b"trace-id",
        b"traceparent",
        b"tracestate",
        b"trailer",
        b"transfer-encoding",
        b"uber-trace-id",
        b"upgrade-insecure-requests",
        b"user-agent",
        b"via",
        b"x-amz-date",
        b"x-amzn-trace-id",
        b"x-client-request-id",
        b"x-cloud-trace-context",
        b"x-correlation-id",
        b"x-idempotency-key",
        b"x-request-id",
        b"x-request-start",
        b"x-retry-count",
        b"x-trace-id",
        b"x-user-agent",
    }
)
_NOISY_FAMILIES: Final = (
    b"budget-",
    b"b3",
    b"x-b3-",
    b"x-datadog-",
    b"x-stainless-",
    b"sec-ch-",
    b"sec-fetch-",
    b"newrelic",
)
_PARAMETER: Final = re.compile(r"(?:code|x-(?:amz|goog|ms)-.*)\Z", re.IGNORECASE)


def tells_caller(name: bytes) -> bool:
    """Say whether a field of this name, in lower case, tells who is asking."""
    if name in _NO_CALLER:
        return False
    return _ANYWHERE.search(name) is not None or _ALONE.match(name) is not None


def tells_nothing(name: bytes) -> bool:
    """Say whether a field of this name, in lower case, makes no difference to an answer: noise, made anew each time."""
    return name in _NOISE or name.startswith(_NOISY_FAMILIES)


def parameter_tells_caller(name: str) -> bool:
    """Say whether a parameter of this name in a URL does: an API key, a token, a signature."""
    return _PARAMETER.match(name) is not None or tells_caller(name.lower().encode("utf-8", "replace"))
