"""Globs to regular expressions that never go back over what they have read.

What they are matched against comes from outside and may be long, so a match has to take linear time: between two
stars the earliest fit is as good as any later one, and is never given up (an atomic group).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from proxy.config.faults import Refusal, quoted
from proxy.config.reading import scalar
from proxy.config.shape import Shape

_HOST: Final = re.compile(r"(?!.{254})[A-Za-z0-9_*-]{1,63}(?:\.[A-Za-z0-9_*-]{1,63})*\.?\Z")
_PATH: Final = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*\Z")  # RFC 3986 §3.3
_LONGEST_PATH: Final = 1024
_NAME: Final = re.compile(r"[!-~]{1,255}\Z")
# A host glob, or much of what may be an IPv6 address, for readers that know no lookaround.
_ANY_HOST: Final = re.compile(r"(?:[A-Za-z0-9_*.-]+|[\[\]]*[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%.*)?[\[\]]*)\Z")


def _within(glob: str, char: str) -> str:
    """Return the regex of a glob in which `*` is any run of `char`s, up to where no `char` follows."""
    first, *rest = glob.split("*")
    if not rest:
        return f"{re.escape(glob)}(?!{char})"
    *middle, last = rest
    steps = "".join(f"(?>{char}*?{re.escape(literal)})" for literal in middle)
    return f"(?>{re.escape(first)}{steps}{char}*{re.escape(last)}(?!{char}))"


def host_regex(glob: str) -> re.Pattern[str]:
    """Return the regex of a host glob, without case. Raises Refusal.

    `*` alone is every host; a leading `*.` is one or more labels; any other `*` stays within its label. An IPv6
    address is written with or without its brackets, and matched without.
    """
    address = glob.strip("[]")
    if ":" in glob and _is_address(address):
        return re.compile(rf"{re.escape(address.lower())}\Z", re.IGNORECASE)
    if "**" in glob or not _HOST.match(glob):
        raise Refusal(
            f"{quoted(glob)} is not a host or a glob over hosts",
            "write a name without scheme, port and path, like api.example.com or *.example.com",
        )
    first, *labels = glob.removesuffix(".").split(".")
    start = r"[^.]++(?:\.[^.]++)*" if first == "*" else _within(first, "[^.]")
    rest = "".join(rf"\.{_within(label, '[^.]')}" for label in labels)
    return re.compile(rf"{start}{rest}\Z", re.IGNORECASE | re.ASCII)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def path_regex(glob: str) -> re.Pattern[str]:
    """Return the regex of a path glob, with case. Raises Refusal.

    `*` stays within a segment; `**` stands for whole segments, as many as there are: at the end for everything below.
    """
    if len(glob) > _LONGEST_PATH or not _PATH.match(glob):
        raise Refusal(
            f"{quoted(glob)} is not a glob over paths",
            "begin with / and write a path without its query, with * for a part of a segment and ** for segments",
        )
    segments = glob[1:].split("/")
    if any("**" in segment and segment != "**" for segment in segments):
        raise Refusal(
            f"{quoted(glob)} has ** beside other characters", "write ** as a segment of its own, as in /v1/**"
        )
    if "/**/**" in glob:
        raise Refusal(f"{quoted(glob)} has ** twice in a row", "write it once")
    blocks: list[str] = [""]
    for segment in segments:
        if segment == "**":
            blocks.append("")
        else:
            blocks[-1] += f"/{_within(segment, '[^/]')}"
    first, *rest = blocks
    if not rest:
        return re.compile(rf"{first}\Z")
    *middle, last = rest
    # Each block stands at the first place where it fits; only the last has to reach the end.
    steps = "".join(f"(?>(?:/[^/]*+)*?{block})" for block in middle)
    return re.compile(first + steps + (rf"(?:/[^/]*+)*{last}\Z" if last else r"/[\s\S]*+"))


def name_regex(glob: str) -> re.Pattern[str]:
    """Return the regex of a glob over method or tool names, with case; `*` is any run of characters. Raises Refusal."""
    if "**" in glob or not _NAME.match(glob):
        raise Refusal(
            f"{quoted(glob)} is not a glob over names", "write a name like tools/list, or one with * in it"
        )
    return re.compile(_within(glob, r"[\s\S]"))


host: Final = scalar(host_regex, Shape(pattern=_ANY_HOST))
path: Final = scalar(path_regex, Shape(pattern=_PATH, longest=_LONGEST_PATH))
name: Final = scalar(name_regex, Shape(pattern=_NAME))
