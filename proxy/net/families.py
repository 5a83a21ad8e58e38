"""Where to listen so that both families of addresses arrive: a policy names one of them."""

from __future__ import annotations

import socket
from typing import Final

_IN_IPV6: Final = {"127.0.0.1": "::1", "0.0.0.0": "::"}  # noqa: S104 - what the policy may say, not what is opened


def hosts(host: str) -> list[str]:
    """Return where to listen: beside IPv4's loopback, or all of it, also in IPv6, where the machine (the pod) has that."""
    counterpart = _IN_IPV6.get(host)
    if counterpart is None:
        return [host]
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((counterpart, 0))
    except OSError:
        return [host]
    return [host, counterpart]
