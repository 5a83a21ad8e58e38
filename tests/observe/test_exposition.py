"""A scrape, as Prometheus and its linter read it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from proxy.core.calls import Effect, Kind, Outcome, Would
from proxy.core.history import Counts
from proxy.core.verdict import Verdict
from proxy.observe import families
from proxy.observe.exposition import Exposition
from proxy.observe.families import Type
from proxy.observe.metrics import Metrics, Reading
from tests.observe.records import less, plain

OPENMETRICS = "application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


@pytest.fixture
def everything() -> Metrics:
    """Every family with a value, and labels of every awkward kind."""
    made = Metrics()
    made.step(plain(elapsed_ms=1500.0, allowed_ms=4000.0, waited_ms=0.25, queued_ms=0.2, overhead_ms=0.045))
    made.step(
        plain(
            kind=Kind.WRITE,
            outcome=Outcome.DEADLINE_EXCEEDED,
            effect=Effect.UNCERTAIN,
            reason="route_cap",
            late_ms=0.4,
        )
    )
    made.step(
        plain(route='"odd\\ \n route"', outcome=Outcome.REFUSED, reason="budget_exhausted", would=Would.CUT)
    )
    made.step(plain(outcome=Outcome.CONNECT_FAILED, reason="dns_error"))
    made.step(plain(outcome=Outcome.SHED, reason="queue_full", tries=0, fresh=0))
    made.retried("orders")
    made.retry_withheld("orders", "retry_budget")
    made.joined("orders")
    made.verified("orders", "absent")
    made.step(less(cache="semantic"))
    made.step(plain(route="chat", outcome=Outcome.DEADLINE_EXCEEDED, reason="stage_share", stage="llm"))
    made.rung_tried("chat", "full", 1_500_000_000)
    made.cache_failed("store")
    made.stage_used("llm", 4_000_000_000, 1_000_000_000)
    made.budget_closed(Verdict(True, True, 1), Counts(total=1, completed=1, degraded=1))
    made.budget_opened()
    made.budget_closed(Verdict(complete=False, on_time=None), Counts(total=4, completed=3, refused=1))
    made.malformed("bad_framing")
    made.opaque("connect")
    made.extension_ignored()
    for name, family in families.WATCHED.items():
        if family.type is Type.INFO:
            made.inform(name, lambda: {"version": "0.1.0", "mode": "enforce"})
        else:
            reading: Reading = (
                dict.fromkeys([f"a {label}" for label in family.labels], 2) if family.labels else 1
            )
            made.watch(name, lambda reading=reading: reading)  # type: ignore[misc]
    return made


def scrape(made: Metrics, accept: str = "") -> tuple[str, str]:
    parts, content_type = Exposition(made).render(accept)
    return b"".join(parts).decode(), content_type


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found: list[Sample] = [sample for family in parse_text(text) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}


def openmetrics(text: str) -> list[Metric]:
    return list(parse_openmetrics(text))


def test_every_family_is_shown(everything: Metrics) -> None:
    """Name, type and help of each, once."""
    text, content_type = scrape(everything)
    assert content_type.startswith("text/plain; version=0.0.4")
    for name, family in (families.COUNTED | families.WATCHED).items():
        kind = "gauge" if family.type is Type.INFO else family.type
        assert text.count(f"# TYPE {name} {kind}\n") == 1
        assert text.count(f"# HELP {name} {family.help}\n") == 1
    assert "# TYPE process_resident_memory_bytes gauge\n" in text or sys.platform != "linux"
    assert "_created" not in text


def test_values_are_in_base_units(everything: Metrics) -> None:
    """Records have milliseconds; Prometheus gets seconds."""
    found = samples(scrape(everything)[0])

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    assert (
        value("waterclock_steps_total", route="orders", kind="read", outcome="completed", effect="none") == 1
    )
    assert value("waterclock_step_refusals_total", route='"odd\\ \n route"', reason="budget_exhausted") == 1
    assert value("waterclock_step_cuts_total", route="orders", limit="route_cap") == 1
    assert value("waterclock_cut_lateness_seconds_bucket", le="0.0003") == 0
    assert value("waterclock_cut_lateness_seconds_bucket", le="0.0005") == 1
    assert value("waterclock_cut_lateness_seconds_sum") == pytest.approx(0.0004)
    assert value("waterclock_step_duration_seconds_bucket", route="orders", le="1.0") == 3
    assert value("waterclock_step_duration_seconds_bucket", route="orders", le="2.5") == 4
    assert value("waterclock_step_duration_seconds_bucket", route="orders", le="+Inf") == 4
    assert value("waterclock_step_duration_seconds_count", route="orders") == 4
    assert value("waterclock_queue_wait_seconds_sum", route="orders") == pytest.approx(0.0002)
    assert value("waterclock_queue_wait_seconds_count", route="orders") == 3
    assert value("waterclock_proxy_overhead_seconds_bucket", le="2.5e-05") == 0
    assert value("waterclock_proxy_overhead_seconds_bucket", le="5e-05") == 1
    assert value("waterclock_step_sheds_total", route="orders", reason="queue_full") == 1
    assert value("waterclock_build_info", version="0.1.0", mode="enforce") == 1
    assert value("waterclock_rungs_total", route="chat", rung="minimal") == 1
    assert value("waterclock_degraded_steps_total", route="chat", rung="minimal", reason="time") == 1
    assert value("waterclock_cache_lookups_total", route="chat", result="semantic") == 1
    assert value("waterclock_cache_failures_total", part="store") == 1
    assert value("waterclock_rung_duration_seconds_sum", route="chat", rung="full") == 1.5


def test_shares_have_no_unit(everything: Metrics) -> None:
    """What is a share when it is counted is the same share in a scrape."""
    found = samples(scrape(everything)[0])
    name = "waterclock_budget_completion_ratio"
    assert found[f"{name}_bucket", frozenset({("le", "0.5")})] == 0
    assert found[f"{name}_bucket", frozenset({("le", "0.75")})] == 1
    assert found[f"{name}_bucket", frozenset({("le", "1.0")})] == 2
    assert found[f"{name}_sum", frozenset()] == 1.75
    of_llm = frozenset({("stage", "llm")})
    assert found["waterclock_stage_used_ratio_sum", of_llm] == 0.25
    assert found["waterclock_stage_used_seconds_sum", of_llm] == 1
    assert found["waterclock_stage_cuts_total", of_llm] == 1
    closed = frozenset({("complete", "false"), ("on_time", "unknown")})
    assert found["waterclock_budgets_closed_total", closed] == 1


def test_openmetrics_for_who_asks_for_it(everything: Metrics) -> None:
    """The newer format is valid as a whole, its end included, and says the same."""
    text, content_type = scrape(everything, OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    newer = {(s.name, frozenset(s.labels.items())): s.value for f in openmetrics(text) for s in f.samples}
    older = samples(scrape(everything)[0])
    own = {key: value for key, value in older.items() if key[0].startswith("waterclock_")}
    assert {key: value for key, value in newer.items() if key[0].startswith("waterclock_")} == own


def test_nothing_counted_yet_is_valid_too() -> None:
    """The first scrape comes before the first call."""
    text, _ = scrape(Metrics())
    assert "waterclock_budget_extensions_ignored_total 0.0" in text
    assert openmetrics(scrape(Metrics(), OPENMETRICS)[0])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)")
def test_linter_has_nothing_to_say(everything: Metrics) -> None:
    """`promtool check metrics` over every family there is."""
    text, _ = scrape(everything)
    command = ["promtool", "check", "metrics"]
    checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (checked.stdout + checked.stderr, checked.returncode) == ("", 0)
