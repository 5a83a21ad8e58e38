"""What somebody else has said does not speak to the terminal of whoever looks at it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.cli import main, output
from proxy.cli.control import ControlApi
from proxy.cli.output import harmless, one_line, tame
from proxy.core.writes import LateAnswer, WriteState
from tests.admin.jobs import tangled
from tests.admin.writes import Sidecar, write
from tests.cli.controls import Commands, answering, serving
from tests.tuning import telling

ESCAPES = ["\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "\x08\x08\x08", "a\rb", "\x1b]8;;http://evil\x1b\\link", "\u202egnp", "\u2028line", "\x00"]  # fmt: skip
SPEAKS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# A pipe gets no colours, so that an escape in what is printed can only be a foreign one.


@pytest.fixture
def documents(tmp_path: Path) -> dict[str, Any]:
    """What the control API says of a job with each kind of step, and of a write with a late answer."""
    answer = LateAnswer(201, (("x-note", "hello"),), b"made", 4, 1.0)
    sidecar = Sidecar(write("w1"), write("w2", state=WriteState.REPORTED, answer=answer))
    tangled(sidecar.ledger, "run-42")
    with serving(sidecar) as port:
        asked = Commands(tmp_path, port)
        return {
            "budgets": json.loads(asked.good("budgets", "--json")),
            "record": json.loads(asked.good("budgets", "run-42", "--json")),
            "timeline": json.loads(asked.good("timeline", "run-42", "--json")),
            "writes": json.loads(asked.good("uncertain", "list", "--all", "--json")),
            "write": json.loads(asked.good("uncertain", "show", "w2", "--json")),
        }


def poisoned(document: Any, evil: str) -> Any:
    """Every text of it ends in what speaks to a terminal."""
    match document:
        case str():
            return document + evil
        case dict():
            return {name: poisoned(value, evil) for name, value in document.items()}
        case list():
            return [poisoned(item, evil) for item in document]
        case _:
            return document


class Answers:
    """A control API that says this."""

    def __init__(self, documents: dict[str, Any], evil: str) -> None:
        self.documents = {name: poisoned(document, evil) for name, document in documents.items()}

    def get(self, *path: str, **query: str) -> Any:
        match path:
            case ():
                return {"endpoints": []}
            case ("budgets",):
                return self.documents["budgets"]
            case (_, _, "timeline"):
                return self.documents["timeline"]
            case ("uncertain",):
                return {"writes": self.documents["writes"], "total": 9}
            case ("uncertain", _):
                return self.documents["write"]
            case _:
                return self.documents["record"]

    def post(self, *path: str, body: Any = None) -> Any:
        return self.documents["write"] if path[0] == "uncertain" else self.documents["record"]


COMMANDS = [
    ["budgets"],
    ["budgets", "run-42"],
    ["close", "run-42"],
    ["timeline", "run-42"],
    ["uncertain", "list"],
    ["uncertain", "show", "w2"],
    ["uncertain", "resolve", "w2", "--applied"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_what_speaks_to_a_terminal(
    documents: dict[str, Any], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text of what it shows may come from a caller, a tool or a server of another kind."""
    for evil in ESCAPES:
        api = Answers(documents, evil)
        monkeypatch.setattr(ControlApi, "get", lambda _, *path, api=api, **query: api.get(*path, **query))
        monkeypatch.setattr(
            ControlApi, "post", lambda _, *path, api=api, body=None: api.post(*path, body=body)
        )
        printed = Commands(tmp_path, 1).good(*words)
        assert (words, evil, SPEAKS.findall(printed)) == (words, evil, [])


def test_the_check_can_fail(
    documents: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what neutralises them, escapes come through."""
    api = Answers(documents, ESCAPES[0])
    monkeypatch.setattr(ControlApi, "get", lambda _, *path, **query: api.get(*path, **query))
    monkeypatch.setattr(output, "harmless", str)
    assert SPEAKS.search(Commands(tmp_path, 1).good("budgets", "run-42"))


@pytest.mark.parametrize("evil", ESCAPES)
def test_a_refusal_of_somebody_else_is_tamed_too(tmp_path: Path, evil: str) -> None:
    body = json.dumps({"detail": f"no{evil}", "remedy": evil}).encode()
    said = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with answering(said) as port:
        assert SPEAKS.search(Commands(tmp_path, port).bad("budgets")) is None


def test_texts_stay_what_they_are() -> None:
    """What a terminal shows anyway is shown as it is; JSON for programs escapes by itself."""
    assert harmless("größer\n\tnext") == "größer\n\tnext"
    assert one_line("a\nb\x1b") == "a\\nb\\x1b"
    assert tame({"a\x1b": [1, None, "b\r"]}) == {"a\\x1b": [1, None, "b\\x0d"]}
    assert json.dumps("\x1b\u202e") == '"\\u001b\\u202e"'


@pytest.mark.parametrize("evil", ESCAPES)
def test_a_log_of_somebody_elses_says_nothing_to_the_terminal(tmp_path: Path, evil: str) -> None:
    """`waterclock tune` reads logs: their routes, rungs and stages may be named anyhow."""
    policy, log = tmp_path / "waterclock.yaml", tmp_path / "steps.log"
    policy.write_text("budget: {default: 10s, stages: {llm: 5s}}\n")
    names: dict[str, Any] = dict.fromkeys(("stage", "route", "rung", "budget_id"), f"x{evil}")
    log.write_bytes(
        b"".join(telling.line(**names | {"stage": stage}) for stage in ("llm", f"s{evil}") for _ in range(40))
    )
    result = CliRunner().invoke(main, ["tune", "-c", str(policy), str(log)])
    assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit)
    assert SPEAKS.search(result.output) is None
