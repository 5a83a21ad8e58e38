"""Where a command's policy comes from: the file that was named, the pod's own, or the built-in policy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from proxy.config import ConfigError, load
from proxy.core.policy import Policy

IN_POD: Final = Path("/etc/waterclock/waterclock.yaml")

config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The policy's file. Without it: {IN_POD} where that exists, else the built-in policy.",
)


def chosen(config: Path | None) -> Path | None:
    """Return the file to read, or None for the built-in policy."""
    if config is not None:
        return config
    return IN_POD if IN_POD.exists() else None


def load_or_exit(config: Path | None) -> Policy:
    """Return the policy; print every fault of it and end with status 2 when it has any."""
    path = chosen(config)
    if path is None:
        return Policy()
    try:
        return load(path)
    except ConfigError as error:
        complain(error)


def complain(error: ConfigError) -> NoReturn:
    """Print the faults of a policy, one a line, and end with status 2."""
    for fault in error.faults:
        click.echo(str(fault), err=True)
    count = len(error.faults)
    click.echo(f"{count} fault{'s' if count != 1 else ''}.", err=True)
    sys.exit(2)
