"""Putting the rules in force, and taking them away: runs iptables-restore, once for each family.

The nft back end comes first: it needs netlink and NET_ADMIN, no lock file, and no NET_RAW as the legacy one does. Where
its program is missing, or the kernel refuses it, the others are tried. A pod without IPv6 needs no rules for it; one that has
it, and whose kernel cannot redirect it, is refused, since its calls would go past the sidecar.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from proxy.kube.redirect.rules import Family, Present, Redirect, present, removal, rules
from proxy.kube.redirect.trouble import Attempt, may_administer, not_allowed, trouble

_PROGRAMS: Final = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
_BACK_ENDS: Final = ("-nft", "", "-legacy")
_WHERE: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
_WITHOUT_FLUSHING: Final = ("--noflush", "--wait", "10")
_PATIENCE_SECONDS: Final = 30
_COLUMNS: Final = 6  # of /proc/net/if_inet6: address, interface, prefix, scope, flags, name
_GLOBAL: Final = "00"
# The legacy back end locks a file that a read-only root has no place for. Nobody else sets rules in a pod meanwhile.
_LOCK: Final = {} if os.access("/run", os.W_OK) else {"XTABLES_LOCKFILE": os.devnull}


class BackEnd(NamedTuple):
    """Two programs that speak to the kernel in the same way."""

    save: str
    restore: str


class _Refused(Exception):
    """A program ended with an error."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(str(attempt))
        self.attempt = attempt


def put(wanted: Redirect) -> Iterator[str]:
    """Put the rules in force, family by family; yields a sentence for each. Raises RedirectFailed."""
    _check()
    for family in Family:
        refused = []
        for back_end in _back_ends(family):
            try:
                _run(back_end.restore, *_WITHOUT_FLUSHING, text=rules(wanted, family, _there(back_end)))
            except _Refused as failure:
                refused.append(failure.attempt)
            else:
                name = Path(back_end.restore).name
                yield f"{family}: connections are led to port {wanted.outbound_port} ({name})."
                break
        else:
            yield _without(family, refused)


def take_away() -> Iterator[str]:
    """Take the rules away, whichever program has set them; yields a sentence for each family. Raises RedirectFailed."""
    _check()
    for family in Family:
        back_ends, refused, taken = _back_ends(family), [], []
        for back_end in back_ends:
            try:
                there = _there(back_end)
            except _Refused as failure:
                refused.append(failure.attempt)
                continue
            if there:
                try:
                    _run(back_end.restore, *_WITHOUT_FLUSHING, text=removal(there))
                except _Refused as failure:
                    raise trouble(family, [failure.attempt]) from None
                taken.append(Path(back_end.restore).name)
        if len(refused) == len(back_ends):
            yield _without(family, refused)
        elif taken:
            yield f"{family}: the rules are taken away ({', '.join(taken)})."
        else:
            yield f"{family}: there are no rules to take away."


def has_ipv6(text: str) -> bool:
    """Say whether an address that others can be reached from is in /proc/net/if_inet6 (proc(5)): neither ::1 nor a link's."""
    columns = (line.split() for line in text.splitlines())
    return any(len(words) == _COLUMNS and words[3] == _GLOBAL for words in columns)


def _without(family: Family, refused: list[Attempt]) -> str:
    """Say that a family goes without rules. Raises RedirectFailed where calls would then go past the sidecar."""
    failure = trouble(family, refused)
    if family is Family.IPV4 or has_ipv6(_text("/proc/net/if_inet6")):
        raise failure
    return f"{family}: no rules, and none needed, since the pod has no such address. {failure.problem}"


def _back_ends(family: Family) -> list[BackEnd]:
    """Return those that are installed, the best first; two names of one program count once."""
    found: dict[Path, BackEnd] = {}
    for back_end in _BACK_ENDS:
        save, restore = (
            shutil.which(f"{_PROGRAMS[family]}{back_end}-{what}", path=_WHERE) for what in ("save", "restore")
        )
        if save is not None and restore is not None:
            found.setdefault(Path(restore).resolve(), BackEnd(save, restore))
    return list(found.values())


def _there(back_end: BackEnd) -> Present:
    # All tables are read, since to ask for `nat` alone would make one where the back end has none yet.
    return present(_run(back_end.save))


def _run(program: str, *arguments: str, text: str = "") -> str:
    """Run a program and return what it printed. Raises _Refused."""
    name = Path(program).name
    try:
        ended = subprocess.run(  # noqa: S603 - the programs and their arguments are those of this file
            [program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            env={**os.environ, **_LOCK},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Refused(Attempt(name, str(error))) from error
    if ended.returncode != 0:
        raise _Refused(Attempt(name, ended.stderr))
    return ended.stdout


def _check() -> None:
    """Raise RedirectFailed without NET_ADMIN: the programs would say so in many ways, and one of them not at all."""
    if not may_administer(_text("/proc/self/status")):
        raise not_allowed()


def _text(path: str) -> str:
    """Return what a file of /proc says, or nothing where it is not there."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
