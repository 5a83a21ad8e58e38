"""`python -m trials NAME`: one of the four trials. Status 0: all held; 1: something did not; 2: it could not be run."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

import click

TRIALS: Final = ("chaos", "simulation", "fuzz", "soak")


class _Trials(click.Group):
    """Loads a trial only when it is asked for: they need different libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name them in the order in which they are best read."""
        return list(TRIALS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a trial's command, None for a name that is none."""
        if cmd_name not in TRIALS:
            return None
        return cast(click.Command, import_module(f"trials.{cmd_name}.command").main)


@click.group(cls=_Trials)
def main() -> None:
    """Whether the sidecar holds: under faults, hostile input, and over hours."""


if __name__ == "__main__":
    main(prog_name="python -m trials")
