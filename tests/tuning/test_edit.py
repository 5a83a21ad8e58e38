"""The policy's text, edited in place: it says exactly what was proposed, and all else is as it was."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import parse
from proxy.core.policy import Share
from proxy.core.units import MILLISECOND, SECOND
from proxy.tuning.edit import Changes, changed, edited
from proxy.tuning.faults import Untunable
from tests.tuning.telling import POLICY_TEXT


def edit(text: str, shares: dict[str, int] | None = None, slack: int | None = None, **needs: int) -> str:
    """Spans are given in milliseconds, needs by the rung of the route `chat`."""
    spans = {stage: ms * MILLISECOND for stage, ms in (shares or {}).items()}
    rungs = {("chat", rung): ms * MILLISECOND for rung, ms in needs.items()}
    changes = Changes(spans, None if slack is None else slack * MILLISECOND, rungs)
    return edited(text, "waterclock.yaml", parse(text, has_files=False), changes)


def test_everything_else_stays() -> None:
    """Comments, order, quotes, blanks: by the lines that are another."""
    text = edit(POLICY_TEXT, {"retrieval": 900, "llm": 7000}, 200, full=4000, fast=1250)
    assert text == (
        POLICY_TEXT.replace("retrieval: 1500ms #", "retrieval: 900ms #")
        .replace('llm: "5500ms"', 'llm: "7s"')
        .replace("slack: 500ms", "slack: 200ms")
        .replace("needs: 5s", "needs: 4s")
        .replace("fast      # the small one\n", "fast      # the small one\n        needs: 1250ms\n")
    )
    assert edit(POLICY_TEXT) == POLICY_TEXT


BUDGETS = {
    "flow": "budget: {default: 10s, stages: {a: 1s, 'b': '2s'}} # all of it",
    "flow with a comma": "budget: {stages: {a: 1s, b: 2s, }, default: 10s}",
    "flow over lines": "budget:\n  default: 10s\n  stages: {\n    a: 1s,   # first\n    b: 2s\n  }",
    "json": '{"budget": {"default": "10s", "stages": {"a": "1s", "b": "2s"}}}',
    "block": "budget:\n    stages:\n            a:   1s\n            b:\n              2s\n    default: 10s",
    "quoted keys": "'budget':\n  \"stages\":\n    'a': 1s\n    \"b\": 2s # two\n",
    "no end of line": "budget:\n  stages:\n    a: 1s\n    b: 2s",
    "other ends of lines": "budget:\r\n  stages:\r\n    a: 1s # é\r\n    b: 2s\r\nmode: observe\r\n",
    "beyond ASCII": "# für Ümläute 𝄞\nbudget:\n  stages: {a: 1s, b: 2s} # 𝄞",
    "a byte order mark": "\ufeffbudget:\n  stages:\n    a: 1s\n    b: 2s\n",
    "anchors": "budget:\n  default: 10s\n  stages:\n    a: &one 1s\n    b: !!str 2s\n",
    "a document's marks": "---\nbudget:\n  stages:\n    a: 1s\n    b: 2s\n...\n",
    "explicit keys": "budget:\n  stages:\n    ? a\n    : 1s\n    ? b\n    : 2s\n",
}


@pytest.mark.parametrize("name", [*BUDGETS])
def test_every_style(name: str) -> None:
    """As YAML may be written: the values change in place, and a new one follows the last."""
    text = BUDGETS[name]
    result = edit(text, {"a": 1500, "b": 3000})
    assert result.count("\n") == text.count("\n")
    assert result.replace("1500ms", "1s").replace("3s", "2s") == text
    if name != "explicit keys":
        stages = parse(edit(text, {"a": 1500, "b": 2500}, 250)).budget.stages
        assert [(share.stage, share.span // MILLISECOND) for share in stages] == [
            ("a", 1500),
            ("b", 2500),
            ("slack", 250),
        ]
        assert ("\r\n" in text) == ("\r\n    slack: 250ms\r\n" in edit(text, {"a": 1500}, 250))


def test_what_stays_is_not_written_anew() -> None:
    """1.5s is as good as 1500ms."""
    assert (
        edit("budget: {stages: {a: 1.50s, b: 2s}}", {"a": 1500, "b": 1000})
        == "budget: {stages: {a: 1.50s, b: 1s}}"
    )


LADDERS = {
    "flow": "routes: [{name: chat, match: {path: /a}, effect: read, ladder: [{name: big, needs: 5s}, {name: mini, set: {query: {m: mini}}}, {name: late, answer: {text: later}}]}]",
    "block": "routes:\n- name: chat\n  effect: read\n  match: {path: /a}\n  ladder:\n  - needs: 5s # long\n    name: big\n  - set:\n      query: {m: mini}\n    name: mini # the other\n  - {name: late, answer: {text: later}}\n",
    "the fallback": "fallback:\n  effect: read\n  ladder:\n    -\n      name: big\n      needs: 5s\n    - {'name': 'mini', set: {query: {m: mini}}}\n    - {name: late, answer: {text: later}}",
}


@pytest.mark.parametrize("name", [*LADDERS])
def test_needs_in_every_style(name: str) -> None:
    """Replaced where they are, added behind the name where they are not."""
    text = LADDERS[name]
    route = "fallback" if name == "the fallback" else "chat"
    changes = Changes({}, None, {(route, "big"): 4 * SECOND, (route, "mini"): SECOND})
    result = edited(text, "f", parse(text), changes)
    assert parse(result) == changed(parse(text), changes)
    kept = re.sub(r"(, |\n +)needs: 1s", "", result).replace("4s", "5s")
    assert kept == text


REFUSED = [
    ("budget: {stages: {a: &x 1s, b: *x}}", {"b": 2000}, "budget: {stages: {a: &x 1s"),
    ("budget:\n  stages:\n    a: >-\n      1s\n    b: 2s\n", {"a": 2000}, "f:3: a is written over several lines or with escapes"),
    ('budget: {stages: {a: "\\x31s", b: 2s}}', {"a": 2000}, "f:1: a is written over several lines or with escapes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shares", "says"), REFUSED)
def test_what_cannot_be_edited_is_refused(text: str, shares: dict[str, int], says: str) -> None:
    """With its line and what helps, rather than something else being changed with it."""
    changes = Changes({stage: ms * MILLISECOND for stage, ms in shares.items()}, None, {})
    with pytest.raises(Untunable) as caught:
        edited(text, "f", parse(text), changes)
    assert says in str(caught.value) or "used in several places" in str(caught.value)
    assert "plain value for each key" in str(caught.value)


def test_a_shared_value_beside_the_changed_one_is_no_matter() -> None:
    """Only what is changed has to stand alone."""
    text = "budget: {default: &ten 10s, max: *ten, stages: {a: 1s}}"
    assert edit(text, {"a": 2000}) == text.replace("1s", "2s")


def test_what_does_not_go_together_is_refused() -> None:
    """Shares that are more than the whole, needs that no step of the stage ever has: the fault of the policy is told."""
    with pytest.raises(
        Untunable, match=r"does not go together .*budget.stages.*\nChange that by hand first."
    ):
        edit(POLICY_TEXT, {"llm": 9000})
    text = POLICY_TEXT.replace("reserve: 1s", "max: 10s")
    with pytest.raises(Untunable, match=r"routes\[1\].ladder\[0\].needs"):
        edit(text, {"llm": 4000})


STYLES = st.sampled_from(["{}", "'{}'", '"{}"'])
KEYS = st.sampled_from(["a", "b-1", "c.d", "e_f", "on", "yes", "null", "0x1"])
BLANKS = st.sampled_from(["", " ", "   "])
COMMENTS = st.sampled_from(["", " # why: {a: 1s}", "  # 𝄞 'quoted\"", " #"])


@st.composite
def written(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """A policy with stages in one of many hands, and other shares for them."""
    names = draw(st.lists(KEYS, min_size=1, max_size=5, unique=True))
    flow = draw(st.booleans())
    entries, others = [], {}
    for name in names:
        key = draw(STYLES).format(name)
        value = draw(STYLES).format(f"{draw(st.integers(1, 60_000))}ms")
        entries.append(f"{key}: {draw(BLANKS)}{value}")
        if draw(st.booleans()):
            others[name] = draw(st.integers(1, 60_000))
    if flow:
        body = (
            " {"
            + draw(BLANKS)
            + f",{draw(BLANKS)} ".join(entries)
            + draw(BLANKS)
            + "}"
            + draw(COMMENTS)
            + "\n"
        )
    else:
        indent = " " * draw(st.integers(3, 6))
        body = "".join(f"\n{indent}{entry}{draw(COMMENTS)}" for entry in entries) + "\n"
    return f"mode: observe\nbudget:{draw(COMMENTS)}\n  default: 10m\n  stages:{body}limit: 7 # last\n", others


@given(written(), st.none() | st.integers(0, 60_000))
def test_a_diff_applied_says_exactly_what_was_proposed(
    text_and_shares: tuple[str, dict[str, int]], slack: int | None
) -> None:
    """Whatever the hand it is written in; the lines that hold no changed value are untouched."""
    text, shares = text_and_shares
    before = parse(text)
    result = edit(text, shares, slack)
    spans = {share.stage: share.span for share in before.budget.stages} | {
        stage: ms * MILLISECOND for stage, ms in shares.items()
    }
    stages = tuple(Share(stage, span) for stage, span in spans.items())
    if slack is not None:
        stages += (Share("slack", slack * MILLISECOND),)
    assert parse(result) == replace(before, budget=replace(before.budget, stages=stages))
    old, new = text.split("\n"), result.split("\n")
    assert [line for line in old if "#" in line][-1] == [line for line in new if "#" in line][-1]
    assert yaml.safe_load(result)["mode"] == "observe"
    assert sum(line not in old for line in new) <= len(shares) + 1
