"""A Prometheus asked over HTTP: what it says is taken as it is, and what is none is told from it, with what helps."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from proxy.tuning import asking
from proxy.tuning.asking import Prometheus, Series
from proxy.tuning.faults import Untunable
from tests.support.ports import free_port
from tests.tuning.serving import Answer, Asked, serving


def vector(*series: tuple[dict[str, str], str], **more: Any) -> Answer:
    result = [{"metric": labels, "value": [1_796_000_000.1, value]} for labels, value in series]
    return said({"status": "success", "data": {"resultType": "vector", "result": result}, **more})


def said(document: Any, status: int = 200) -> Answer:
    return Answer(json.dumps(document).encode(), status)


def test_a_vector() -> None:
    """The query goes as it is; labels and values come back, whatever the numbers are."""
    asked: list[Asked] = []

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return vector(({"stage": "llm", "le": "+Inf"}, "12.5"), ({}, "NaN"))

    with serving(answer) as port:
        found = Prometheus(f"http://127.0.0.1:{port}/prom/").query('sum by (le) (x{a="b&c"})')
    assert found[0] == Series({"stage": "llm", "le": "+Inf"}, 12.5)
    assert str(found[1].value) == "nan"
    target = urlsplit(asked[0].target)
    assert (target.path, parse_qs(target.query)) == (
        "/prom/api/v1/query",
        {"query": ['sum by (le) (x{a="b&c"})']},
    )


def test_credentials() -> None:
    """In the address, or as a header, which goes first; neither is ever shown."""
    asked: list[Asked] = []

    def answer(request: Asked) -> Answer:
        asked.append(request)
        return vector()

    with serving(answer) as port:
        url = f"http://me:p%40ss@127.0.0.1:{port}"
        prometheus = Prometheus(url)
        prometheus.query("up")
        Prometheus(url, [("Authorization", "Bearer t"), ("X-Scope-OrgID", "agents")]).query("up")
    assert asked[0].headers["Authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert (asked[1].headers["Authorization"], asked[1].headers["X-Scope-OrgID"]) == ("Bearer t", "agents")
    assert prometheus.name == f"http://127.0.0.1:{port}"


def test_warnings_are_kept() -> None:
    """Part of a store was not there: a figure may be too small. Each is said once."""
    with serving(lambda _: vector(warnings=["store-1 timed out\x1b[31m"])) as port:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        prometheus.query("up")
        prometheus.query("up")
    assert prometheus.warnings == [f"http://127.0.0.1:{port} warns: store-1 timed out?[31m."]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (said({"status": "error", "errorType": "bad_data", "error": "parse error\n\x1b"}, 400), r"refuses the query 'up': parse error\?\?\."),
        (Answer(b"no", 401), r"asks for credentials \(status 401\)\.\n.*\n  --header 'Authorization"),
        (Answer(b"", 302, (("Location", "https://login/"),)), r"leads on to https://login/\.\nName that place"),
        (Answer(b"<html>", 200), "does not speak as Prometheus: it answers 200 and no JSON"),
        (Answer(b"not found", 404), "it answers 404 and no JSON"),
        (said([]), "it answers 200 and no JSON"),
        (said({"status": "success"}), "its answer is no vector"),
        (said({"status": "success", "data": {"resultType": "matrix", "result": []}}), "no vector"),
        (said({"status": "success", "data": {"resultType": "vector", "result": [{"metric": [], "value": [1]}]}}), "no vector"),
        (said({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}}), "no vector"),
        (said({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": []}]}}), "no vector"),
        (said({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, 10**400]}]}}), "no vector"),
        (Answer(b"[" * 100_000), "no JSON"),
    ],
)  # fmt: skip
def test_what_is_no_answer(answer: Answer, says: str) -> None:
    """It is said what it was, and what helps."""
    with serving(lambda _: answer) as port, pytest.raises(Untunable, match=says):
        Prometheus(f"http://127.0.0.1:{port}").query("up")


def test_an_answer_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read up to a bound."""
    monkeypatch.setattr(asking, "MOST_BYTES", 1000)
    with (
        serving(lambda _: Answer(b" " * 5000)) as port,
        pytest.raises(Untunable, match="more than 1000 bytes"),
    ):
        Prometheus(f"http://127.0.0.1:{port}").query("up")


def test_nobody_is_there() -> None:
    """How it is reached from outside the cluster is said."""
    with pytest.raises(
        Untunable, match=r"cannot be asked: connection refused\.\n(.|\n)*kubectl port-forward"
    ):
        Prometheus(f"http://127.0.0.1:{free_port()}").query("up")


def test_one_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for without an end."""
    from tests.cli.controls import answering

    monkeypatch.setattr(asking, "PATIENCE_S", 0.2)
    with answering(None) as port, pytest.raises(Untunable, match=r"nothing came within 0\.2 s"):
        Prometheus(f"http://127.0.0.1:{port}").query("up")


def test_one_that_speaks_something_else() -> None:
    """Another protocol."""
    from tests.cli.controls import answering

    with answering(b"220 mail\r\n\r\n") as port, pytest.raises(Untunable, match="does not speak HTTP"):
        Prometheus(f"http://127.0.0.1:{port}").query("up")


@pytest.mark.parametrize(
    "url",
    ["", "prometheus:9090", "http://", "ftp://a", "http://a:x", "http://a:99999", "http://a/?x=1", "http://a/b c", "http://[::1", "http://a/ü"],
)  # fmt: skip
def test_what_is_no_address(url: str) -> None:
    """It says how one is written."""
    with pytest.raises(Untunable, match=r"Write it like http://prometheus\.monitoring:9090"):
        Prometheus(url)


@pytest.mark.parametrize("header", [("X", "a\r\nEvil: b"), ("", "x"), ("X", "ü" * 3 + "𝄞")])
def test_headers_that_cannot_be_sent(header: tuple[str, str]) -> None:
    """Nothing else gets into the request with them."""
    with serving(lambda _: vector()) as port, pytest.raises(Untunable):
        Prometheus(f"http://127.0.0.1:{port}", [header]).query("up")
