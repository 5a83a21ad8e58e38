"""The fields of other projects' objects that the chart uses, from their API references, as JSON schemas of `spec`.

cert-manager.io/v1 and monitoring.coreos.com/v1. A field that is not here is not known here, and fails the test.
"""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final = {"type": "string", "minLength": 1}
_LABELS: Final = {"type": "object", "additionalProperties": {"type": "string"}}


def _only(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1}


_GO_DURATION: Final = {"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"}

_CERTIFICATE: Final = _only(
    ("secretName", "issuerRef"),
    isCA={"type": "boolean"},
    commonName={"type": "string", "maxLength": 64},
    secretName=_TEXT,
    duration=_GO_DURATION,
    dnsNames=_list(_TEXT),
    usages=_list({"enum": ["digital signature", "server auth"]}),
    privateKey=_only(
        algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
        size={"type": "integer"},
        rotationPolicy={"enum": ["Always", "Never"]},
    ),
    issuerRef=_only(("name",), name=_TEXT, kind=_TEXT, group=_TEXT),
)
_ISSUER: Final = {
    "oneOf": [
        _only(("selfSigned",), selfSigned=_only()),
        _only(("ca",), ca=_only(("secretName",), secretName=_TEXT)),
    ]
}
_POD_MONITOR: Final = _only(
    ("selector", "podMetricsEndpoints"),
    namespaceSelector=_only(any={"type": "boolean"}, matchNames=_list(_TEXT)),
    selector=_only(matchLabels=_LABELS),
    podMetricsEndpoints=_list(_only(("port",), port=_TEXT, path=_TEXT, interval=_TEXT)),
)
_RULE: Final = _only(
    ("expr",),
    alert=_TEXT,
    record=_TEXT,
    expr=_TEXT,
    labels=_LABELS,
    annotations=_LABELS,
    **{"for": _TEXT, "keep_firing_for": _TEXT},
)
_PROMETHEUS_RULE: Final = _only(
    ("groups",), groups=_list(_only(("name", "rules"), name=_TEXT, interval=_TEXT, rules=_list(_RULE)))
)

FOREIGN: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "cert-manager.io/v1": {"Certificate": _CERTIFICATE, "Issuer": _ISSUER},
    "monitoring.coreos.com/v1": {"PodMonitor": _POD_MONITOR, "PrometheusRule": _PROMETHEUS_RULE},
}
