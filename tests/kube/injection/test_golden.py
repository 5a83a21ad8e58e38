"""Pods of every kind, beside what becomes of them, word for word: tests/kube/golden.

`NAME.in.yaml` is a pod with what stands around it; `NAME.out.yaml` what was decided and, where it is injected, the pod as
it is then; `NAME.patch.json` the patch. After a change that is meant, `make golden` writes the last two anew (or
`GOLDEN=write python -m pytest tests/kube/injection/test_golden.py`); what a reviewer sees of it is the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from proxy import __version__
from proxy.kube.injection.decision import Verdict
from proxy.kube.injection.patch import apply, as_json
from tests.kube.injection.pods import FOLDER, GIVEN, INJECTED, NAMES, Given

by_name = pytest.mark.parametrize("given", GIVEN, ids=NAMES)
only_injected = pytest.mark.parametrize("given", INJECTED, ids=[each.name for each in INJECTED])


def outputs(given: Given) -> dict[Path, str]:
    """The files that belong beside an input. The version stands in them by the name of VERSION."""
    decision = given.decide()
    said = {
        "verdict": str(decision.verdict),
        "reason": str(decision.reason),
        "message": decision.message,
        "warnings": list(decision.warnings),
    }
    texts = {".out.yaml": yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=200)}
    if decision.patch:
        pod = yaml.safe_dump(given.injected(), sort_keys=False, allow_unicode=True, width=200)
        texts[".out.yaml"] += f"---\n{pod}"
        texts[".patch.json"] = json.dumps(as_json(decision.patch), indent=1, ensure_ascii=False) + "\n"
    return {
        FOLDER / f"{given.name}{ending}": text.replace(__version__, "VERSION")
        for ending, text in texts.items()
    }


@by_name
def test_what_becomes_of_a_pod(given: Given) -> None:
    """Decision, pod and patch are as they stand beside it."""
    for path, text in outputs(given).items():
        if os.environ.get("GOLDEN") == "write":
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text


def test_every_file_belongs_to_an_input() -> None:
    """What is left of an input that is no more would never be compared with anything."""
    expected = {path for given in GIVEN for path in outputs(given)}
    inputs = {FOLDER / f"{name}.in.yaml" for name in NAMES}
    assert set(FOLDER.glob("*.yaml")) | set(FOLDER.glob("*.patch.json")) == expected | inputs


@only_injected
def test_two_programs_apply_the_patch_alike(given: Given) -> None:
    """What `waterclock inject` prints is what the API server makes of the patch."""
    assert apply(given.decide().patch, given.pod) == given.injected()


@only_injected
@pytest.mark.parametrize("version", ["1.29", "1.34"])
def test_injected_pods_are_pods(given: Given, version: str) -> None:
    """Every field is one that the Kubernetes API has, with a value of its type."""
    kubernetes_validate.validate(given.injected(), version, strict=True)


def test_the_inputs_show_every_reason() -> None:
    """A reason that no pod here has is a reason that nobody has seen. Two are of reviews, and one is of no pod at all."""
    from proxy.kube.injection.decision import Reason

    shown = {given.decide().reason for given in GIVEN}
    assert set(Reason) - shown == {Reason.NOT_A_POD, Reason.NOT_A_CREATION}


def test_only_what_is_injected_has_a_patch() -> None:
    """A patch and the verdict go together, and a refusal says what to do."""
    for given in GIVEN:
        decision = given.decide()
        assert bool(decision.patch) == (decision.verdict is Verdict.INJECTED)
        assert decision.message.endswith(".")
