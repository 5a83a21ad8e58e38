"""The reader of a plan for `waterclock simulate`: from YAML to a `core.simulation.Plan`, or to every fault in it.

Made of the same parts as the reader of the policy, and as strict: its tables first, then what contradicts itself.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import yaml

from proxy.config import stages
from proxy.config.document import compose, read
from proxy.config.faults import ConfigError, Fault, Refusal, quoted
from proxy.config.reading import ListOf, Report, Section, Value, scalar
from proxy.config.scalars import SPANS, boolean, duration, integer
from proxy.core.simulation import Plan, Work
from proxy.core.units import MILLISECOND

MOST: Final = 1000
_LONGEST_NAME: Final = 64

_some_time: Final = duration(MILLISECOND)
_any_time: Final = duration()

_MISSING: Final = {
    "total": "write the time that the whole job may take, like total: 10s",
    "steps": "write what the job does, like steps: [{name: search, needs: 4s}]",
}


def _name(text: str) -> str:
    if not 0 < len(text) <= _LONGEST_NAME or not text.isprintable() or text.isspace():
        raise Refusal(f"{quoted(text)} is not a name", f"write 1 to {_LONGEST_NAME} characters that print")
    return text


_STEP: Final = Section(
    lambda name="", needs=0, **rest: Work(name, needs, **rest),
    {
        "name": (scalar(_name), "name"),
        "needs": (_any_time, "needs"),
        "cap": (_some_time, "cap"),
        "min_start": (_any_time, "min_start"),
        "stage": (stages.stage, "stage"),
        "after": (_any_time, "after"),
    },
    required={
        "name": "give the step the name that the tables show",
        "needs": "write how long the step would take, like needs: 4s",
    },
)

_GROUP: Final = Section(
    lambda works=(): works,
    {"parallel": (ListOf(_STEP, at_least=1, at_most=MOST), "works")},
    required={"parallel": "list the steps that start together"},
)


def _entry(value: Value) -> Any:
    """Read one step, or a group of them: a mapping that says `parallel`, or something much like it."""
    names = []
    if isinstance(value.node, yaml.MappingNode):
        names = [str(name.value)[:_LONGEST_NAME] for name, _ in value.node.value]
    return _GROUP(value) if difflib.get_close_matches("parallel", names) else (_STEP(value),)


def _entries(value: Value) -> tuple[tuple[Work, ...], ...]:
    items = value.items()
    if not 1 <= len(items) <= MOST:
        raise Refusal(f"has {len(items)} entries", f"write 1 to {MOST} of them")
    return tuple(item.read(_entry) for item in items)


_PLAN: Final = Section(
    partial(Plan, total=0, groups=()),
    {
        "total": (_some_time, "total"),
        "reserve": (_any_time, "reserve"),
        "cap": (_some_time, "cap"),
        "transit": (_any_time, "transit"),
        "width": (integer(1, MOST), "width"),
        "stages": (stages.shares, "stages"),
        "carry": (boolean, "carry"),
        "cleanup": (_any_time, "cleanup"),
        "steps": (_entries, "groups"),
    },
)


def parse_plan(text: str, source: str = "plan.yaml") -> Plan:
    """Return the plan that a YAML text states; `source` is its name in faults. Raises ConfigError with all of them."""
    root = compose(text, source)
    if root is None:
        raise ConfigError([Fault(source, 1, "", "the plan is empty", "write its total and its steps")])
    report = Report(source)
    line = root.start_mark.line + 1
    plan: Plan = _PLAN(Value(root, "", line, report))
    if all(fault.key for fault in report.faults):  # with another fault, there are no keys at all
        for name, remedy in _MISSING.items():
            if name not in report.given:
                report.add(name, line, "is missing", remedy)
    _find_contradictions(plan, report)
    if report.faults:
        raise ConfigError(report.faults)
    return plan


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Return the plan in a file (UTF-8, of 1 MiB at most). Raises ConfigError, also when it cannot be read."""
    return parse_plan(read(path), os.fspath(path))


# -- what contradicts itself -------------------------------------------------------------------------------------------


def _find_contradictions(plan: Plan, report: Report) -> None:
    if "total" in report.given:
        _fit(plan, report)
    first: dict[str, str] = {}
    for key, work in _works(plan, report):
        _min_start(key, work, plan, report)
        _stage(key, work, plan, report)
        name = f"{key}.name"
        other = first.setdefault(work.name, name)
        if other != name:
            problem = f"{quoted(work.name)} is the name of another step ({report.place(other)})"
            report.add_conflict(name, (name, other), problem, "give each step a name of its own")


def _works(plan: Plan, report: Report) -> Iterator[tuple[str, Work]]:
    """Yield the steps with their keys."""
    for index, group in enumerate(plan.groups):
        key = f"steps[{index}]"
        together = f"{key}.parallel" in report.given
        for place, work in enumerate(group):
            yield (f"{key}.parallel[{place}]" if together else key), work


def _fit(plan: Plan, report: Report) -> None:
    """Refuse a reserve that leaves nothing for work, and stages that together have more than there is."""
    total = f"total, {SPANS.show(plan.total)} ({report.place('total')})"
    if plan.reserve >= plan.total and "reserve" in report.given:
        problem = f"{SPANS.show(plan.reserve)} is not less than {total}"
        report.add_conflict("reserve", ("reserve", "total"), problem, "change one of the two")
    together = sum(share.span for share in plan.stages)
    if together > plan.total:
        problem = f"{SPANS.show(together)} together is more than {total}"
        report.add_conflict(
            "stages", ("stages", "total"), problem, "make shares smaller, or the total longer"
        )


def _min_start(key: str, work: Work, plan: Plan, report: Report) -> None:
    at, limit = f"{key}.min_start", f"{key}.cap" if work.cap is not None else "cap"
    cap = plan.cap if work.cap is None else work.cap
    if cap is not None and work.min_start > cap:
        problem = (
            f"{SPANS.show(work.min_start)} is more than {limit}, {SPANS.show(cap)} ({report.place(limit)})"
        )
        report.add_conflict(at, (at, f"{key}.cap", limit), problem, "change one of the two")


def _stage(key: str, work: Work, plan: Plan, report: Report) -> None:
    at, known = f"{key}.stage", [share.stage for share in plan.stages]
    if work.stage is not None and work.stage not in known:
        close = difflib.get_close_matches(work.stage, known, n=1)
        remedy = f"did you mean {close[0]}?" if close else "give it a share under stages, or take the key out"
        report.add_conflict(at, (at, "stages"), f"{quoted(work.stage)} has no share", remedy)
