"""What is made of something else is up to date; what is installed says what to do next."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import helm_python
import pytest
import yaml

import proxy
from tests.chart.rendering import CHART, ROOT, Object, Render, Values, objects_in
from tools import charts


def test_what_is_made_is_up_to_date() -> None:
    """After a change of the chart, the policy's tables or their page somebody ran `make charts`."""
    assert not [str(path.relative_to(ROOT)) for path in charts.pending()], "run make charts"


def test_manifests_holds_nothing_else() -> None:
    """A template that went leaves no file behind."""
    assert set(charts.MANIFESTS.iterdir()) == set(charts.manifests())


@pytest.mark.parametrize("values", [None, {"certificates": {"mode": "certManager"}}])
def test_lint_finds_nothing(values: Values | None) -> None:
    """Not even a warning. An icon is not missed."""
    report = helm_python.lint(CHART, values, strict=True, namespace="waterclock-system")
    assert report["errors"] == []
    assert [one["error"] for one in report["messages"]] == ["icon is recommended"]


def test_chart_and_program_have_one_version() -> None:
    """The default tag of the image is that of the program."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == proxy.__version__


def identity(one: Object) -> tuple[str, str, str]:
    """Return what tells an object from all others."""
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def test_manifests_are_the_chart(render: Render) -> None:
    """All of it but what is Helm's own, and the namespace, which Helm makes by itself."""
    kustomization = yaml.safe_load((charts.MANIFESTS / "kustomization.yaml").read_text())
    applied = [
        one
        for file in kustomization["resources"]
        for one in objects_in((charts.MANIFESTS / file).read_text())
    ]
    rendered = [one for one in render() if "helm.sh/hook" not in one["metadata"].get("annotations", {})]
    assert {*map(identity, applied)} == {*map(identity, rendered), ("Namespace", "", "waterclock-system")}
    by_identity = {identity(one): one for one in applied}
    for one in rendered:
        assert by_identity[identity(one)] == _without_helm(one)


def _without_helm(part: object) -> object:
    """Return an object without the labels that say that Helm has applied it."""
    if isinstance(part, dict):
        return {
            name: "kubectl" if name == "app.kubernetes.io/managed-by" else _without_helm(one)
            for name, one in part.items()
            if name != "helm.sh/chart"
        }
    if isinstance(part, list):
        return [_without_helm(one) for one in part]
    return part


def test_notes_tell_three_commands(render: Render) -> None:
    """They can be run as they stand."""
    commands = re.findall(r"^ {5}(\S.*)$", render.notes(), re.MULTILINE)
    assert commands == [
        "kubectl -n waterclock-system rollout status deployment/waterclock-injector",
        "helm test waterclock -n waterclock-system",
        "kubectl label namespace default waterclock.dev/inject=enabled",
    ]


def test_notes_ask_for_a_certificate_where_one_has_to_be_brought(render: Render) -> None:
    """Without it nothing works, and nothing else says so at once."""
    notes = render.notes({"certificates": {"mode": "secret", "secretName": "brought"}})
    assert "kubectl -n waterclock-system get secret brought" in notes


def test_the_chart_can_be_packaged(tmp_path: Path) -> None:
    """Its archive is a chart too."""
    copied = shutil.copytree(CHART, tmp_path / "waterclock")
    archive = helm_python.package(copied, destination=tmp_path)
    with helm_python.Chart.load(archive) as chart:
        assert chart.version == proxy.__version__
