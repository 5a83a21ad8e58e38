"""A decision as people read it, and as programs do: what `POST /explain` and `waterclock inject --explain` answer."""

from __future__ import annotations

from typing import Any

from proxy.config.faults import visible
from proxy.kube.injection.decision import Decision, Operation
from proxy.kube.injection.patch import as_json


def as_object(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON has it. `patch` is the document that the API server would be sent."""
    return {
        "verdict": str(decision.verdict),
        "reason": str(decision.reason),
        "message": decision.message,
        "warnings": list(decision.warnings),
        "patch": as_json(decision.patch),
    }


def as_text(decision: Decision) -> str:
    """Return a decision as lines: what and why, what to look out for, and what is changed where."""
    lines = [f"{decision.verdict} ({decision.reason})", f"  {visible(decision.message, 2000)}"]
    lines += [f"  warning: {visible(warning, 500)}" for warning in decision.warnings]
    lines += [f"  {_change(each)}" for each in decision.patch]
    return "\n".join(lines)


def _change(operation: Operation) -> str:
    """Return one line of what is changed: the place, and the name or the value that is put there."""
    value = operation.value
    values = value if isinstance(value, list) else [value]
    if all(isinstance(each, dict) and "name" in each for each in values):
        shown = ", ".join(
            f"{each['name']}={each['value']}" if "value" in each else each["name"] for each in values
        )
    elif isinstance(value, dict):
        shown = ", ".join(f"{name}: {each}" for name, each in value.items())
    else:
        shown = str(value)
    return f"{operation.op} {visible(operation.path, 200)}: {visible(shown, 500)}"
