"""Where a shared store is, read from its URL: `redis://[[user]:password@]host[:port][/database]`, `rediss://` for TLS."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from proxy.core.target import Origin, split_authority

_PORT: Final = 6379
_URL: Final = re.compile(r"(redis|rediss)://(?:([^@/?#]*)@)?([^@/?#]+)(?:/([0-9]{1,5})?)?\Z", re.IGNORECASE)
_FORM: Final = "write redis://[[user]:password@]host[:port][/database], or rediss:// for TLS"


class StoreAddress(NamedTuple):
    """One database of one server, and who asks it. It is never shown: it holds a password."""

    origin: Origin
    database: int
    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"{self.origin.host}:{self.origin.port}/{self.database}"


def store_address(url: str) -> StoreAddress:
    """Read the URL of a store. Raises ValueError with what is wrong; the URL, which may hold a password, is not in it."""
    match = _URL.match(url)
    if match is None:
        raise ValueError(f"cannot be read as the address of a store; {_FORM}")
    scheme, userinfo, authority, database = match.groups()
    host, port = split_authority(authority, _PORT)
    user, _, password = (userinfo or "").partition(":")
    tls = scheme.lower() == "rediss"
    return StoreAddress(
        origin=Origin("https" if tls else "tcp", host, port),
        database=int(database or 0),
        user=unquote(user) or None,
        password=unquote(password) or None,
    )
