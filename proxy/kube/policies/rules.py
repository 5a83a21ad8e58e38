"""What contradicts itself in a policy, as far as the API server can see it cheaply: rules in CEL, beside the schema.

A rule never refuses what `proxy.config` takes. The reader knows more contradictions, and says them better; these are
the ones that are worth being told by `kubectl apply`. In CEL a field that is null is a field that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proxy.config.scalars import SPANS
from proxy.core.policy import BudgetDefaults, Connections, Journal, Retries, Writes


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in CEL (Kubernetes API concepts, "Validation rules"), and what to say where it does not hold."""

    rule: str
    message: str


def _span(owner: str, key: str, built_in: int) -> str:
    """Return the span that a key of `self`, or of a section in it, stands for."""
    within, _, _ = owner.rpartition(".")
    given = f"has({owner}) && has({owner}.{key})" if within else f"has({owner}.{key})"
    return f"({given} ? duration({owner}.{key}) : duration('{SPANS.show(built_in)}'))"


_BUDGET: Final = BudgetDefaults()
_MAX: Final = _span("self", "max", _BUDGET.max)
_WHOLE: Final = (
    "(has(self.default) ? duration(self.default)"
    f" : !has(self.on_missing) || self.on_missing == 'default' ? duration('{SPANS.show(_BUDGET.default)}')"
    f" : {_MAX})"
)
_RETRIES: Final = Retries()

_LADDER: Final = "has(self.ladder) && size(self.ladder) > 0"
_LESS: Final = f"({_LADDER} || has(self.cache) || has(self.on_cut) && self.on_cut == 'truncate')"
_READ: Final = "has(self.effect) && self.effect == 'read'"
_READS: Final = (
    "ladder, cache and on_cut: truncate are for reads; add effect: read if that is what these calls are"
)

_TREATMENT: Final = (
    Rule(
        "!has(self.min_start) || !has(self.cap) || duration(self.min_start) <= duration(self.cap)",
        "min_start is more than cap; change one of the two",
    ),
    Rule(
        "!has(self.serialize) || !self.serialize || !has(self.effect) || self.effect != 'read'",
        "serialize is for writes, and effect says that these calls only read; take one of the two out",
    ),
    Rule(
        "!has(self.verify) || !has(self.effect) || !(self.effect in ['read', 'idempotent'])",
        "verify asks about writes in doubt, and effect says that these calls are safe to repeat; take one of the two out",
    ),
    Rule(
        "!has(self.max_attempts) || !has(self.retries)"
        f" || self.max_attempts > (has(self.retries.max) ? self.retries.max : {_RETRIES.max})",
        f"max_attempts is not more than retries.max (built in: {_RETRIES.max}), and the first attempt counts too",
    ),
    Rule(
        "!has(self.truncate_margin) && !has(self.truncate_mark) || has(self.on_cut) && self.on_cut == 'truncate'",
        "truncate_margin and truncate_mark are for on_cut: truncate; add that, or take them out",
    ),
    Rule(
        "!has(self.truncate_margin) || !has(self.cap) || duration(self.truncate_margin) < duration(self.cap)",
        "truncate_margin is not less than cap; change one of the two",
    ),
    Rule(
        f"!has(self.degraded_body) || !self.degraded_body || {_LADDER} || has(self.cache)",
        "degraded_body marks answers that are less, and without a ladder or a cache there are none; take it out",
    ),
)

_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "": (
        Rule(
            f"{_span('self.writes', 'hold', Writes().hold)}"
            f" <= {_span('self.journal', 'retention', Journal().retention)}",
            f"writes.hold (built in: {SPANS.show(Writes().hold)}) is more than journal.retention"
            f" (built in: {SPANS.show(Journal().retention)}); change one of the two",
        ),
    ),
    "budget": (
        Rule(
            f"!has(self.reserve) || duration(self.reserve) < {_WHOLE}",
            f"reserve is not less than the whole budget (built in: {SPANS.show(_BUDGET.default)}); change one of the two",
        ),
        Rule(
            f"{_WHOLE} <= {_MAX}",
            f"default (built in: {SPANS.show(_BUDGET.default)}) is more than max"
            f" (built in: {SPANS.show(_BUDGET.max)}); change one of the two",
        ),
        Rule(
            "!has(self.carry) || !self.carry || has(self.stages) && size(self.stages) > 0",
            "carry is what stages leave to those after them, and there are none; add stages, or take it out",
        ),
        Rule(
            "!has(self.carry) || !self.carry || has(self.order) || !has(self.stages)"
            " || self.stages.filter(name, name != 'slack').size() < 2",
            "carry depends on the order of the stages, and Kubernetes keeps none; add order, a list of their names",
        ),
    ),
    "connections": (
        Rule(
            f"!has(self.opening) || self.opening <= (has(self.max) ? self.max : {Connections().max})",
            f"opening is more than max (built in: {Connections().max}); change one of the two",
        ),
    ),
    "fallback": (*_TREATMENT, Rule(f"!{_LESS} || {_READ}", _READS)),
    "routes[]": (
        *_TREATMENT,
        Rule(f"!{_LESS} || {_READ} || has(self.match) && has(self.match.methods)", _READS),
        Rule("has(self.prefix) == has(self.upstream)", "prefix and upstream go together; add the other one"),
        Rule(
            "!has(self.tls) || !has(self.upstream)",
            "tls stands beside an upstream, whose scheme says already whether it is TLS; take one of the two out",
        ),
        Rule(
            "!has(self.prefix) || !has(self.match) || (!has(self.match.host) && !has(self.match.path))",
            "match.host and match.path are not looked at beside a prefix; take one of the two out",
        ),
    ),
    "retries": (
        Rule(
            "(has(self.on) ? 1 : 0) + (has(self.retry_on) ? 1 : 0) + (has(self.__true__) ? 1 : 0) <= 1",
            "on, retry_on and true are one key; keep one of them",
        ),
    ),
    "retries.backoff": (
        Rule(
            f"{_span('self', 'base', _RETRIES.base)} <= {_span('self', 'cap', _RETRIES.cap)}",
            f"base (built in: {SPANS.show(_RETRIES.base)}) is more than cap"
            f" (built in: {SPANS.show(_RETRIES.cap)}); change one of the two",
        ),
    ),
    "ladder[]": (
        Rule(
            "!has(self.cache) || !has(self.answer)",
            "cache and answer are two rungs; make two of it, the cache above the answer",
        ),
        Rule(
            "!has(self.cache) && !has(self.answer) || !has(self.set) && !has(self.upstream) && !has(self.credentials)",
            "set, upstream and credentials are about what is sent, and with cache or answer nothing is; take one of them out",
        ),
        Rule(
            "!has(self.credentials) || has(self.upstream)",
            "credentials are about another upstream; add the upstream, or take them out",
        ),
    ),
    "ladder[].cache": (
        Rule("has(self.semantic) == has(self.text)", "semantic and text go together; add the other one"),
        Rule(
            "!has(self.exact) || self.exact || has(self.semantic)",
            "without exact and without semantic there is nothing to look for; add semantic and text",
        ),
    ),
    "verify": (
        Rule(
            "!has(self.method) || self.method != 'HEAD' || !has(self.applied) || !has(self.applied.json)",
            "applied.json looks into a body, and the answer to a HEAD has none; write method: GET, or take json out",
        ),
    ),
}


def rules_of(path: str) -> tuple[Rule, ...]:
    """Return the rules of a section, by its path in the policy (`budget`, `routes[]`, `fallback.retries`)."""
    return _RULES.get(path.removeprefix("routes[].").removeprefix("fallback."), ())
