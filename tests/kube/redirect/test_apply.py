"""Which program sets the rules, what happens when one cannot, and what is said then. The programs are fakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.kube.redirect import apply
from proxy.kube.redirect.rules import ALL, Family, Redirect, removal, rules
from proxy.kube.redirect.trouble import Attempt, RedirectFailed, may_administer, trouble

ROUTABLE = "fd080000000000000000000000000002 02 40 00 80     eth0\n"
LOOPBACK = "00000000000000000000000000000001 01 80 10 80       lo\n"
LINK = "fe80000000000000b87d5dfffe39a3f8 02 40 20 80     eth0\n"
ADMIN = "Name:\twaterclock\nCapEff:\t0000000000001000\n"
NO_ADMIN = "Name:\twaterclock\nCapEff:\t00000000a80405fb\n"
REFUSED = "Could not fetch rule set generation id: Invalid argument"


class Programs:
    """A folder of fakes. Each keeps what it was given in a file beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def works(self, name: str, saved: str = "") -> None:
        """These programs do as they are told; `saved` is what is there already."""
        (self.folder / f"{name}.saved").write_text(saved)
        self._write(f"{name}-save", f"cat {self.folder}/{name}.saved")
        self._write(
            f"{name}-restore", f'echo "$@" > {self.folder}/{name}.words; cat > {self.folder}/{name}.text'
        )

    def refuses(self, name: str, said: str = REFUSED, *, saves: str | None = None) -> None:
        """These fail; with `saves`, only when they should change something."""
        self._write(f"{name}-restore", f"echo '{said}' >&2; exit 4")
        if saves is None:
            self._write(f"{name}-save", f"echo '{said}' >&2; exit 1")
        else:
            (self.folder / f"{name}.saved").write_text(saves)
            self._write(f"{name}-save", f"cat {self.folder}/{name}.saved")

    def given(self, name: str) -> str | None:
        """What a program was given to restore."""
        path = self.folder / f"{name}.text"
        return path.read_text() if path.exists() else None

    def _write(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def proc(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the files of /proc say: a pod with NET_ADMIN and IPv6."""
    files = {"/proc/self/status": ADMIN, "/proc/net/if_inet6": LOOPBACK + ROUTABLE}
    monkeypatch.setattr(apply, "_text", lambda path: files[path])
    return files


@pytest.fixture
def programs(tmp_path: Path, proc: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Programs:
    """No program at all, yet."""
    monkeypatch.setattr(apply, "_WHERE", str(tmp_path))
    return Programs(tmp_path)


def test_nft_comes_first(programs: Programs) -> None:
    """Both families, whatever else is installed; without flushing what others have set."""
    for name in ("iptables-nft", "iptables-legacy", "iptables", "ip6tables-nft", "ip6tables-legacy"):
        programs.works(name)
    said = list(apply.put(Redirect(8080)))
    assert said == [
        "IPv4: connections are led to port 10800 (iptables-nft-restore).",
        "IPv6: connections are led to port 10800 (ip6tables-nft-restore).",
    ]
    assert programs.given("iptables-nft") == rules(Redirect(8080), Family.IPV4)
    assert programs.given("ip6tables-nft") == rules(Redirect(8080), Family.IPV6)
    assert (programs.folder / "iptables-nft.words").read_text().split()[0] == "--noflush"
    assert programs.given("iptables-legacy") is programs.given("iptables") is None


@pytest.mark.parametrize("nft", ["missing", "refuses"])
@pytest.mark.parametrize("other", ["-legacy", ""])
def test_another_where_nft_cannot(programs: Programs, nft: str, other: str) -> None:
    """Its program is not there, or the kernel does not let it."""
    for name in ("iptables", "ip6tables"):
        if nft == "refuses":
            programs.refuses(f"{name}-nft", saves="")
        programs.works(f"{name}{other}")
    assert [f"tables{other}-restore" in sentence for sentence in apply.put(Redirect())] == [True, True]
    assert programs.given(f"iptables{other}") == rules(Redirect(), Family.IPV4)


def test_two_names_of_one_program(programs: Programs) -> None:
    """Debian's iptables-restore is a link to one of the others: it is not asked twice."""
    programs.refuses("iptables-nft", saves="")
    for what in ("save", "restore"):
        (programs.folder / f"iptables-{what}").symlink_to(programs.folder / f"iptables-nft-{what}")
    with pytest.raises(RedirectFailed) as failed:
        list(apply.put(Redirect()))
    assert failed.value.said == (f"iptables-nft-restore: {REFUSED}",)


def test_a_second_time(programs: Programs) -> None:
    """What is there is read, so that no jump comes twice."""
    programs.works("iptables-nft", rules(Redirect(8080), Family.IPV4))
    programs.works("ip6tables-nft", rules(Redirect(8080), Family.IPV6))
    assert len(list(apply.put(Redirect()))) == 2
    assert programs.given("iptables-nft") == rules(Redirect(), Family.IPV4, ALL)


def test_a_pod_without_ipv6_needs_no_rules_for_it(programs: Programs, proc: dict[str, str]) -> None:
    """It is said, and the rest goes on; a loopback and the address of a link reach nobody."""
    programs.works("iptables-nft")
    programs.refuses("ip6tables-nft")
    for addresses in ("", LOOPBACK, LOOPBACK + LINK, "malformed\n"):
        proc["/proc/net/if_inet6"] = addresses
        assert list(apply.put(Redirect()))[1] == (
            "IPv6: no rules, and none needed, since the pod has no such address. "
            "The kernel has no nat table for IPv6 that takes these rules."
        )
        assert "none needed" in list(apply.take_away())[1]


def test_a_pod_with_ipv6_must_have_them(programs: Programs) -> None:
    """Or its calls would go past the sidecar, unseen."""
    programs.works("iptables-nft")
    programs.refuses("ip6tables-nft")
    programs.refuses("ip6tables-legacy", "Table does not exist (do you need to insmod?)")
    with pytest.raises(RedirectFailed, match="no nat table for IPv6") as failed:
        list(apply.put(Redirect()))
    assert "modules" in failed.value.remedy
    assert failed.value.said == (
        f"ip6tables-nft-save: {REFUSED}",
        "ip6tables-legacy-save: Table does not exist (do you need to insmod?)",
    )


def test_without_any_program(programs: Programs) -> None:
    """As in an image that somebody else has built."""
    assert not list(programs.folder.iterdir())
    with pytest.raises(RedirectFailed, match="no iptables-restore for IPv4 here"):
        list(apply.put(Redirect()))


@pytest.mark.parametrize("do", [lambda: apply.put(Redirect()), apply.take_away])
def test_without_net_admin(programs: Programs, proc: dict[str, str], do: object) -> None:
    """Asked of the kernel, before anything is tried: some programs then say that there are no rules."""
    programs.works("iptables-nft")
    proc["/proc/self/status"] = NO_ADMIN
    with pytest.raises(RedirectFailed, match=r"NET_ADMIN is missing.*capabilities.add: \[NET_ADMIN\]"):
        list(do())  # type: ignore[operator]
    assert programs.given("iptables-nft") is None


def test_away_wherever_they_are(programs: Programs) -> None:
    """Whichever program has set them; one that cannot work here has set none."""
    programs.works("iptables-nft")
    programs.works("iptables-legacy", rules(Redirect(8080), Family.IPV4))
    programs.refuses("ip6tables-nft")
    programs.works("ip6tables-legacy")
    assert list(apply.take_away()) == [
        "IPv4: the rules are taken away (iptables-legacy-restore).",
        "IPv6: there are no rules to take away.",
    ]
    assert programs.given("iptables-nft") is None
    assert programs.given("iptables-legacy") == removal(ALL)


def test_away_fails_where_they_stay(programs: Programs) -> None:
    """Rules that are there and do not go are no success."""
    programs.refuses("iptables-nft", saves=rules(Redirect(), Family.IPV4))
    programs.works("iptables-legacy")
    with pytest.raises(RedirectFailed):
        list(apply.take_away())


def test_what_the_programs_say_is_understood() -> None:
    """Forbidden is another thing than not there."""
    forbidden = trouble(Family.IPV4, [Attempt("iptables-nft-restore", "Operation not permitted\n")])
    assert "still allows no nat rules" in forbidden.problem
    missing = trouble(Family.IPV6, [Attempt("ip6tables-nft-restore", "")])
    assert "no nat table for IPv6" in missing.problem
    assert missing.said == ("ip6tables-nft-restore: it ended without a word",)
    assert str(missing) == f"{missing.problem} {missing.remedy}"


def test_a_status_that_says_nothing_of_capabilities() -> None:
    """The programs then say it."""
    assert may_administer("") is True
    assert may_administer(ADMIN) is True
    assert may_administer(NO_ADMIN) is False
