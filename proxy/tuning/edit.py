"""A policy's text with other shares and needs in it, and everything else untouched: comments, order, quotes, blank lines.

A value is replaced where its scalar stands; a key that is missing is added behind one that is there, in the style of its mapping.
What comes out is read again, and must be exactly the policy that was meant: whatever cannot be edited so is said, with its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import yaml

from proxy.config import ConfigError, parse
from proxy.config.scalars import SPANS
from proxy.core.policy import FALLBACK, SLACK, Policy, Route, Share
from proxy.tuning.faults import Untunable
from proxy.tuning.measured import RungName

_LOADER: Final = yaml.SafeLoader  # counts characters; the faster one counts otherwise beyond ASCII
_QUOTES: Final = {None: "", "'": "'", '"': '"'}


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be written: shares by stage, the slack (None: as it is), and needs of rungs. Spans are nanoseconds."""

    shares: Mapping[str, int]
    slack: int | None
    needs: Mapping[RungName, int]

    @property
    def nothing(self) -> bool:
        """Whether nothing is to be changed."""
        return not self.shares and self.slack is None and not self.needs


def edited(text: str, source: str, policy: Policy, changes: Changes) -> str:
    """Return the text with the changes made. `policy` is what it says now. Raises Untunable."""
    root = yaml.compose(text, Loader=_LOADER)
    if not isinstance(root, yaml.MappingNode):
        raise Untunable(f"{source} says nothing that could be changed", "give it stages (budget.stages)")
    edits = sorted(_Document(text, source, root).edits(policy, changes), reverse=True)
    result = text
    for edit in edits:
        result = result[: edit[0]] + edit[2] + result[edit[1] :]
    _check(result, source, changed(policy, changes))
    return result


def changed(policy: Policy, changes: Changes) -> Policy:
    """Return the policy as it is meant."""
    shares = [
        replace(share, span=changes.shares.get(share.stage, share.span)) for share in policy.budget.stages
    ]
    if changes.slack is not None:
        slack = Share(SLACK, changes.slack)
        if any(share.stage == SLACK for share in shares):
            shares = [slack if share.stage == SLACK else share for share in shares]
        else:
            shares.append(slack)
    return replace(
        policy,
        budget=replace(policy.budget, stages=tuple(shares)),
        routes=tuple(_with_needs(route, changes) for route in policy.routes),
        fallback=_with_needs(policy.fallback, changes),
    )


def _with_needs(route: Route, changes: Changes) -> Route:
    ladder = [
        replace(rung, needs=changes.needs.get((route.name, rung.name), rung.needs)) for rung in route.ladder
    ]
    return replace(route, ladder=tuple(ladder))


def _check(text: str, source: str, meant: Policy) -> None:
    """Refuse what does not read to the policy that was meant."""
    try:
        found = parse(text, source, has_files=False)
    except ConfigError as error:
        problem = f"the proposal does not go together with the rest of the policy: {error.faults[0]}"
        raise Untunable(problem, "change that by hand first") from None
    if found != meant:
        problem = f"{source} is written in a way that cannot be edited in place"
        raise Untunable(
            problem, "write the values of budget.stages and of needs out, a plain one for each key"
        )


Edit = tuple[int, int, str]
"""From which character up to which one the text becomes another."""


class _Document:
    """The text, and where its values stand."""

    def __init__(self, text: str, source: str, root: yaml.MappingNode) -> None:
        self._text = text
        self._source = source
        self._root = root
        self._uses = Counter(id(node) for node in _nodes(root))

    def edits(self, policy: Policy, changes: Changes) -> Iterator[Edit]:
        """Yield what is to be changed in the text; a value that is as it should be stays as it is written."""
        if changes.shares or changes.slack is not None:
            yield from self._stages(policy.budget.stages, changes)
        for name, span in changes.needs.items():
            rung = self._rung(*name)
            if _entry(rung, "needs") is not None:
                yield self._replaced(rung, "needs", span)
            else:
                yield self._added(rung, _entry(rung, "name"), "needs", span)

    def _stages(self, shares: Sequence[Share], changes: Changes) -> Iterator[Edit]:
        stages = self._mapping(self._mapping(self._root, "budget"), "stages")
        now = {share.stage: share.span for share in shares}
        for stage, span in changes.shares.items():
            if span != now[stage]:
                yield self._replaced(stages, stage, span)
        if changes.slack is not None and SLACK not in now:
            yield self._added(stages, stages.value[-1] if stages.value else None, SLACK, changes.slack)
        elif changes.slack is not None and changes.slack != now[SLACK]:
            yield self._replaced(stages, SLACK, changes.slack)

    def _rung(self, route: str, rung: str) -> yaml.MappingNode:
        if route == FALLBACK.name:
            within = self._mapping(self._root, "fallback")
        else:
            within = self._named(self._root, "routes", route)
        return self._named(within, "ladder", rung)

    def _mapping(self, of: yaml.MappingNode, key: str) -> yaml.MappingNode:
        entry = _entry(of, key)
        if entry is None or not isinstance(entry[1], yaml.MappingNode):
            raise self._unwritable(of, f"{key} is not written out")
        self._stands_alone(entry[1], key)
        return entry[1]

    def _named(self, of: yaml.MappingNode, key: str, name: str) -> yaml.MappingNode:
        """Return the mapping of this name in a list."""
        entry = _entry(of, key)
        if entry is not None and isinstance(entry[1], yaml.SequenceNode):
            self._stands_alone(entry[1], key)
            for node in entry[1].value:
                if not isinstance(node, yaml.MappingNode):
                    continue
                named = _entry(node, "name")
                if named is not None and named[1].value == name:
                    self._stands_alone(node, name)
                    return node
        raise self._unwritable(of, f"{key} does not name {name}")

    def _stands_alone(self, node: yaml.Node, key: str) -> None:
        """Refuse a node that stands in several places: to change it would change all of them."""
        if self._uses[id(node)] > 1:
            raise self._unwritable(node, f"{key} is written once and used in several places (&, *)")

    def _replaced(self, mapping: yaml.MappingNode, key: str, span: int) -> Edit:
        entry = _entry(mapping, key)
        if entry is None:
            raise self._unwritable(mapping, f"{key} is not written out")
        node = entry[1]
        self._stands_alone(node, key)
        quote = _QUOTES.get(node.style) if isinstance(node, yaml.ScalarNode) else None
        end = node.end_mark.index
        written = f"{quote}{node.value}{quote}"
        start = end - len(written)
        if quote is None or self._text[start:end] != written:
            raise self._unwritable(node, f"{key} is written over several lines or with escapes")
        return start, end, f"{quote}{SPANS.show(span) if span else '0s'}{quote}"

    def _added(self, mapping: yaml.MappingNode, after: _Entry | None, key: str, span: int) -> Edit:
        """Add a key behind an entry: within braces, or on a line of its own below it."""
        if after is None:
            raise self._unwritable(mapping, f"{key} has no place")
        said = f"{key}: {SPANS.show(span) if span else '0s'}"
        name, value = after
        at = value.end_mark.index
        if mapping.flow_style:
            return at, at, f", {said}"
        end = self._text.find("\n", at)
        end = len(self._text) if end < 0 else end
        newline = "\r\n" if self._text[end - 1 : end] == "\r" else "\n"
        end -= len(newline) - 1
        return end, end, f"{newline}{' ' * name.start_mark.column}{said}"

    def _unwritable(self, node: yaml.Node, why: str) -> Untunable:
        place = f"{self._source}:{node.start_mark.line + 1}"
        return Untunable(
            f"{place}: {why}, so it cannot be edited in place", "write it out, a plain value for each key"
        )


_Entry = tuple[yaml.ScalarNode, yaml.Node]


def _entry(mapping: yaml.MappingNode, key: str) -> _Entry | None:
    """Return a key of a mapping with its value."""
    for name, value in mapping.value:
        if isinstance(name, yaml.ScalarNode) and name.value == key:
            return name, value
    return None


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield every node as often as it is used; what is in one that is used again is yielded once."""
    seen, waiting = set[int](), [root]
    while waiting:
        node = waiting.pop()
        yield node
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            waiting += [each for entry in node.value for each in entry]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
