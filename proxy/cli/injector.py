"""`waterclock injector`: what puts sidecars into pods."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.cli.policy_file import complain
from proxy.config import ConfigError, read

if TYPE_CHECKING:
    from proxy.kube.settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(short_help="Run the injector: the webhook that puts sidecars into pods.")
@click.option(
    "-c",
    "--config",
    type=_FILE,
    help="The injector's settings (injector.yaml). Without it: the built-in ones.",
)
@click.option(
    "--policy",
    type=_FILE,
    help="The policy that every opted-in namespace gets; it is followed as it changes. Without it: the built-in one.",
)
@click.option(
    "--kubeconfig",
    type=_FILE,
    help="How to reach the API server from outside. Without it: the pod's service account.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8443,
    show_default=True,
    help="Where reviews are answered, over TLS.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Where /healthz, /readyz and /metrics are, without TLS.",
)
def injector(
    config: Path | None, policy: Path | None, kubeconfig: Path | None, port: int, metrics_port: int
) -> None:
    """Run the injector until SIGTERM.

    It answers the API server's reviews of pods that are created (POST /mutate), and people who ask what would become of one
    (POST /explain). One replica leads: it makes and renews the certificate, keeps the policy's ConfigMap in every opted-in
    namespace, and compiles BudgetPolicies. The log on standard output has one JSON line for each review.

    The chart runs it; POD_NAME and POD_NAMESPACE say who it is. From outside it is run to look at it: the API server
    does not reach it there.

    \b
    Examples:
      waterclock injector -c injector.yaml --policy waterclock.yaml --kubeconfig ~/.kube/config
      curl -s localhost:8080/readyz
      kubectl get pod POD -o json | curl -sk https://localhost:8443/explain \\
        -H 'Content-Type: application/json' --data-binary @-
    """
    import uvloop

    from proxy.kube.client import connect
    from proxy.kube.cluster import ClusterError
    from proxy.kube.injector import CannotListen, Injector, Place
    from proxy.observe.steplog import StepLog

    log = StepLog()

    async def serve() -> None:
        cluster = await connect(kubeconfig)
        place = Place(identity=_identity(), port=port, metrics_port=metrics_port)
        try:
            await Injector(cluster, settings, place, policy, log).run()
        finally:
            await cluster.close()

    try:
        settings = _settings(config)
        uvloop.run(serve())
    except ConfigError as error:
        complain(error)
    except (CannotListen, ClusterError) as error:
        click.echo(f"waterclock: cannot start: {error}", err=True)
        sys.exit(1)
    finally:
        log.close()


def _settings(config: Path | None) -> Settings:
    """Return the settings, with the namespace that this pod is in. Raises ConfigError."""
    from proxy.kube.settings import Settings, parse_settings

    settings = parse_settings(read(config), str(config)) if config is not None else Settings()
    here = os.environ.get("POD_NAMESPACE")
    return replace(settings, namespace=here) if here else settings


def _identity() -> str:
    """Return a name that no other replica has: the pod's, else one made of this machine's."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"
