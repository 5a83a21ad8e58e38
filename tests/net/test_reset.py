"""Asking something of a socket that has gone already: on uvloop its descriptor is -1 before anybody is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest

from proxy.net.original import original_destination
from proxy.net.reset import end_with_reset, was_reset
from proxy.net.transit import half_round_trip


class _Closed:
    """What a uvloop transport shows as its socket once that is closed."""

    def fileno(self) -> int:
        return -1

    def _fail(self, *args: Any) -> Any:
        raise ValueError("negative file descriptor")

    getsockname = getsockopt = setsockopt = _fail


class _Transport:
    def get_extra_info(self, name: str) -> Any:
        return _Closed()


@pytest.mark.parametrize(
    ("ask", "told"),
    [(was_reset, True), (half_round_trip, 0), (original_destination, None)],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_who_asks_a_socket_that_is_gone_is_told_so(ask: Callable[[Any], Any], told: Any) -> None:
    assert ask(cast(socket.socket, _Closed())) == told


def test_a_socket_that_is_gone_needs_no_reset() -> None:
    end_with_reset(cast(asyncio.Transport, _Transport()))
