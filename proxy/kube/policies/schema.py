"""The JSON schema of a policy, made of the tables that read it: a new row there is a new property here.

There are two of it. The one for the CustomResourceDefinition is *structural*, as the API server demands: no references,
no closed objects (unknown keys are refused or dropped by the API server itself), and bounds of spans as rules in CEL. The
strict one, for the chart's values, closes every object, and is plain JSON Schema. Neither refuses what `proxy.config`
takes; what only the reader can see is said in the status of the BudgetPolicy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from proxy.config.reading import ListOf, MapOf, Reader, Scalar, Section
from proxy.config.scalars import SIZES, SPANS, Scale
from proxy.config.schema import POLICY
from proxy.config.shape import Form, Shape
from proxy.kube.policies.rules import Rule, rules_of

Schema = dict[str, Any]

_DIGITS: Final = 15
_LONGEST_AMOUNT: Final = 2 * _DIGITS + len(".GiB")
NOTHING_SAID: Final[Mapping[str, str]] = MappingProxyType({})


def policy_schema(strict: bool = False, meanings: Mapping[str, str] = NOTHING_SAID) -> Schema:
    """Return the schema of a policy; `strict`: the one for the chart's values.

    `meanings`: what each key means, by its path (`routes[].cap`, which holds for `fallback.cap` too).
    """
    return _Maker(strict, meanings).of(POLICY, "")


@dataclass(frozen=True, slots=True)
class _Maker:
    strict: bool
    meanings: Mapping[str, str]

    def of(self, reader: Reader, path: str) -> Schema:
        """Return the schema of what a reader takes."""
        match reader:
            case Section():
                schema = self._section(reader, path)
            case ListOf():
                schema = self._list(reader, path)
            case MapOf():
                schema = self._map(reader, path)
            case Scalar():
                schema = self._scalar(reader.shape)
            case _:
                raise TypeError(f"{path}: nothing is known of what {reader} reads")
        meaning = self.meanings.get(path) or self.meanings.get(path.replace("fallback.", "routes[].", 1))
        return {"description": meaning, **schema} if meaning else schema

    def _section(self, reader: Section, path: str) -> Schema:
        properties = {
            name: self.of(one, f"{path}.{name}".lstrip(".")) for name, (one, _) in reader.keys.items()
        }
        for alias, name in reader.aliases.items():
            properties[alias] = properties[name] | {"description": f"Another name of `{name}`."}
        schema: Schema = {"type": "object", "properties": properties}
        if reader.required:
            schema["required"] = list(reader.required)
        elif path:
            schema = self._or_nothing(schema)
        if self.strict:
            return schema | {"additionalProperties": False}
        return self._ruled(schema, rules_of(path))

    def _list(self, reader: ListOf, path: str) -> Schema:
        schema: Schema = {
            "type": "array",
            "items": self.of(reader.reader, f"{path}[]"),
            "maxItems": reader.at_most,
        }
        if reader.at_least:
            schema["minItems"] = reader.at_least
        else:
            schema = self._or_nothing(schema)
        if isinstance(reader.reader, Section):
            return schema
        if self.strict:
            return schema | {"uniqueItems": True}
        # A set would be merged entry by entry where two people apply it, so only what has no order may be one.
        return schema | {"x-kubernetes-list-type": "set"} if reader.build is frozenset else schema

    def _map(self, reader: MapOf, path: str) -> Schema:
        schema: Schema = {
            "type": "object",
            "maxProperties": reader.at_most,
            "additionalProperties": self._scalar(reader.values),
        }
        if reader.names.pattern is None:
            return self._or_nothing(schema)
        names = _whole(reader.names.pattern.pattern)
        if self.strict:
            return self._or_nothing(schema | {"propertyNames": {"pattern": names}})
        if "[]" in path:
            # A rule on names costs what the longest ones would, times the lists it is in: more than the API server allows.
            return self._or_nothing(schema)
        rule = Rule(f"self.all(name, name.matches('{names}'))", f"a name here is one that matches {names}")
        return self._ruled(self._or_nothing(schema), (rule,))

    def _scalar(self, shape: Shape) -> Schema:
        match shape.form:
            case Form.TRUTH:
                return {"type": "boolean"}
            case Form.NUMBER:
                return self._never(self._number(shape), shape)
            case Form.FRACTION:
                return {"type": "number", "minimum": shape.low, "maximum": shape.high}
            case Form.JSON:
                # Without `nullable` the API server would drop a null.
                return {} if self.strict else {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
            case Form.SPAN:
                return self._ruled(_amount(SPANS, shape.words), () if self.strict else (_within(shape),))
            case Form.SIZE:
                return _amount(SIZES)
            case Form.TEXT:
                return self._never(_text(shape), shape)

    def _number(self, shape: Shape) -> Schema:
        bounds = {"minimum": shape.low, "maximum": shape.high}
        if not shape.words:
            return {"type": "integer", **bounds}
        words = _whole("|".join(shape.words))
        if self.strict:
            return {"type": ["integer", "string"], **bounds, "pattern": words}
        return {
            "x-kubernetes-int-or-string": True,
            **bounds,
            "pattern": words,
            "maxLength": max(map(len, shape.words)),
        }

    def _never(self, schema: Schema, shape: Shape) -> Schema:
        """Take out of a schema what is refused although it fits; an empty text is left to `minLength`."""
        never = [value for value in shape.never if value != ""]
        if not never:
            return schema
        if self.strict:
            return schema | {"not": {"enum": never}}
        shown = ", ".join(map(str, never))
        listed = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in never)
        return self._ruled(schema, (Rule(f"!(self in [{listed}])", f"write something else than {shown}"),))

    def _or_nothing(self, schema: Schema) -> Schema:
        """Allow a section or a list to be left empty, as it is when all of its entries are commented out."""
        return schema | ({"type": [schema["type"], "null"]} if self.strict else {"nullable": True})

    def _ruled(self, schema: Schema, rules: tuple[Rule, ...]) -> Schema:
        if not rules:
            return schema
        return schema | {
            "x-kubernetes-validations": [{"rule": one.rule, "message": one.message} for one in rules]
        }


def _text(shape: Shape) -> Schema:
    schema: Schema = {"type": "string"}
    if shape.words:
        schema["enum"] = list(shape.words)
    if shape.pattern is not None:
        schema["pattern"] = _whole(shape.pattern.pattern)
    if shape.longest is not None:
        schema["maxLength"] = shape.longest
    if "" in shape.never:
        schema["minLength"] = 1
    return schema


def _amount(scale: Scale, words: tuple[str, ...] = ()) -> Schema:
    number = rf"[0-9]{{1,{_DIGITS}}}(\.[0-9]{{1,{_DIGITS}}})?"
    amount = f"{number}({'|'.join(scale.units)})"
    return {
        "type": "string",
        "pattern": f"^(?:{'|'.join((*words, amount))})$" if words else f"^{amount}$",
        "maxLength": _LONGEST_AMOUNT,
    }


def _within(shape: Shape) -> Rule:
    """Return the rule of a span's bounds: what a policy calls a span is a duration to CEL, and to Go."""
    assert shape.low is not None
    assert shape.high is not None
    low, high = SPANS.show(shape.low), SPANS.show(shape.high)
    least = f"duration(self) >= duration('{low}') && " if shape.low else ""
    rule, message = f"{least}duration(self) <= duration('{high}')", f"write {low} to {high}"
    for word in shape.words:
        rule, message = f"self == '{word}' || {rule}", f"{message}, or {word}"
    return Rule(rule, message)


def _whole(pattern: str) -> str:
    r"""Return a pattern that begins and ends with the text. `\Z` is Python's alone."""
    inner = pattern.removesuffix(r"\Z")
    return f"^(?:{inner})$" if "|" in inner else f"^{inner}$"
