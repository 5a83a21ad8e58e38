"""The engine finds faults that are planted, one for each target; it is the same for the same seed; and it makes them small."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.admin.asked import verdict_of
from proxy.config import parse as parse_policy
from proxy.core import exact_json, graphql
from proxy.core.limits import read_limits
from proxy.degrade.cache import redis_store
from proxy.degrade.cache.entry import Entry, decode
from proxy.degrade.change import changed
from proxy.degrade.endings import structured
from proxy.kube.injection import review
from proxy.kube.injection.decision import Decision
from proxy.kube.policies.budget_policy import read_budget_policy
from proxy.tuning import asking
from proxy.tuning import steplog as tuning_steplog
from proxy.wire import sniff as wire_sniff
from proxy.wire.events import END, Event, WireFault
from proxy.wire.eventstream import EventBoundary
from proxy.wire.parser import RequestParser, ResponseParser
from proxy.wire.sniff import Sniffed
from tests.wire import feeding
from trials.fuzz import corpus, growing, guided, workers
from trials.fuzz.command import main
from trials.fuzz.engine import Report, TooSlow, bounded, run, signature_of
from trials.fuzz.minimise import minimise
from trials.fuzz.registry import NAMES, load
from trials.fuzz.target import Seen, Target, hold
from trials.fuzz.targets import (
    admission,
    config,
    headers,
    redis,
    sniff,
    steplog,
)

Patch = pytest.MonkeyPatch
_ENOUGH = 4000


def _a_space_before_the_colon(patch: Patch) -> None:
    class Kind(RequestParser):
        def feed(self, data: bytes) -> list[Event]:
            return super().feed(data.replace(b" :", b":"))

    patch.setattr(feeding, "RequestParser", Kind)


def _always_reusable(patch: Patch) -> None:
    patch.setattr(feeding, "ResponseParser", type("Kind", (ResponseParser,), {"reusable": True}))


def _a_cut_body_is_whole(patch: Patch) -> None:
    whole = ResponseParser

    def eof(self: ResponseParser) -> list[Event]:
        said: list[Event] = ends(self)
        if said and isinstance(said[-1], WireFault) and said[-1].reason == "closed_in_body":
            said[-1] = END
        return said

    ends = whole.eof
    patch.setattr(whole, "eof", eof)


def _a_limit_that_raises(patch: Patch) -> None:
    reads = read_limits

    def read(fields: dict[bytes, bytes], *arguments: Any, **named: Any) -> Any:
        if fields.get(b"budget-stage", b"llm") != b"llm":
            raise KeyError("stage")
        return reads(fields, *arguments, **named)

    patch.setattr(headers, "read_limits", read)


def _an_event_is_lost(patch: Patch) -> None:
    feeds = EventBoundary.feed
    patch.setattr(EventBoundary, "feed", lambda self, data: b"" if data == b"\r" else feeds(self, data))


def _an_end_that_is_cut(patch: Patch) -> None:
    closes = structured.EventsEnding.close

    def close(self: structured.EventsEnding, mark: str) -> bytes | None:
        last = closes(self, mark)
        return last and last[:-1]

    patch.setattr(structured.EventsEnding, "close", close)


def _mutations_ask(patch: Patch) -> None:
    asks = graphql.only_asks
    patch.setattr(graphql, "only_asks", lambda text: asks(text.replace("mutation", "query")))


def _kind_json(patch: Patch) -> None:
    def load_kindly(text: bytes, most: int = 0) -> Any:
        try:
            return json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    patch.setattr(exact_json, "load", load_kindly)


def _another_place_is_changed(patch: Patch) -> None:
    sets = changed.__globals__["_set"]

    def first(document: Any, path: Any, value: Any) -> Any:
        found = sets(document, path, value)
        if isinstance(found, dict) and "n" in found:
            found["n"] = 0
        return found

    patch.setitem(changed.__globals__, "_set", first)


def _half_a_handshake_is_tls(patch: Patch) -> None:
    looks = wire_sniff.sniff
    patch.setattr(sniff, "sniff", lambda data: Sniffed.TLS if data[:2] == b"\x16\x03" else looks(data))


def _a_key_that_raises(patch: Patch) -> None:
    reads = parse_policy

    def parse(text: str, *arguments: Any, **named: Any) -> Any:
        policy = reads(text, *arguments, **named)
        if "cap" in text:
            raise KeyError("cap")
        return policy

    patch.setattr(config, "parse", parse)


def _another_uid(patch: Patch) -> None:
    def answer(uid: str, decision: Decision) -> dict[str, Any]:
        return review.answer(uid[:1], decision)

    patch.setattr(admission, "answer", answer)


def _faults_that_nobody_finds(patch: Patch) -> None:
    patch.setitem(read_budget_policy.__globals__, "_policy_faults", lambda text: ())


def _a_time_that_overflows(patch: Patch) -> None:
    reads = tuning_steplog.step_of

    def step_of(line: bytes) -> Any:
        if b'"time"' in line and b"0001-" in line:
            raise OverflowError("date value out of range")
        return reads(line)

    patch.setattr(steplog, "step_of", step_of)


def _an_entry_that_nobody_checks(patch: Patch) -> None:
    patch.setitem(decode.__globals__, "check", lambda entry: None)


def _the_entry_of_another(patch: Patch) -> None:
    brings = redis_store._brought

    def brought(key: str, value: Any, left: Any, most: int) -> tuple[Entry, int] | None:
        found: tuple[Entry, int] | None = brings(key, value, left, most)
        return found if found is None or left == 8000 else (found[0], -1)

    patch.setattr(redis, "_brought", brought)


def _a_verdict_said_twice(patch: Patch) -> None:
    patch.setitem(verdict_of.__globals__, "no_name_twice", dict)


def _a_series_that_raises(patch: Patch) -> None:
    reads = asking._series

    def series(element: dict[str, Any]) -> asking.Series:
        if "le" not in element["metric"]:
            raise ZeroDivisionError
        return reads(element)

    patch.setattr(asking, "_series", series)


PLANTED: dict[str, Callable[[Patch], None]] = {
    "requests": _a_space_before_the_colon,
    "responses": _always_reusable,
    "relay": _a_cut_body_is_whole,
    "headers": _a_limit_that_raises,
    "eventstream": _an_event_is_lost,
    "endings": _an_end_that_is_cut,
    "kinds": _mutations_ask,
    "json": _kind_json,
    "change": _another_place_is_changed,
    "sniff": _half_a_handshake_is_tls,
    "config": _a_key_that_raises,
    "admission": _another_uid,
    "policies": _faults_that_nobody_finds,
    "steplog": _a_time_that_overflows,
    "entries": _an_entry_that_nobody_checks,
    "redis": _the_entry_of_another,
    "control": _a_verdict_said_twice,
    "answers": _a_series_that_raises,
}


def test_a_fault_is_planted_for_each_target() -> None:
    """A target that was never seen to fail proves nothing."""
    assert set(PLANTED) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_fault_is_found(name: str, monkeypatch: Patch) -> None:
    """By the kept inputs or by what is made of them, and what is left of the input still shows it."""
    target = load(name)
    PLANTED[name](monkeypatch)
    report = run(target, [data for _, data in corpus.kept(name)], seed=1, runs=_ENOUGH, most_failures=1)
    assert report.failures
    for failure in report.failures[:1]:
        assert signature_of(target, failure.data) == failure.signature


@pytest.mark.parametrize("name", ["kinds", "requests", "relay"])
def test_one_seed_makes_the_same_inputs(name: str) -> None:
    """On each machine and in each run: every input, in the same order."""
    tried: list[list[bytes]] = []
    for seed in (3, 3, 4):
        tried.append([])
        run(
            load(name),
            [data for _, data in corpus.kept(name)][:20],
            seed=seed,
            runs=60,
            note=tried[-1].append,
        )
    assert tried[0] == tried[1]
    assert tried[0] != tried[2]


def test_what_shows_something_new_is_built_upon() -> None:
    """Octet by octet, a word is found that no chance would have made at once."""
    word = b"{]:0"

    def check(data: bytes) -> Seen:
        right = next((at for at, octet in enumerate(word) if data[at : at + 1] != bytes([octet])), len(word))
        hold(right < len(word), "not-the-word")
        return {f"right {right}"}

    report = run(Target("word", "", check), [b"AAAA"], seed=0, runs=60_000, most_failures=1)
    assert [failure.data[: len(word)] for failure in report.failures] == [word]


def test_what_fails_is_made_small_and_fails_still() -> None:
    """Nothing is left but what it takes."""
    assert (
        minimise(b"some text, xx and a yy behind it" * 9, lambda data: b"xx" in data and b"yy" in data)
        == b"xxyy"
    )
    assert minimise(b"\x80\x81", lambda data: len(data) == 2) == b"aa"
    asked: list[bytes] = []

    def fails(data: bytes) -> bool:
        asked.append(data)
        return len(data) > 990

    minimise(b"x" * 999, fails, most=50)
    assert len(asked) <= 51


def test_what_takes_too_long_is_ended() -> None:
    """By the time of the processor that it takes, and not by that of a busy machine."""

    def for_ever() -> None:
        while True:
            pass

    with pytest.raises(TooSlow), bounded(0.02):
        for_ever()


def _runs_in_a_worker(check: Callable[[bytes], Seen]) -> list[tuple[str, bytes]]:
    target = Target("word", "", check, tokens=(b"kill",))
    (report,) = workers.run_all([target], workers.Plan(0, 2000, None), 1, lambda each: None)
    return [(failure.signature, failure.data) for failure in report.failures]


def test_what_kills_its_process_is_a_failure() -> None:
    """The input that it had is known."""

    def check(data: bytes) -> Seen:
        if b"kill" in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return {str(len(data) % 5)}

    ((signature, data),) = _runs_in_a_worker(check)
    assert signature == "process-ended-with--9"
    assert b"kill" in data


def test_what_takes_all_memory_is_a_failure() -> None:
    """Of its own process, and of no other."""

    def check(data: bytes) -> Seen:
        return {str(len(bytearray(8 << 30)))} if b"kill" in data else set()

    assert [signature.partition(" ")[0] for signature, _ in _runs_in_a_worker(check)] == ["MemoryError"]


def test_what_a_run_discovers_is_kept_once_and_small(tmp_path: Any, monkeypatch: Patch) -> None:
    """Of all the inputs that show a word, the first; and none where the kept ones show it."""
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)

    def check(data: bytes) -> Seen:
        return {each for each in ("tea", "cup") if each.encode() in data}

    target = Target("words", "", check)
    found = Report("words", discovered=[b"some tea", b"more tea", b"tea and a cup"])
    assert growing.grow(target, found) == 2
    assert sorted(data for _, data in corpus.kept("words")) == [b"cup", b"tea"]
    assert growing.grow(target, found) == 0


def test_without_atheris_its_engine_cannot_be_run(monkeypatch: Patch) -> None:
    """It says so, and that nothing else needs it."""
    monkeypatch.setattr(guided, "find_spec", lambda name: None)
    said = _ran("sniff", "--engine", "atheris", "--for", "1s")
    assert (said.exit_code, "atheris is not installed" in said.stderr) == (2, True)


def _ran(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_the_command_shows_targets_and_reads_one_input_again(tmp_path: Any) -> None:
    """And says what to do where it was asked for something else."""
    assert [line.split()[0] for line in _ran("--list").stdout.splitlines()] == list(NAMES)
    given = tmp_path / "input"
    given.write_bytes(b"\x16\x03\x01")
    assert "tls" in _ran("sniff", "--input", str(given)).stdout
    assert _ran("--input", str(given)).exit_code == 2
    assert _ran("sniff", "--runs", "1", "--for", "5s").exit_code == 2
    assert _ran("sniff", "--for", "soon").exit_code == 2


def test_the_command_ends_with_1_and_repeats_what_failed(tmp_path: Any, monkeypatch: Patch) -> None:
    """It prints the input, and the command that reads it again."""
    monkeypatch.setattr(corpus, "RESULTS", tmp_path)
    _half_a_handshake_is_tls(monkeypatch)
    said = _ran("sniff", "--runs", "500", "--json", str(tmp_path / "fuzz.json"))
    assert said.exit_code == 1
    path = next(path for path in tmp_path.glob("fuzz-sniff-*"))
    assert f"python -m trials fuzz sniff --input {path}" in said.stdout
    assert repr(path.read_bytes()) in said.stdout
    (row,) = json.loads((tmp_path / "fuzz.json").read_text())["targets"]
    assert row["failures"][0]["input"] == path.name
    monkeypatch.undo()
    assert _ran("sniff", "--runs", "50", "--json", str(tmp_path / "fuzz.json")).exit_code == 0
