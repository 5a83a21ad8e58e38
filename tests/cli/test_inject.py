"""`waterclock inject`: manifests with the sidecar in them, as the injector would make them, for people and for GitOps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import main
from proxy.cli.manifests import split, write

DEPLOYMENT = """\
# The planner.
apiVersion: apps/v1
kind: Deployment
metadata: {name: planner, namespace: agents}
spec:
  replicas: 2
  template:
    metadata:
      labels: {app: planner}
    spec:
      containers:
      - {name: planner, image: "example/planner:1"}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: planner   # a comment, and odd   spaces
spec: {ports: [{port: 80, targetPort: 10801}]}
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: solo}\nspec: {containers: [{name: a, image: b}]}\n"
HOST = "apiVersion: v1\nkind: Pod\nmetadata: {name: node}\nspec: {hostNetwork: true, containers: [{name: a, image: b}]}\n"
REDIRECT = POD.replace("{name: solo}", "{name: solo, annotations: {waterclock.dev/intercept: redirect}}")
BAD = POD.replace("{name: solo}", "{name: solo, annotations: {waterclock.dev/observe: sometimes}}")

DEEP = "x0: &x0 []\n" + "".join(f"x{i}: &x{i} {'[' * 25}*x{i - 1}{']' * 25}\n" for i in range(1, 50))

TEMPLATES = {
    "Pod": (),
    "PodTemplate": ("template",),
    "ReplicationController": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def inject(text: str, *words: str) -> Result:
    """The command, with a text on its standard input."""
    return CliRunner().invoke(main, ["inject", "-f", "-", *words], input=text.encode())


def documents(result: Result) -> list[Any]:
    """What it printed, read by somebody else's code."""
    assert result.exit_code == 0, result.output
    return [*yaml.safe_load_all(result.stdout)]


def holder(kind: str, pod: dict[str, Any]) -> dict[str, Any]:
    """An object of a kind with this pod in it."""
    value: Any = pod
    for step in reversed(TEMPLATES[kind]):
        value = {step: value}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "one"}, **value}


def first_init_container(document: Any) -> str:
    """The name of the first init container of the pod in a document."""
    for step in TEMPLATES[document["kind"]]:
        document = document[step]
    name: str = document["spec"]["initContainers"][0]["name"]
    return name


@pytest.mark.parametrize("kind", TEMPLATES)
def test_every_kind_that_holds_a_pod(kind: str) -> None:
    """Its pod is found and injected, with metadata or without; what was decided is told on standard error."""
    document = holder(kind, {"spec": {"containers": [{"name": "a", "image": "b"}]}})
    result = inject(yaml.safe_dump(document))
    [found] = documents(result)
    assert first_init_container(found) == "waterclock"
    assert result.stderr.startswith(
        f"standard input:1: {kind} one: injected (Injected). The sidecar was added."
    )


def test_lists_of_objects() -> None:
    """As `kubectl get -o yaml` prints them, nested too; what is no pod in them stays."""
    items = [holder("Pod", {"spec": {"containers": [{"name": "a"}]}}), yaml.safe_load(SERVICE), 7]
    whole = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "PodList", "items": items}]}
    [found] = documents(inject(json.dumps(whole)))
    pod, service, seven = found["items"][0]["items"]
    assert first_init_container(pod) == "waterclock"
    assert (service, seven) == (items[1], 7)
    untyped = {"kind": "PodList", "items": [{"spec": {"containers": [{"name": "a"}]}}]}
    assert documents(inject(json.dumps(untyped)))[0]["items"][0]["spec"]["initContainers"]


def test_what_is_not_changed_is_printed_as_it_was() -> None:
    """Byte for byte, with its comments: a Service, a pod that is passed over, an object nobody here knows."""
    other = "%YAML 1.1\n---\nkind: [Deployment]\nx: &a {deep: 1}\ny: *a\n...\n"
    for text in (SERVICE, HOST, other, "# nothing\n---\n" + SERVICE):
        assert inject(text).stdout == text
    stream = f"{SERVICE}---\n{DEPLOYMENT}---\n{HOST}"
    printed = inject(stream).stdout
    assert printed.startswith(f"{SERVICE}---\napiVersion: apps/v1\nkind: Deployment\n")
    assert printed.endswith(f"---\n{HOST}")


def test_the_order_of_keys_is_kept_and_texts_stay_texts() -> None:
    """What kubectl would read as a number or a truth is written in quotes; several lines stay lines."""
    annotations = {
        "sha": "12e4",
        "on": "y",
        "mode": "0o644",
        "version": "1.10",
        "time": "2026-01-01",
        "no": "null",
    }
    pod = {
        "metadata": {"name": "z", "annotations": annotations},
        "spec": {"containers": [{"name": "a", "args": ["x\ny\n"]}]},
    }
    result = inject(json.dumps({"kind": "Pod", **pod}))
    [found] = documents(result)
    assert [*found] == ["kind", "metadata", "spec"]
    assert found["metadata"]["annotations"].items() >= annotations.items()
    assert "sha: '12e4'" in result.stdout
    assert "'on': 'y'" in result.stdout
    assert "mode: '0o644'" in result.stdout
    assert "- |\n      x\n      y\n" in result.stdout


def test_values_mean_what_they_mean_to_kubectl() -> None:
    """It reads the octal numbers of YAML 1.2, exponents without a point, and keys that are no texts as texts."""
    extra = "mode: 0o644, old: 0644, big: 1e3, small: 1.5E-1, yes: y, day: 2026-01-01, time: 22:30, 7: 1, quoted: '1e3'"
    [found] = documents(inject(f"{POD}extra: {{{extra}}}\n"))
    assert found["extra"] == {
        "mode": 420,
        "old": 420,
        "big": 1000.0,
        "small": 0.15,
        "true": True,
        "day": "2026-01-01",
        "time": "22:30",
        "7": 1,
        "quoted": "1e3",
    }


def test_its_own_output_again() -> None:
    """Nothing is changed, not a byte, and the reason is told."""
    once = inject(DEPLOYMENT).stdout
    again = inject(once)
    assert again.stdout == once
    assert "planner: skipped (AlreadyInjected)" in again.stderr


def test_a_pod_that_opts_out_is_not_injected() -> None:
    """Being asked for here counts as a namespace's label: the pod's own word wins."""
    text = POD.replace("{name: solo}", "{name: solo, annotations: {waterclock.dev/inject: disabled}}")
    result = inject(text)
    assert result.stdout == text
    assert "skipped (OptedOut)" in result.stderr
    assert inject(POD, "--namespace-label", "waterclock.dev/inject=disabled").stdout == POD


def test_the_namespace_matters() -> None:
    """Its name and its labels: those of the object, else those that were named."""
    assert "skipped (ExcludedNamespace)" in inject(POD, "--namespace", "kube-system").stderr
    assert "skipped" not in inject(DEPLOYMENT, "--namespace", "kube-system").stderr
    result = inject(REDIRECT, "--namespace-label", "pod-security.kubernetes.io/enforce=restricted")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "refused (RedirectForbidden)" in result.stderr


def test_a_refused_pod_holds_everything_back() -> None:
    """Half a stream in `kubectl apply -f -` would be worse than none; the reason has the remedy."""
    result = inject(f"{DEPLOYMENT}---\n{BAD}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert '"sometimes" is neither true nor false; write "true" or "false"' in result.stderr
    assert "standard input:14: Pod solo: refused (BadAnnotation)" in result.stderr


@pytest.mark.parametrize(
    ("version", "place"),
    [
        ("1.28", "containers"),
        ("1.29", "initContainers"),
        ("v1.34.2", "initContainers"),
        ("1.28.9+k3s1", "containers"),
        ("2.0", "initContainers"),
    ],
)
def test_the_clusters_version(version: str, place: str) -> None:
    """From 1.29 on sidecars are native."""
    [found] = documents(inject(POD, "--kubernetes-version", version))
    assert found["spec"][place][0]["name"] == "waterclock"


def test_settings_and_image(tmp_path: Path) -> None:
    """The injector's own settings, and an image in front of them."""
    settings = tmp_path / "injector.yaml"
    settings.write_text("image: a/b:1\nintercept: redirect\n")
    [found] = documents(inject(POD, "--config", str(settings), "--image", "c/d:2"))
    images = [each["image"] for each in found["spec"]["initContainers"]]
    assert images == ["c/d:2", "c/d:2"]


def test_the_policy_comes_along(tmp_path: Path) -> None:
    """In front of the pods, once for each namespace that has one of them, readable as it was written."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text("budget: {default: 30s}  # a comment\nroutes: []\n")
    result = inject(f"{POD}---\n{DEPLOYMENT}---\n{HOST}", "--with-policy", str(policy))
    first, second, *rest = documents(result)
    assert [each["metadata"] for each in (first, second)] == [
        {"name": "waterclock-policy"},
        {"name": "waterclock-policy", "namespace": "agents"},
    ]
    assert first["data"] == {"waterclock.yaml": policy.read_text()}
    assert "  waterclock.yaml: |\n    budget: {default: 30s}  # a comment\n" in result.stdout
    assert len(rest) == 3


def test_a_policy_with_a_fault_is_not_printed(tmp_path: Path) -> None:
    """With the line."""
    policy = tmp_path / "waterclock.yaml"
    policy.write_text("budget: {default: 30}\n")
    result = inject(POD, "--with-policy", str(policy))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{policy}:1: budget.default" in result.stderr


def test_an_explanation_instead() -> None:
    """All that would be changed, with the reason; a refused pod is explained too, and is the status."""
    result = inject(f"{DEPLOYMENT}---\n{BAD}", "--explain")
    assert result.exit_code == 1
    assert (
        "standard input:2: Deployment agents/planner: injected (Injected)\n  The sidecar was added."
        in result.stdout
    )
    assert "  add /spec/initContainers: waterclock\n" in result.stdout
    assert "standard input:14: Pod solo: refused (BadAnnotation)\n" in result.stdout
    told = json.loads(inject(f"{DEPLOYMENT}---\n{HOST}", "--explain", "-o", "json").stdout)
    assert [(each["kind"], each["namespace"], each["name"], each["reason"]) for each in told] == [
        ("Deployment", "agents", "planner", "Injected"),
        ("Pod", "", "node", "HostNetwork"),
    ]


def test_a_patch_instead() -> None:
    """One document of RFC 6902 for each object, from the object's own root: `kubectl patch --type=json` takes it."""
    result = inject(f"{DEPLOYMENT}---\n{HOST}", "--patch")
    decoder = json.JSONDecoder()
    patch, end = decoder.raw_decode(result.stdout)
    assert json.loads(result.stdout[end:]) == []
    assert jsonpatch.apply_patch(yaml.safe_load(DEPLOYMENT), patch) == documents(inject(DEPLOYMENT))[0]
    items = {"kind": "List", "items": [yaml.safe_load(POD)]}
    [patch] = [json.loads(inject(json.dumps(items), "--patch").stdout)]
    assert jsonpatch.apply_patch(items, patch) == documents(inject(json.dumps(items)))[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\n  spec: 1\n", "standard input:2:7: this is not valid YAML"),
        (f"{SERVICE}---\nkind: Pod\nspec: {{a: [}}\n", "standard input:8:12: this is not valid YAML"),
        (
            f"{SERVICE}---\nkind: Pod\nspec: {{containers: []}}\n",
            "standard input:7: Pod (no name): This is no pod: spec.containers is empty",
        ),
        (
            "kind: Deployment\nspec: {}\n",
            "standard input:1: Deployment (no name): This is no pod: it is no mapping",
        ),
        (
            f"# a\n---\n{POD}x: !!set {{a}}\n",
            "standard input:7: a value with the tag tag:yaml.org,2002:set stands here",
        ),
        (f"{POD}x: !mine 1\n", "standard input:5: a value with the tag !mine stands here"),
        (f"{POD}x: &a [*a]\n", "standard input:5: this alias stands within what it names"),
        (f"{POD}x: {'[' * 40}{']' * 40}\n", "is nested more than 32 deep"),
        (f"{POD}x: {'1' * 5000}\n", "standard input:1: this cannot be read: Exceeds the limit"),
        (f"{POD}{DEEP}", "standard input:1: this cannot be read: maximum recursion depth exceeded"),
        (
            "kind: Pod\nx: \x01\n",
            "standard input:2: this is not valid YAML: control characters are not allowed",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- kind: Service\n- kind: Pod\n",
            "standard input:5: Pod (no name): This is no pod: spec is missing",
        ),
    ],
)
def test_input_that_is_not_what_it_should_be(text: str, said: str) -> None:
    """Status 2, the file and the line, and nothing printed that could be applied."""
    result = inject(text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Each with what to do; several are read in their order."""
    missing, binary, good = tmp_path / "none.yaml", tmp_path / "x.yaml", tmp_path / "good.yaml"
    binary.write_bytes(b"a: b\nc: \xff\n")
    good.write_bytes(b"\xef\xbb\xbf" + POD.encode())
    for path, said in (
        (missing, "cannot be read: No such file"),
        (binary, f"{binary}:2: byte 9 is not UTF-8"),
    ):
        result = CliRunner().invoke(main, ["inject", "-f", str(good), "-f", str(path)])
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr
    result = CliRunner().invoke(main, ["inject", "-f", str(good), "-f", str(good)])
    assert len(documents(result)) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--kubernetes-version", "new"],
        ["--namespace-label", "restricted"],
        ["--explain", "--patch"],
        ["-o", "yaml"],
    ],
)
def test_options_that_make_no_sense(words: list[str]) -> None:
    """Status 2, and nothing printed."""
    result = inject(POD, *words)
    assert (result.exit_code, result.stdout) == (2, "")


def test_nothing_in_nothing_out() -> None:
    """An empty stream is one of no documents."""
    result = inject("# only a comment\n---\n")
    assert result.exit_code == 0
    assert result.stderr == ""


SCALARS = st.one_of(
    st.text(),
    st.from_regex(r"[-+0-9._eExXoOyYnN~]{1,6}", fullmatch=True),
    st.sampled_from(
        ["yes", "off", "null", "~", "<<", "=", "0b1", "1:30", "2026-01-01", ".inf", "- a", "a: b", "#", "y"]
    ),
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(VALUES)
def test_what_is_written_is_read_as_the_same(value: Any) -> None:
    """By the reader here and, for texts that are no numbers of YAML 1.2, by any other."""
    from proxy.cli.manifests import Document, read

    text = write({"x": value})
    assert read(Document("x", 1, text, "Pod"))[0] == {"x": value}
    assert yaml.safe_load(text) == {"x": value}


@given(
    st.lists(
        st.sampled_from([DEPLOYMENT, SERVICE, POD, "", "# 水\n", "a: '---'\n", "b: |\n  ---\n  c\n"]),
        max_size=6,
    )
)
def test_a_stream_is_taken_apart_without_losing_a_byte(parts: list[str]) -> None:
    """Documents put one behind the other are the stream, but for those with nothing in them."""
    stream = "---\n".join(parts)
    found = split(stream, "x")
    assert [each.kind for each in found if each.kind] == [
        kind for part in parts for kind in ("Deployment", "Service", "Pod") if f"\nkind: {kind}\n" in part
    ]
    lines = stream.splitlines()
    for each in found:
        assert each.text.splitlines() == lines[each.line - 1 : each.line - 1 + len(each.text.splitlines())]


def test_it_is_light() -> None:
    """No client of Kubernetes, no web server: it runs in pipelines, and in a hook."""
    code = "import sys; from proxy.cli import main; main(['inject', '-f', '-'], standalone_mode=False); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], input=POD, capture_output=True, text=True, check=True)
    modules = done.stdout.rpartition("\n[")[2]
    assert not [
        name for name in ("kubernetes", "aiohttp", "cryptography", "uvloop", "rich") if f"'{name}'" in modules
    ]
