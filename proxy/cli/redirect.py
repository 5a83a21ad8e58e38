"""`waterclock redirect`: lead the pod's connections to the sidecar, by iptables."""

from __future__ import annotations

import click

from proxy.cli.output import fail
from proxy.cli.pod_options import exclude_cidrs, exclude_ports, inbound_port
from proxy.core.pod import PortRange


@click.command(short_help="Lead the pod's connections to the sidecar (iptables).")
@exclude_ports
@exclude_cidrs
@inbound_port
@click.option(
    "--dry-run", is_flag=True, help="Print the rules as iptables-restore reads them, and do nothing."
)
@click.option("--undo", is_flag=True, help="Take the rules away again.")
def redirect(
    exclude_outbound_ports: tuple[PortRange, ...],
    exclude_outbound_cidrs: tuple[str, ...],
    inbound_port: int | None,
    dry_run: bool,
    undo: bool,
) -> None:
    """Lead the pod's TCP connections to the sidecar, for IPv4 and IPv6.

    Run once in an init container, as root with NET_ADMIN as its only capability; the injector adds one to pods whose
    annotation says waterclock.dev/intercept: redirect. Everything that the pod opens from then on arrives at port 10800,
    but for what stays within the pod, what the sidecar's own user (2180) opens, DNS (53), and what is excluded. With
    --inbound-port, what others open to that port arrives at 10801.

    The rules stand in chains of their own. Running it again puts the new rules in the place of the old ones, in one
    step. A pod without IPv6 goes without rules for it.

    Ends with status 0 when the rules are in force (or taken away), 1 when the machine does not allow it, 2 when the
    options are wrong. With --dry-run they are printed as for a pod that has none yet, --undo as for one that has them all.

    \b
    Examples:
      waterclock redirect
      waterclock redirect --inbound-port 8080 --exclude-outbound-ports 5432,9000-9100
      waterclock redirect --exclude-outbound-cidrs 10.96.0.0/16,fd00::/8 --dry-run
      waterclock redirect --undo
    """
    from proxy.kube.names import CONTROL_PORT, INBOUND_PORT_NUMBER, METRICS_PORT, OUTBOUND_PORT
    from proxy.kube.redirect import apply
    from proxy.kube.redirect.rules import ALL, Family, Redirect, removal, rules
    from proxy.kube.redirect.trouble import RedirectFailed

    if inbound_port in (OUTBOUND_PORT, INBOUND_PORT_NUMBER, CONTROL_PORT, METRICS_PORT):
        raise click.BadParameter(
            f"{inbound_port} is a port of the sidecar itself; name the one that the app listens on",
            param_hint="'--inbound-port'",
        )
    wanted = Redirect.excluding(exclude_outbound_ports, exclude_outbound_cidrs, inbound_port)
    if dry_run:
        for family in Family:
            click.echo(f"# {family}")
            click.echo(removal(ALL) if undo else rules(wanted, family), nl=False)
        return
    try:
        for sentence in apply.take_away() if undo else apply.put(wanted):
            click.echo(sentence)
    except RedirectFailed as failure:
        for said in failure.said:
            click.echo(said, err=True)
        fail(str(failure))
