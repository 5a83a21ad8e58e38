"""What `waterclock run` is told of the pod that it stands in: the options that the injector writes into its spec."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from proxy.cli.said import Said
from proxy.config.faults import Refusal
from proxy.config.pod import longest_budget, networks, port_ranges
from proxy.core.pod import PodTerms, PortRange

Command = TypeVar("Command", bound=Callable[..., Any])


exclude_ports = click.option(
    "--exclude-outbound-ports",
    type=Said("ports", port_ranges),
    default=(),
    metavar="PORTS",
    help="Ports that calls may take past the sidecar: 25,9000-9100.",
)
exclude_cidrs = click.option(
    "--exclude-outbound-cidrs",
    type=Said("networks", networks),
    default=(),
    metavar="CIDRS",
    help="Networks that calls may reach past the sidecar: 10.0.0.0/8,fd00::/8.",
)
inbound_port = click.option(
    "--inbound-port",
    type=click.IntRange(1, 65535),
    help="The app's port that the inbound side (10801) stands in front of.",
)

_OPTIONS: Final = (
    click.option(
        "--pod",
        is_flag=True,
        help="Use a pod's standard ports and journal, whatever the policy says of them.",
    ),
    inbound_port,
    click.option(
        "--budget-max",
        type=Said("duration", longest_budget),
        help="No budget is longer than this: 30s. It only tightens.",
    ),
    click.option(
        "--observe", is_flag=True, help="Decide and record only, where the policy's pods.observe allows it."
    ),
    exclude_ports,
    exclude_cidrs,
)


def pod_options(command: Command) -> Command:
    """Give a command all options of a pod."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def terms(
    pod: bool,
    inbound_port: int | None,
    budget_max: int | None,
    observe: bool,
    exclude_outbound_ports: tuple[PortRange, ...],
    exclude_outbound_cidrs: tuple[str, ...],
) -> PodTerms:
    """Return what the options say. Its parameters are named as they are."""
    excluded = (*exclude_outbound_cidrs, *_api_server()) if pod else exclude_outbound_cidrs
    return PodTerms(pod, inbound_port, budget_max, observe, exclude_outbound_ports, excluded)


def _api_server() -> tuple[str, ...]:
    """Return the API server's network of one address: calls go to it past the sidecar, as the injector has it (NO_PROXY)."""
    try:
        return networks(os.environ.get("KUBERNETES_SERVICE_HOST", ""))
    except Refusal:  # a name, where a cluster is set up that way
        return ()
