"""The semantic cache: nothing of it is there unless it is asked for, and then it is made as all else is."""

from __future__ import annotations

import re

import click.testing
import helm_python
import jsonschema
import kubernetes_validate
import pytest

from proxy.cli import main
from proxy.config import parse
from tests.chart.foreign import FOREIGN
from tests.chart.rendering import NAMESPACE, Object, Render, Values, called, pods
from tests.chart.test_objects import RECOMMENDED, VERSIONS

NAME = "waterclock-cache"
REMOTE: Values = {
    "embeddings": "https://api.example/v1",
    "model": "small",
    "keySecret": {"name": "embeddings", "key": "apiKey"},
}


def cache(render: Render, more: Values | None = None, **cache: object) -> list[Object]:
    """All that is there because the cache is."""
    values: Values = {"cache": {"enabled": True, **cache}} | (more or {})
    before = {called(one) for one in render(more)}
    return [one for one in render(values) if called(one) not in before]


def arguments(objects: list[Object]) -> list[str]:
    """What the process is started with."""
    [spec] = pods(objects)
    [container] = spec["containers"]
    return list(container["args"])


def test_nothing_of_it_is_there_unless_it_is_asked_for(render: Render) -> None:
    assert not [one for one in render() if "cache" in called(one)]


def test_what_is_there(render: Render) -> None:
    monitored: Values = {"monitoring": {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}}
    assert {called(one) for one in cache(render, monitored)} == {
        f"Deployment {NAME}",
        f"Service {NAME}",
        f"NetworkPolicy {NAME}",
        f"PodMonitor {NAME}",
    }
    bare = cache(render, {"networkPolicy": {"enabled": False}})
    assert {one["kind"] for one in bare} == {"Deployment", "Service"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [{}, REMOTE], ids=["local", "remote"])
def test_the_api_server_would_take_it(render: Render, version: str, values: Values) -> None:
    placed = {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "podLabels": {"team": "a"},
        "podAnnotations": {"note": "b"},
        "priorityClassName": "high",
        "affinity": {"nodeAffinity": {}},
    }
    for one in cache(render, {"monitoring": {"podMonitor": {"enabled": True}}}, **values, **placed):
        if one["apiVersion"] in FOREIGN:
            jsonschema.validate(one["spec"], FOREIGN[one["apiVersion"]][one["kind"]])
        else:
            kubernetes_validate.validate(one, version, strict=True)


def test_its_objects_are_as_all_others(render: Render) -> None:
    """Labelled, in the release's namespace, restricted, and with requests and limits."""
    objects = cache(render, **REMOTE)
    for one in objects:
        assert one["metadata"]["labels"].keys() >= RECOMMENDED
        assert one["metadata"]["labels"]["app.kubernetes.io/component"] == "cache"
        assert one["metadata"]["namespace"] == NAMESPACE
    [spec] = pods(objects)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for kind in ("requests", "limits"):
        assert container["resources"][kind].keys() == {"cpu", "memory"}


def test_no_selector_finds_pods_of_the_other(render: Render) -> None:
    """Reviews do not go to the cache, nor questions to the injector."""
    objects = render({"cache": {"enabled": True}, "monitoring": {"podMonitor": {"enabled": True}}})
    labels = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in objects
        if one["kind"] == "Deployment"
    }
    assert labels.keys() == {NAME, "waterclock-injector"}
    for one in objects:
        if one["kind"] == "Service":
            found = [name for name, own in labels.items() if own.items() >= one["spec"]["selector"].items()]
            assert found == [one["metadata"]["name"]]


def test_the_command_takes_its_arguments(render: Render) -> None:
    """Each is an option of `waterclock cache`, and no key stands among them."""
    known = set(re.findall(r"--[a-z-]+", click.testing.CliRunner().invoke(main, ["cache", "--help"]).output))
    local, remote = arguments(cache(render)), arguments(cache(render, **REMOTE, entries=2_000_000))
    assert local == ["cache", "--bytes=256MiB", "--entries=50000", "--embeddings=local"]
    assert remote[2:] == ["--entries=2000000", "--embeddings=https://api.example/v1", "--model=small"]
    assert {argument.partition("=")[0] for argument in local[1:] + remote[1:]} <= known
    [spec] = pods(cache(render, **REMOTE))
    assert spec["containers"][0]["env"] == [
        {
            "name": "EMBEDDINGS_API_KEY",
            "valueFrom": {"secretKeyRef": {"name": "embeddings", "key": "apiKey"}},
        }
    ]


def test_with_local_embeddings_it_may_open_no_connection(render: Render) -> None:
    for values, types in (({}, ["Ingress", "Egress"]), (REMOTE, ["Ingress"])):
        [policy] = [one for one in cache(render, **values) if one["kind"] == "NetworkPolicy"]
        assert policy["spec"]["policyTypes"] == types
        assert "egress" not in policy["spec"]


def test_who_may_ask_it_can_be_said(render: Render) -> None:
    opted_in = [{"namespaceSelector": {"matchLabels": {"waterclock.dev/inject": "enabled"}}}]
    some: Values = {"from": opted_in}
    for values, wanted in (Values(), None), (some, opted_in):
        [policy] = [one for one in cache(render, **values) if one["kind"] == "NetworkPolicy"]
        kubernetes_validate.validate(policy, VERSIONS[-1], strict=True)
        assert policy["spec"]["ingress"][0].get("from") == wanted


def test_the_notes_tell_how_sidecars_find_it(render: Render) -> None:
    """What they say is a policy, and the port is that of the Service."""
    [line] = re.findall(r"^ {5}(cache: .*)$", render.notes({"cache": {"enabled": True}}), re.MULTILINE)
    service = parse(line).cache.service
    assert service is not None
    [found] = [one for one in cache(render) if one["kind"] == "Service"]
    assert service.host == f"{NAME}.{NAMESPACE}.svc"
    assert service.port == found["spec"]["ports"][0]["port"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"enabled": "yes"}, "/cache/enabled.*boolean"),
        ({"embeddings": "openai"}, "/cache/embeddings"),
        ({"bytes": "256Mi"}, "/cache/bytes"),
        ({"entries": 0}, "/cache/entries"),
        ({"keySecret": {"name": "a"}}, "/cache/keySecret"),
        ({"replicas": 2}, "/cache.*replicas"),
    ],
)
def test_what_is_no_value_is_refused(render: Render, values: Values, said: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=said):
        render({"cache": values})


def test_it_has_an_image_of_its_own(render: Render) -> None:
    """That of the sidecars carries nothing that compares texts."""
    for values, image in (
        ({}, "waterclock/waterclock:9-cache"),
        ({"image": "registry/other:1"}, "registry/other:1"),
    ):
        [spec] = pods(cache(render, {"image": {"repository": "waterclock/waterclock", "tag": "9"}}, **values))
        assert [container["image"] for container in spec["containers"]] == [image]
