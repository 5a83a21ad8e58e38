"""One step from the ConfigMap that is to the one that should be, and where there should be one at all."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.kube.names import KEPT_FOR, MANAGED_BY, MANAGER
from proxy.kube.policies.config_map import Step, Wish, is_for_pods, is_ours, next_step, written
from proxy.kube.policies.opting import Standing, standing_of
from tests.kube.policies.objects import config_map

OWNER = {"apiVersion": "v1", "kind": "MutatingWebhookConfiguration", "name": "w", "uid": "1"}
WISH = Wish({"waterclock.yaml": "{}\n"}, [OWNER])
MADE = written(WISH)


def changed(**metadata: Any) -> dict[str, Any]:
    """The ConfigMap as it should be, with other metadata."""
    made = copy.deepcopy(MADE)
    made["metadata"] |= metadata
    return made


def test_what_is_made() -> None:
    """It says whose it is, and goes with the installation."""
    assert MADE == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "waterclock-policy",
            "labels": {
                "app.kubernetes.io/managed-by": "waterclock-injector",
                "app.kubernetes.io/name": "waterclock",
                "app.kubernetes.io/part-of": "waterclock",
            },
            "ownerReferences": [OWNER],
        },
        "data": {"waterclock.yaml": "{}\n"},
    }
    assert is_ours(MADE)
    assert not is_for_pods(MADE)
    assert is_for_pods(written(Wish({}, for_pods=True)))


@pytest.mark.parametrize(
    ("wish", "actual", "step"),
    [
        (None, None, Step.NOTHING),
        (WISH, None, Step.CREATE),
        (Wish(WISH.data), None, Step.NO_OWNER),
        (WISH, MADE, Step.NOTHING),
        (None, MADE, Step.REMOVE),
        (WISH, config_map({"waterclock.yaml": "{}\n"}, ours=False), Step.FOREIGN),
        (None, config_map({}, ours=False), Step.NOTHING),
        (WISH, changed(deletionTimestamp="2030-01-01T00:00:00Z"), Step.WAIT),
        (None, changed(deletionTimestamp="2030-01-01T00:00:00Z"), Step.WAIT),
        (WISH, MADE | {"data": {"waterclock.yaml": "mode: observe\n"}}, Step.REPLACE),
        (WISH, MADE | {"data": {"waterclock.yaml": "{}\n", "more": ""}}, Step.REPLACE),
        (WISH, MADE | {"data": None}, Step.REPLACE),
        (WISH, MADE | {"binaryData": {"more": "AA=="}}, Step.REPLACE),
        (WISH, changed(labels={MANAGED_BY: MANAGER}), Step.REPLACE),
        (WISH, changed(ownerReferences=[]), Step.REPLACE),
        (WISH, changed(ownerReferences=[OWNER | {"uid": "2"}]), Step.REPLACE),
        (Wish(WISH.data), changed(ownerReferences=[OWNER | {"uid": "2"}]), Step.NOTHING),
        (WISH, MADE | {"immutable": True}, Step.NOTHING),
        (WISH, MADE | {"immutable": True, "data": {}}, Step.REMOVE),
        (Wish(WISH.data, [OWNER], for_pods=True), MADE, Step.REPLACE),
        (WISH, changed(annotations={KEPT_FOR: "pods"}), Step.NOTHING),
        (WISH, changed(labels=MADE["metadata"]["labels"] | {"theirs": "x"}, annotations={"theirs": "y"}, resourceVersion="7"), Step.NOTHING),
    ],
)  # fmt: skip
def test_step(wish: Wish | None, actual: dict[str, Any] | None, step: Step) -> None:
    """What differs from what should be, and is ours, is mended."""
    assert next_step(wish, actual) is step


NAMES = st.sampled_from(["waterclock.yaml", "a.budgetpolicy.yaml", "x"])
TEXTS = st.dictionaries(NAMES, st.text(max_size=3), max_size=3)
WISHES = st.builds(Wish, TEXTS, st.sampled_from([[], [OWNER]]), for_pods=st.booleans())
METADATA = st.fixed_dictionaries(
    {"name": st.just("waterclock-policy"), "resourceVersion": st.just("3")},
    optional={
        "labels": st.dictionaries(st.sampled_from([MANAGED_BY, "theirs"]), st.sampled_from([MANAGER, "x"])),
        "annotations": st.dictionaries(st.sampled_from([KEPT_FOR, "theirs"]), st.sampled_from(["pods", "x"])),
        "ownerReferences": st.lists(st.just(OWNER | {"uid": "9"}), max_size=2),
    },
)
THERE = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("ConfigMap"), "metadata": METADATA},
    optional={"data": TEXTS, "binaryData": st.just({"b": ""}), "immutable": st.booleans()},
)


@given(wish=WISHES, actual=THERE)
def test_one_step_is_enough(wish: Wish, actual: dict[str, Any]) -> None:
    """What was written is what is wished, whatever was there; and what is not ours is not changed."""
    before = copy.deepcopy(actual)
    step = next_step(wish, actual)
    assert (step is Step.FOREIGN) == (not is_ours(actual))
    if step is Step.REPLACE:
        after = written(wish, actual)
        assert next_step(wish, after) is Step.NOTHING
        assert after["metadata"]["resourceVersion"] == "3"
        assert after["data"] == wish.data
        theirs = {
            "labels": (before["metadata"].get("labels") or {}).get("theirs"),
            "annotations": (before["metadata"].get("annotations") or {}).get("theirs"),
        }
        for where, value in theirs.items():
            assert (after["metadata"].get(where) or {}).get("theirs") == value
    assert actual == before


def namespace(name: str = "agents", inject: str = "", **more: Any) -> dict[str, Any]:
    """A namespace."""
    labels = {"waterclock.dev/inject": inject} if inject else {}
    return {"metadata": {"name": name, "labels": labels} | more.pop("metadata", {})} | more


FOR_PODS = config_map({}, annotations={KEPT_FOR: "pods"})


@pytest.mark.parametrize(
    ("there", "kept", "asked", "standing"),
    [
        (None, None, True, Standing.LEFT_ALONE),
        (namespace(), None, False, Standing.OUT),
        (namespace(inject="enabled"), None, False, Standing.OPTED_IN),
        (namespace(inject="Enabled"), None, False, Standing.OUT),
        (namespace(inject="disabled"), None, False, Standing.OUT),
        (namespace(inject="disabled"), None, True, Standing.FOR_PODS),
        (namespace(), None, True, Standing.FOR_PODS),
        (namespace(), FOR_PODS, False, Standing.FOR_PODS),
        (namespace(), config_map({}), False, Standing.OUT),
        (namespace(), config_map({}, ours=False, annotations={KEPT_FOR: "pods"}), False, Standing.OUT),
        (namespace(inject="enabled"), FOR_PODS, False, Standing.OPTED_IN),
        (namespace("kube-system", "enabled"), None, True, Standing.LEFT_ALONE),
        (namespace("kube-system", "enabled"), FOR_PODS, False, Standing.LEFT_ALONE),
        (namespace(inject="enabled", status={"phase": "Terminating"}), None, True, Standing.LEFT_ALONE),
        (namespace(inject="enabled", metadata={"deletionTimestamp": "2030-01-01T00:00:00Z"}), FOR_PODS, True, Standing.LEFT_ALONE),
        ({"metadata": {"name": "agents", "labels": None}, "status": None}, None, False, Standing.OUT),
    ],
)  # fmt: skip
def test_standing(there: Any, kept: Any, asked: bool, standing: Standing) -> None:
    """The rule that stands at the head of `opting`."""
    assert standing_of(there, kept, asked=asked, excluded={"kube-system"}) is standing
