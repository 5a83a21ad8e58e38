"""`waterclock redirect` as people meet it: the rules without doing anything, and options that are wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from proxy.cli import main
from proxy.kube.redirect.rules import ALL, Family, Redirect, removal, rules


def test_dry_run_prints_what_iptables_restore_would_read() -> None:
    """Both families, without asking the kernel for anything."""
    options = [
        "--exclude-outbound-ports",
        "25, 9000-9100",
        "--exclude-outbound-cidrs",
        "10.96.0.0/16,fd00::/8",
    ]
    told = CliRunner().invoke(main, ["redirect", "--dry-run", "--inbound-port", "8080", *options])
    wanted = Redirect.excluding(((25, 25), (9000, 9100)), ("10.96.0.0/16", "fd00::/8"), 8080)
    ipv4, ipv6 = (rules(wanted, family) for family in Family)
    assert (told.exit_code, told.output) == (0, f"# IPv4\n{ipv4}# IPv6\n{ipv6}")


def test_dry_run_of_undo() -> None:
    told = CliRunner().invoke(main, ["redirect", "--undo", "--dry-run"])
    assert (told.exit_code, told.output) == (0, f"# IPv4\n{removal(ALL)}# IPv6\n{removal(ALL)}")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--exclude-outbound-ports", "http", 'is no port; write 1 to 65535, or a range like 9000-9100'),
        ("--exclude-outbound-ports", "0", "is no port"),
        ("--exclude-outbound-ports", "9100-9000", "write 9000-9100"),
        ("--exclude-outbound-cidrs", "10.0.0.0/33", "is no network; write one like"),
        ("--exclude-outbound-cidrs", "10.0.0.0/8\n-j ACCEPT", "is no network"),
        ("--inbound-port", "70000", "70000 is not in the range"),
        ("--inbound-port", "10801", "is a port of the sidecar itself; name the one that the app listens on"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(option: str, value: str, said: str) -> None:
    """The option, the problem and the remedy; nothing is done."""
    told = CliRunner().invoke(main, ["redirect", option, value])
    assert told.exit_code == 2
    assert f"Invalid value for '{option}'" in told.output
    assert said in told.output


def test_it_is_light() -> None:
    """An init container pays for what it imports, in every pod."""
    heavy = ("aiohttp", "kubernetes", "cryptography", "uvloop", "rich")
    code = (
        f"import sys, proxy.cli, proxy.kube.redirect.apply; print([m for m in {heavy} if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
