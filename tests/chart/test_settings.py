"""What the chart writes is what the programs read: the injector's settings, and the policy."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import helm_python
import pytest
import yaml

import proxy
from proxy.config import parse
from proxy.core.degrading import Rung
from proxy.core.policy import Policy
from proxy.core.units import SECOND
from proxy.kube.settings import (
    SETTINGS,
    CertificateMode,
    Certificates,
    Intercept,
    OldClusters,
    Settings,
    parse_settings,
)
from tests.chart.rendering import ROOT, Render, Values

EXAMPLE = (ROOT / "docs/examples/waterclock.yaml").read_text()
OWN = ("kube-system", "kube-public", "kube-node-lease", "waterclock-system")


def settings(render: Render, values: Values | None = None) -> Settings:
    """Return what the injector would read."""
    return parse_settings(render.one("ConfigMap", values=values)["data"]["injector.yaml"])


def policy(render: Render, value: Any) -> Policy:
    """Return what a sidecar would read."""
    rendered = render.one("ConfigMap", "waterclock-injector-policy", {"policy": value})
    return parse(rendered["data"]["waterclock.yaml"], has_files=False)


def test_defaults_are_the_built_in_settings(render: Render) -> None:
    """`waterclock inject` works alone with them, and gives what the cluster gives."""
    assert settings(render) == replace(Settings(), excluded_namespaces=OWN)


def test_every_setting_is_written(render: Render) -> None:
    """None is left to chance."""
    written = yaml.safe_load(render.one("ConfigMap")["data"]["injector.yaml"])
    assert written.keys() == SETTINGS.keys.keys()


def test_values_become_settings(render: Render) -> None:
    """Under the same names."""
    quantities = {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 2, "memory": "2Gi"}}
    said = settings(
        render,
        {
            "image": {"repository": "registry.example/waterclock", "tag": "dev", "pullPolicy": "Never"},
            "intercept": "redirect",
            "oldClusters": "refuse",
            "prometheusAnnotations": False,
            "events": False,
            "sidecar": {"resources": quantities, "journalSize": "1Gi"},
            "redirect": {"resources": quantities},
            "noProxy": [".internal", "10.0.0.0/8"],
            "cluster": {"domain": "example.org", "ranges": ["10.96.0.0/16", "fd00::/108"]},
            "excludedNamespaces": ["vault"],
            "certificates": {
                "mode": "secret",
                "secretName": "tls",
                "lifetime": "60s",
                "authorityLifetime": "1h",
            },
        },
    )
    read = {kind: {name: str(value) for name, value in one.items()} for kind, one in quantities.items()}
    assert said == Settings(
        image="registry.example/waterclock:dev",
        image_pull_policy="Never",
        intercept=Intercept.REDIRECT,
        old_clusters=OldClusters.REFUSE,
        prometheus_annotations=False,
        resources=read,
        redirect_resources=read,
        journal_size="1Gi",
        no_proxy=(".internal", "10.0.0.0/8"),
        cluster_domain="example.org",
        cluster_ranges=("10.96.0.0/16", "fd00::/108"),
        excluded_namespaces=(*OWN, "vault"),
        certificates=Certificates(CertificateMode.SECRET, "tls", 60 * SECOND, 3600 * SECOND),
        events=False,
    )


@pytest.mark.parametrize(
    ("image", "composed"),
    [
        ({}, f"waterclock/waterclock:{proxy.__version__}"),
        ({"tag": "dev"}, "waterclock/waterclock:dev"),
        ({"repository": "localhost:5000/waterclock"}, f"localhost:5000/waterclock:{proxy.__version__}"),
        ({"tag": "dev", "digest": f"sha256:{'0' * 64}"}, f"waterclock/waterclock@sha256:{'0' * 64}"),
    ],
)
def test_there_is_one_image(render: Render, image: Values, composed: str) -> None:
    """The injector runs what it injects, and the test too."""
    values = {"image": image}
    assert settings(render, values).image == composed
    [injector] = render.one("Deployment", values=values)["spec"]["template"]["spec"]["containers"]
    [test] = render.one("Pod", "waterclock-test", values)["spec"]["containers"]
    assert injector["image"] == test["image"] == composed


def test_changed_settings_restart_the_injector_and_a_changed_policy_does_not(render: Render) -> None:
    """It reads its settings when it starts, and follows the policy."""

    def template(values: Values) -> Any:
        return render.one("Deployment", values=values)["spec"]["template"]

    assert template({"noProxy": [".svc"]}) != template({})
    assert template({"policy": {"mode": "observe"}}) == template({})


def test_files_are_where_the_process_is_told(render: Render) -> None:
    """One volume, which the kubelet keeps up to date."""
    spec = render.one("Deployment")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    [mount] = container["volumeMounts"]
    [volume] = spec["volumes"]
    assert "subPath" not in mount
    sources = [source["configMap"] for source in volume["projected"]["sources"]]
    files = {f"{mount['mountPath']}/{item['path']}" for source in sources for item in source["items"]}
    assert files == {argument for argument in container["args"] if argument.startswith("/")}
    for source in sources:
        assert render.one("ConfigMap", source["name"])["data"].keys() == {
            item["key"] for item in source["items"]
        }


def test_no_policy_is_the_built_in_one(render: Render) -> None:
    """Whichever way nothing is said."""
    ways: list[Any] = [{}, None, "", "# to be written\n"]
    for nothing in ways:
        assert policy(render, nothing) == Policy()


def test_a_policy_may_be_a_text(render: Render) -> None:
    """It arrives as it was written, comments and all."""
    rendered = render.one("ConfigMap", "waterclock-injector-policy", {"policy": EXAMPLE})
    assert rendered["data"]["waterclock.yaml"].rstrip() == EXAMPLE.rstrip()


def test_a_text_may_begin_with_spaces(render: Render) -> None:
    """Its indentation is not taken for that of the block that it stands in."""
    assert policy(render, "  mode: observe\n  limit: 5\n") == parse("mode: observe\nlimit: 5")


def test_the_full_example_works_as_values(render: Render) -> None:
    """Every key passes the schema, read as Helm reads values, and means what it means in a file.

    But for the order of keys, which Helm does not keep, and which means nothing; that of stages is given apart.
    """

    def in_order(policy: Policy) -> Policy:
        routes = tuple(
            replace(route, ladder=tuple(map(set_in_order, route.ladder))) for route in policy.routes
        )
        return replace(policy, routes=routes)

    def set_in_order(rung: Rung) -> Rung:
        if rung.change is not None:
            rung = replace(rung, change=replace(rung.change, json=tuple(sorted(rung.change.json, key=str))))
        if rung.answer is not None and rung.answer.content_type == "application/json":
            body = json.dumps(json.loads(rung.answer.body), sort_keys=True).encode()
            rung = replace(rung, answer=replace(rung.answer, body=body))
        return rung

    rendered = policy(render, helm_python.values_from_yaml(EXAMPLE))
    assert in_order(rendered) == in_order(parse(EXAMPLE, has_files=False))


def test_on_is_written_back(render: Render) -> None:
    """Helm's reader takes the key for `true`."""
    text = "routes: [{name: a, retries: {on: [503]}}, {name: b, retries: {max: 1, on: [connect_failed]}}]"
    values = helm_python.values_from_yaml(text)
    assert values["routes"][0]["retries"] == {"true": [503]}
    rendered = render.one("ConfigMap", "waterclock-injector-policy", {"policy": values})
    assert yaml.safe_load(rendered["data"]["waterclock.yaml"])["routes"] == [
        {"name": "a", "retries": {"on": [503]}},
        {"name": "b", "retries": {"max": 1, "on": ["connect_failed"]}},
    ]


def test_large_numbers_stay_numbers(render: Render) -> None:
    """Helm keeps numbers as floats."""
    assert policy(render, helm_python.values_from_yaml("limit: 1000000")).limit == 1_000_000


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"depht": 4}, "/policy.*depht"),
        ({"mode": "dream"}, "/policy/mode.*enforce"),
        ({"budget": {"default": 10}}, "/policy/budget/default.*string"),
        ({"budget": {"default": "10"}}, "/policy/budget/default"),
        ({"limit": "many"}, "/policy/limit.*integer"),
        ({"routes": [{"match": {"host": "a"}}]}, "/policy/routes/0.*name"),
        ([], "/policy.*object"),
        ("mode: [", "policy: this text is not valid YAML"),
    ],
)
def test_a_mistake_in_the_policy_is_found_while_rendering(render: Render, wrong: Any, said: str) -> None:
    """With the place it is in, before anything is installed."""
    with pytest.raises(helm_python.HelmError, match=said):
        render({"policy": wrong})


def test_the_test_knows_whether_calls_are_held(render: Render) -> None:
    """Under `observe` a call without time passes, and that is no fault."""
    for value, mode in (({}, "enforce"), ({"mode": "observe"}, "observe"), ("mode: observe", "observe")):
        [container] = render.one("Pod", "waterclock-test", {"policy": value})["spec"]["containers"]
        assert container["args"][-1] == mode


def test_the_test_sends_the_file(render: Render) -> None:
    """The program in the pod is the one that is tested here."""
    [container] = render.one("Pod", "waterclock-test")["spec"]["containers"]
    program = (ROOT / "charts/waterclock/files/budgeted-call.py").read_text()
    assert container["args"][0].strip() == program.strip()


def test_where_the_order_of_stages_counts_the_values_give_it(render: Render) -> None:
    """Helm sorts the keys of a mapping, so that what carries over would go to another stage without a word."""
    budget = "{default: 10s, carry: true, stages: {llm: 5s, formatting: 1s}}"
    with pytest.raises(helm_python.HelmError, match=r"add policy\.budget\.order"):
        policy(render, helm_python.values_from_yaml(f"budget: {budget}"))
