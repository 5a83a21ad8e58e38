"""`waterclock tune`: shares and needs by what was measured, as a change of the policy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from proxy.cli.output import fail, json_option
from proxy.cli.policy_file import chosen, complain, config_option
from proxy.cli.said import Said
from proxy.config import ConfigError, parse
from proxy.config import read as read_text
from proxy.config.scalars import SPANS

if TYPE_CHECKING:
    from proxy.core.policy import Policy
    from proxy.tuning.faults import Untunable
    from proxy.tuning.measured import Measured
    from proxy.tuning.outcome import Outcome, Terms

TOO_FEW: Final = 3
_STDIN: Final = "-"


class Percentage(click.ParamType[float]):
    """A percentage, 0% to 1000%."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read one, as a part of 1. Fails with the remedy."""
        if isinstance(value, float):
            return value
        number = value.removesuffix("%").strip()
        if not number.isascii() or not number.replace(".", "", 1).isdigit() or float(number) > 1000:
            self.fail(f'"{value}" is no percentage; write one like 10%', param, ctx)
        return float(number) / 100


@click.command(short_help="Propose shares and needs by what was measured.")
@config_option
@json_option
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option("--prometheus", metavar="URL", help="Ask a Prometheus that scrapes the sidecars.")
@click.option("--range", "range_", metavar="SPAN", help="How far back it looks.  [default: 24h]")
@click.option(
    "--match",
    "matchers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label of the pods that are meant; repeatable.",
)
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent to Prometheus; repeatable."
)
@click.option("--control", metavar="URL", help="Ask a running sidecar for its last jobs.")
@click.option(
    "--margin", type=Percentage(), default="10%", show_default=True, help="Beyond what nearly all need."
)
@click.option(
    "--slack",
    type=Said("span", SPANS.amount),
    metavar="SPAN",
    help="What nobody may claim.  [default: as it is]",
)
@click.option("--give", metavar="STAGE", help="Who gets what is over.  [default: all, in proportion]")
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="With fewer, nothing is proposed.",
)
@click.option("--write", is_flag=True, help="Change the policy's file.")
def tune(
    config: Path | None,
    as_json: bool,
    logs: tuple[str, ...],
    prometheus: str | None,
    range_: str | None,
    matchers: tuple[str, ...],
    headers: tuple[str, ...],
    control: str | None,
    margin: float,
    slack: int | None,
    give: str | None,
    samples: int,
    write: bool,
) -> None:
    """Say how well the shares of stages and the needs of rungs fit, and propose better ones.

    What jobs have used is read from one place: LOGs of sidecars (their standard output; `-` is standard input, and
    rotated ones may be compressed with gzip), a Prometheus, or the control API of a sidecar. A job whose stage was cut
    would have needed more than it used: a quantile that falls among such jobs is shown as `> x`, and cut rates as ranges.

    The proposed shares are the 99th percentile and the margin; with the slack they add up to budget.default less
    budget.reserve. Needs of rungs are the 95th percentile and the margin; `auto` stays. The change is shown as a diff of
    the policy's file, in which all else, comments too, stays as it is; --write makes it.

    Ends with status 0 when the shares were judged, 1 when that could not be done, 2 when the policy or the command has
    faults, 3 when there are too few samples. docs/tune.md reads a table with you.

    \b
    Examples:
      kubectl logs -l app=agent -c waterclock --tail=-1 | waterclock tune -c waterclock.yaml -
      waterclock tune -c waterclock.yaml /var/log/agents/*.log.gz --give llm
      waterclock tune -c waterclock.yaml --prometheus http://127.0.0.1:9090 --range 7d --match namespace=agents
      waterclock tune -c waterclock.yaml --control http://127.0.0.1:10802 --write
    """
    from proxy.cli.tune_sources import of_control, of_logs, of_prometheus
    from proxy.tuning.faults import Untunable
    from proxy.tuning.outcome import Terms, tuned

    if sum((bool(logs), prometheus is not None, control is not None)) != 1:
        raise click.UsageError("Name one source: LOGs (or - for standard input), --prometheus, or --control.")
    if (range_ or matchers or headers) and prometheus is None:
        raise click.UsageError("--range, --match and --header go with --prometheus.")
    if logs.count(_STDIN) + (str(config) == _STDIN) > 1:
        raise click.UsageError("Standard input can be one thing only.")
    found = _policy(config)
    terms = Terms(margin, slack, give, samples)
    try:
        _has_something_to_tune(found, give)
        if prometheus is not None:
            measured = of_prometheus(found.policy, prometheus, range_ or "24h", matchers, headers)
        elif control is not None:
            measured = of_control(found.policy, control)
        else:
            measured = of_logs(found.policy, logs)
        outcome = tuned(found.policy, measured, terms)
        _tell(found, measured, outcome, terms, as_json=as_json, write=write)
    except Untunable as error:
        fail(str(error))
    sys.exit(0 if outcome.says_anything else TOO_FEW)


# -- the policy --------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The policy, its text, and where that is from. `path` None: from standard input."""

    policy: Policy
    text: str
    source: str
    path: Path | None


def _policy(config: Path | None) -> Found:
    """Read the policy; end with status 2 when it has faults."""
    path = None if str(config) == _STDIN else chosen(config)
    if path is None and config is None:
        fail("there is no policy to tune here.\nName its file with -c FILE.")
    source = "standard input" if path is None else str(path)
    try:
        text = sys.stdin.read() if path is None else read_text(path)
        return Found(parse(text, source, has_files=False), text, source, path)
    except ConfigError as error:
        if {"kind", "apiVersion"} <= {fault.key for fault in error.faults}:
            click.echo(_WITHIN, err=True)
        complain(error)


_WITHIN: Final = """\
This is an object of Kubernetes, and the policy is within it. Take it out, tune it, and put it back:
  kubectl get configmap NAME -o jsonpath='{.data.waterclock\\.yaml}' > waterclock.yaml
"""


def _has_something_to_tune(found: Found, give: str | None) -> None:
    from proxy.tuning.faults import Untunable
    from proxy.tuning.measured import claimed, ladders

    stages = [share.stage for share in claimed(found.policy.budget)]
    if not stages and not any(ladders(found.policy)):
        remedy = "give each part of a job its share (budget.stages), and each route its stage; docs/policy.md has the keys"
        raise Untunable(f"{found.source} has neither stages nor ladders, so there is nothing to tune", remedy)
    if give is not None and give not in stages:
        known = (
            f"the stages of this policy are {', '.join(stages)}" if stages else "this policy has no stages"
        )
        raise Untunable(f"there is no stage {give!r} to give what is over to", known)


# -- what is said ------------------------------------------------------------------------------------------------------


def _tell(
    found: Found, measured: Measured, outcome: Outcome, terms: Terms, *, as_json: bool, write: bool
) -> None:
    """Print what was found, then the change, and make it if that is asked for. Raises Untunable where it cannot be made."""
    from proxy.cli.tune_json import document
    from proxy.cli.tune_text import print_diff, print_outcome
    from proxy.tuning.faults import Untunable

    refused: Untunable | None = None
    after = found.text
    try:
        after = _after(found, outcome)
    except Untunable as error:
        refused = error
    diff = _diff(found.source, found.text, after)
    if write and after != found.text and refused is None:
        refused = _written(found, after)
    written = write and after != found.text and refused is None
    if as_json:
        from proxy.cli.output import print_json

        print_json(document(found.source, found.policy, measured, outcome, terms, diff, written=written))
    else:
        print_outcome(found.policy, measured, outcome, terms)
        print_diff(diff, outcome, str(found.path or ""), refused=refused is not None, written=written)
    if refused is not None:
        raise refused


def _after(found: Found, outcome: Outcome) -> str:
    from proxy.tuning.edit import edited

    if outcome.changes.nothing:
        return found.text
    return edited(found.text, found.source, found.policy, outcome.changes)


def _written(found: Found, after: str) -> Untunable | None:
    """Write the file; return what speaks against it, if anything does."""
    from proxy.tuning.faults import Untunable
    from proxy.tuning.writing import rewrite

    try:
        if found.path is None:
            remedy = "save the diff, and apply it where the policy is kept; or name a file with -c FILE"
            raise Untunable("the policy came from standard input, which cannot be written", remedy)
        rewrite(found.path, found.text, after)
    except Untunable as error:
        return error
    return None


def _diff(source: str, before: str, after: str) -> str:
    import difflib

    lines = difflib.unified_diff(_lines(before), _lines(after), source, f"{source} (proposed)")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])
