"""`waterclock run`: the sidecar."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from proxy.cli.pod_options import pod_options, terms
from proxy.cli.policy_file import chosen, complain, config_option
from proxy.config import ConfigError


@click.command()
@config_option
@pod_options
def run(config: Path | None, **pod: Any) -> None:
    """Run the sidecar until SIGTERM.

    It listens on 127.0.0.1:10800 for outbound calls (as an HTTP proxy, by base-URL prefix, and for connections that
    iptables redirects), on 127.0.0.1:10802 for the control API, and on 0.0.0.0:10803 for metrics and health; and in front
    of the agent's own port where the policy says so (listen.inbound). The log on standard output has one JSON line for each
    call.

    SIGHUP, or a change of the file, reloads the policy; a faulty file leaves the old one in force. SIGTERM lets calls
    in flight end within `shutdown.grace`.

    The options after --config are those that the injector writes into a pod's spec, from its annotations. They tighten the
    policy; --observe loosens it only where the policy allows that.

    \b
    Examples:
      waterclock run
      waterclock run -c waterclock.yaml
    """
    import uvloop

    from proxy.app import JournalError, ListenFailed, Sidecar

    async def serve() -> None:
        await Sidecar(chosen(config), pod=terms(**pod)).run()

    try:
        uvloop.run(serve())
    except ConfigError as error:
        complain(error)
    except (ListenFailed, JournalError) as error:
        click.echo(f"waterclock: cannot start: {error}", err=True)
        sys.exit(1)
