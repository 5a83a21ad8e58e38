"""`waterclock check`: every fault of a policy at once."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.cli.policy_file import load_or_exit


@click.command(short_help="Check a policy, and print every fault at once.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Check the policy in FILE, and print every fault at once, with its line and key.

    What is no fault, and may surprise all the same, follows as notes. Ends with status 0 when the policy can be used, 2 when it has faults. Nothing is started.

    \b
    Example:
      waterclock check waterclock.yaml
    """
    from proxy.config.remarks import remarks

    policy = load_or_exit(file)
    routes = len(policy.routes)
    click.echo(f"{file}: good. {routes} route{'s' if routes != 1 else ''}, mode {policy.mode}.")
    for remark in remarks(policy):
        click.echo(f"note: {remark}")
