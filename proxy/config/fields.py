"""Readers of what is put into a request or an answer: header fields, parameters of a query, the type and text of a body.

Values may be secrets (a rung's own `Authorization`), so no fault shows one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from proxy.config.faults import Refusal, quoted
from proxy.config.json_values import sure_entries, sure_text
from proxy.config.network import FIELD
from proxy.config.reading import MISSING, ListOf, MapOf, Reader, Scalar, Value, scalar
from proxy.config.shape import Shape

MOST: Final = 32
_LONGEST_VALUE: Final = 4096
_LONGEST_NAME: Final = 256
_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?\Z")  # RFC 9110 §5.5, less what is obsolete
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE: Final = re.compile(
    rf'{_TOKEN}/{_TOKEN}(?: ?; ?{_TOKEN}=(?:{_TOKEN}|"[ !#-\[\]-~]*"))*\Z'  # RFC 9110 §8.3.1
)

_OF_A_CONNECTION: Final = dict.fromkeys(
    # RFC 9110 §7.6.1, and what is about the next hop only.
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    "is about one connection, and not passed on",
)  # fmt: skip
_OURS: Final = "is the sidecar's own to write"
_OF_A_REQUEST: Final[Mapping[str, str]] = _OF_A_CONNECTION | {
    "host": "follows from where the call goes",
    "content-length": "follows from the body",
    "content-encoding": "says how the body is written, and that stays as it is",
    "expect": _OURS,
}
_OF_AN_ANSWER: Final[Mapping[str, str]] = _OF_A_CONNECTION | {
    "content-length": "follows from the body",
    "content-encoding": "says how the body is written, and it is sent as it stands here",
    "content-type": "has a key of its own, content_type",
    "cache-control": _OURS,
    "x-should-retry": _OURS,
    "stripe-should-retry": _OURS,
}


def _named(text: str) -> str:
    if not FIELD.match(text):
        raise Refusal(f"{quoted(text)} is not the name of a header", "write one like X-Tenant")
    return text.lower()


name: Final[Reader] = scalar(_named, Shape(pattern=FIELD))
names: Final = ListOf(name, at_most=MOST)


def _settable(refused: Mapping[str, str]) -> Callable[[str], str]:
    """Return the reader of a header's name, less those that are not the policy's to set."""

    def read(text: str) -> str:
        lowered = _named(text)
        reason = refused.get(lowered)
        if reason is None and lowered.startswith("budget-"):
            reason = "tells of the budget, and only the sidecar knows it"
        if reason is not None:
            raise Refusal(reason, "take it out")
        return lowered

    return read


def _value(value: Value) -> str:
    text = sure_text(value)
    if not _VALUE.match(text) or len(text) > _LONGEST_VALUE:
        remedy = f"write 1 to {_LONGEST_VALUE} printing ASCII characters, no blank first or last"
        raise Refusal("is not the value of a header", remedy)
    return text


def _parameter_name(text: str) -> str:
    if not 0 < len(text) <= _LONGEST_NAME or not text.isprintable():
        remedy = f"write 1 to {_LONGEST_NAME} printing characters; they are escaped where need be"
        raise Refusal("is not the name of a parameter", remedy)
    return text


def _parameter(value: Value) -> str:
    text = sure_text(value)
    if len(text) > _LONGEST_VALUE or not text.isprintable():
        remedy = f"write at most {_LONGEST_VALUE} printing characters; they are escaped where need be"
        raise Refusal("is not the value of a parameter", remedy)
    return text


def _pairs(named: Callable[[str], str], reader: Reader) -> Callable[[Value], tuple[tuple[str, str], ...]]:
    """Return the reader of names and values, in the order of the file."""

    def read(value: Value) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        lines: dict[str, int] = {}
        for text, entry in sure_entries(value):
            try:
                one = named(text)
                if one in lines:
                    first = value.report.at(lines[one], ", first on")
                    raise Refusal(f"is given twice{first}", "keep one of the two")
            except Refusal as refusal:
                entry.refuse(refusal)
                continue
            lines[one] = entry.line
            content = entry.read(reader)
            if content is not MISSING:
                found[one] = content
        return tuple(found.items())

    return read


def _headers(refused: Mapping[str, str]) -> MapOf:
    values = Shape(pattern=_VALUE, longest=_LONGEST_VALUE)
    return MapOf(_pairs(_settable(refused), _value), Shape(pattern=FIELD), values, MOST)


of_request: Final = _headers(_OF_A_REQUEST)
of_answer: Final = _headers(_OF_AN_ANSWER)
parameters: Final = MapOf(
    _pairs(_parameter_name, _parameter), Shape(longest=_LONGEST_NAME), Shape(longest=_LONGEST_VALUE), MOST
)


def _media_type(value: Value) -> str:
    text = sure_text(value)
    if len(text) > _LONGEST_NAME or not _MEDIA_TYPE.match(text):
        example = "application/json, or text/plain; charset=utf-8"
        raise Refusal(f"{quoted(text)} is not the type of a body", f"write one like {example}")
    return text


media_type: Final = Scalar(_media_type, Shape(pattern=_MEDIA_TYPE, longest=_LONGEST_NAME))
