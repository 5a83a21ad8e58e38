"""What a store replies: values of an exchange, or an exception that drops the link; the same however it comes, and soon over.

The bytes are the replies to GET and PTTL of one key. Nothing here opens a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from proxy.core.units import SECOND
from proxy.degrade.cache.entry import Entry, encode
from proxy.degrade.cache.redis_link import Link, _Reader
from proxy.degrade.cache.redis_store import _brought
from proxy.degrade.cache.store_address import store_address
from proxy.net.dial import Dialer
from trials.fuzz.target import Seen, Target, Violated, gist, hold
from trials.fuzz.targets._cuts import cuts
from trials.fuzz.targets._loop import finished

_KEY: Final = "ab" * 32
_MOST: Final = 4096
_ENTRY: Final = Entry(200, ((b"Content-Type", b"a/b"),), b"x", 0, 5 * SECOND, None, 9 * SECOND)
VALUE: Final = bytes.fromhex(_KEY) + encode(_ENTRY)


class _Writer:
    """Takes what is sent, and says nothing."""

    class transport:  # noqa: N801 - as asyncio names it
        """As much of one as a link looks at."""

        @staticmethod
        def is_closing() -> bool:
            return False

        @staticmethod
        def abort() -> None: ...

    def writelines(self, parts: Any) -> None: ...

    def close(self) -> None: ...

    async def drain(self) -> None: ...


def check(data: bytes) -> Seen:
    """Read the replies whole and in pieces."""
    whole = finished(_exchanged([data]))
    for feeds in cuts(data)[1:]:
        parts = finished(_exchanged(feeds))
        hold(whole == parts, "same-replies-however-cut", whole, parts)
    if isinstance(whole, str):
        return {whole}
    value, left = whole
    try:
        brought = _brought(_KEY, value, left, _MOST)
    except ValueError as error:
        return {f"refused: {gist(str(error))}"}
    if brought is None:
        return {"nothing there"}
    entry, held = brought
    hold(0 <= held <= entry.kept, "held-is-within-its-time", entry, held)
    return {f"brought {entry.status} {entry == _ENTRY}"}


async def _exchanged(feeds: Sequence[bytes]) -> list[Any] | str:
    """Give the two replies, or the name of what drops the link."""
    link = Link(cast(Dialer, None), store_address("redis://store:6379/0"))
    reader = _Reader()
    link._reader = link._incoming = reader
    link._writer = cast(asyncio.StreamWriter, _Writer())
    link._parser.on_connect(link)
    exchange = asyncio.ensure_future(link.exchange([("GET", _KEY), ("PTTL", _KEY)], _MOST))
    for data in feeds:
        await asyncio.sleep(0)
        if data:
            reader.feed_data(data)
    reader.feed_eof()
    for _ in range(10_000):
        await asyncio.sleep(0)
        if exchange.done():
            break
    try:
        hold(exchange.done(), "an-exchange-ends")
        replies = exchange.result()
    except Violated:
        exchange.cancel()
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is: the link is dropped, and the call goes on without
        return f"dropped: {type(error).__name__}"
    finally:
        link.drop()
    return [_shown(each) for each in replies]


def _shown(reply: Any) -> Any:
    """Give a reply so that it is equal to the same one: errors, which may stand within lists, are not."""
    if isinstance(reply, list):
        return [_shown(each) for each in reply]
    return str(reply) if isinstance(reply, Exception) else reply


TARGET: Final = Target(
    "redis",
    "what a store replies: values, or the end of the link; the same however cut; an entry that is within its time",
    check,
    tokens=(
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$5\r\nhello\r\n",
        b"$%d\r\n%b\r\n" % (len(VALUE), VALUE),
        b":8000\r\n",
        b":-2\r\n",
        b":-1\r\n",
        b"+OK\r\n",
        b"-ERR x\r\n",
        b"-WRONGTYPE x\r\n",
        b"-NOAUTH x\r\n",
        b"*1\r\n",
        b"*-1\r\n",
        b"*100000\r\n",
        b"*1\r\n" * 64,
        b"_\r\n",
        b"#t\r\n",
        b"%1\r\n",
        b"~1\r\n",
        b"$999999999999\r\n",
        b"$-5\r\n",
        b"$ 5\r\n",
        b"$+5\r\n",
        b"\r\n",
        b"\xff",
    ),
)
