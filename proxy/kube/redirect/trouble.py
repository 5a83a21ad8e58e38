"""Why the rules could not be set, and what helps: what the programs said, read by somebody who knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from proxy.kube.redirect.rules import Family

_NET_ADMIN: Final = 12  # CAP_NET_ADMIN, linux/capability.h
_FORBIDDEN: Final = ("Permission denied", "Operation not permitted", "you must be root")


class RedirectFailed(Exception):
    """The rules are not in force. `problem` and `remedy` are a sentence each; `said` is what the programs said."""

    def __init__(self, problem: str, remedy: str, said: Sequence[str] = ()) -> None:
        """Keep both."""
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
        self.said = tuple(said)


class Attempt(NamedTuple):
    """A program that was tried and failed, and what it said on standard error."""

    program: str
    said: str

    def __str__(self) -> str:
        """Return it on one line."""
        return f"{self.program}: {' '.join(self.said.split()) or 'it ended without a word'}"


def may_administer(status: str) -> bool:
    """Say whether a process has NET_ADMIN, from its /proc/PID/status (proc(5), CapEff). True where that is not said."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> _NET_ADMIN & 1)
    return True


def not_allowed() -> RedirectFailed:
    """Return what is wrong when NET_ADMIN is not there."""
    return RedirectFailed(
        "NET_ADMIN is missing.",
        "Run this container as root with that capability (runAsUser: 0, capabilities.add: [NET_ADMIN]). Where the "
        "namespace forbids it, use waterclock.dev/intercept: environment.",
    )


def trouble(family: Family, attempts: Sequence[Attempt]) -> RedirectFailed:
    """Return what is wrong when every program has failed, and NET_ADMIN is there."""
    said = [str(attempt) for attempt in attempts]
    if not attempts:
        return RedirectFailed(
            f"There is no iptables-restore for {family} here.",
            "Use an image that has iptables (Debian: the package iptables).",
        )
    if any(word in attempt.said for attempt in attempts for word in _FORBIDDEN):
        return RedirectFailed(
            f"NET_ADMIN is there, and the kernel still allows no nat rules for {family}.",
            "A sandbox or a security module of the node forbids it: use waterclock.dev/intercept: environment there.",
            said,
        )
    return RedirectFailed(
        f"The kernel has no nat table for {family} that takes these rules.",
        "Load its modules on the node (nf_tables, nft_chain_nat, nft_compat, xt_owner, xt_REDIRECT; legacy iptables would "
        "need the capability NET_RAW too), or use waterclock.dev/intercept: environment there.",
        said,
    )
