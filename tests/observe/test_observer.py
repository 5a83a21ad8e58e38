"""One record, two readers."""

from __future__ import annotations

import json
import os
from pathlib import Path

from proxy.core.history import Counts
from proxy.core.verdict import Verdict
from proxy.core.writes import LateAnswer, WriteState
from proxy.observe import families
from proxy.observe.metrics import Metrics
from proxy.observe.observer import Observer
from proxy.observe.steplog import StepLog
from tests.observe.records import plain
from tests.store.samples import write


def test_each_step_is_logged_and_counted(tmp_path: Path) -> None:
    """As many lines as the counters say."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log, metrics = StepLog(fd), Metrics()
    observer = Observer(log, metrics)
    for number in range(10):
        observer.step(plain(step=number))
    observer.malformed("bad_framing")
    observer.opaque("connect")
    observer.extension_ignored()
    observer.budget_opened()
    observer.budget_closed(Verdict(complete=True, on_time=True), Counts(total=1, completed=1))
    observer.retried("orders")
    observer.retry_withheld("orders", "no_time")
    observer.joined("orders")
    observer.verified("orders", "applied")
    assert log.close() == 0
    os.close(fd)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == list(range(10))
    values = {sampled.family: sampled.values for sampled in metrics.collect()}
    assert list(values[families.STEPS].values()) == [10]
    for family in (
        families.MALFORMED,
        families.OPAQUE,
        families.EXTENSIONS,
        families.BUDGETS_OPENED,
        families.BUDGETS_CLOSED,
        families.RETRIES,
        families.WITHHELD,
        families.JOINED,
        families.VERIFICATIONS,
    ):
        assert list(values[family].values()) == [1]


def test_what_becomes_of_a_write_is_logged(tmp_path: Path) -> None:
    """All that somebody needs to look for it on the other side, and nothing of what the other side said."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    log = StepLog(fd)
    observer = Observer(log, Metrics())
    late = LateAnswer(201, (("content-type", "text/plain"),), b"private", 7, 12.5)
    observer.settled(write("a", WriteState.REPORTED, resolved_by="late answer", answer=late))
    observer.left(write("b", WriteState.UNCERTAIN))
    assert log.close() == 0
    os.close(fd)
    settled, left = (json.loads(line) for line in path.read_text().splitlines())
    assert (settled["event"], settled["record"], settled["state"]) == ("write_settled", "a", "reported")
    assert (settled["by"], settled["status"]) == ("late answer", 201)
    assert "private" not in path.read_text()
    assert (left["event"], left["record"], left["state"]) == ("write_unresolved", "b", "uncertain")
    assert (left["by"], left["status"]) == (None, None)
    assert {"budget_id", "step", "route", "method", "target", "key", "opened_at"} <= left.keys()
