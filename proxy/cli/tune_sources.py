"""Where `waterclock tune` reads what was measured: logs, a sidecar's control API, or Prometheus."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from proxy.cli.control import ControlApi, NoAnswer, Refusal
from proxy.cli.output import fail
from proxy.core.policy import Address, Policy
from proxy.tuning.asking import Prometheus
from proxy.tuning.histograms import over_range, read_histograms, selector
from proxy.tuning.jobs import Jobs
from proxy.tuning.measured import Measured
from proxy.tuning.records import MOST, read_records
from proxy.tuning.steplog import STDIN, read_logs

_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # RFC 9110 §5.6.2


def of_logs(policy: Policy, logs: tuple[str, ...]) -> Measured:
    """Read step logs. Raises Untunable."""
    sizes = [Path(name).stat().st_size for name in logs if name != STDIN and Path(name).is_file()]
    with _progress("reading", sum(sizes) if len(sizes) == len(logs) else None) as advance:
        jobs = Jobs(policy)
        return jobs.measured(read_logs(logs, jobs, advance))


def of_control(policy: Policy, url: str) -> Measured:
    """Ask a sidecar for its last jobs; end with status 1 when none answers. Raises Untunable."""
    api, jobs = ControlApi(_address(url)), Jobs(policy)
    try:
        listed = api.get("budgets", state="all", limit=str(MOST))
        budgets = listed.get("budgets")
        with _progress("asking", len(budgets) if isinstance(budgets, list) else None) as advance:

            def record_of(id: str) -> dict[str, Any] | None:
                advance(1)
                try:
                    return api.get("budgets", id)
                except Refusal:
                    return None

            return jobs.measured(read_records(listed, record_of, policy.budget, jobs))
    except NoAnswer as error:
        what, *_ = str(error).splitlines()
        remedy = "From outside its pod:\n  kubectl port-forward POD 10802\n  waterclock tune --control http://127.0.0.1:10802 ..."
        fail(f"{what}\n{remedy}")
    except Refusal as error:
        fail(str(error))


def of_prometheus(
    policy: Policy, url: str, range_: str, matchers: tuple[str, ...], headers: tuple[str, ...]
) -> Measured:
    """Ask a Prometheus. Raises Untunable."""
    said = [_header(each) for each in headers]
    prometheus = Prometheus(url, said)
    with _progress("asking", None):
        measured = read_histograms(prometheus.query, policy, over_range(range_), selector(matchers))
    return replace(measured, notes=(*measured.notes, *prometheus.warnings))


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":")
    if not sign or not _FIELD_NAME.match(name.strip()) or not text.isprintable():
        raise click.BadParameter(f'"{text}" is no header; write NAME: VALUE', param_hint="--header")
    return name.strip(), value.strip()


def _address(url: str) -> Address:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        plain = parts.scheme == "http" and not parts.path.strip("/") and not parts.query
        if plain and parts.hostname:
            return Address(parts.hostname, parts.port or 10802)
    except ValueError:
        pass
    hint = f'"{url}" is no address of a control API; write one like http://127.0.0.1:10802'
    raise click.BadParameter(hint, param_hint="--control")


@contextmanager
def _progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show on a terminal's standard error how far it has come; gives what is told of each advance."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [BarColumn(), TimeRemainingColumn()] if total is not None else []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
