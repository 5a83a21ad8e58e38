"""Who the sidecar trusts when it speaks TLS for a caller: one context a CA file, made once and kept.

Making one reads some 150 certificates: 20 ms, and nearly a megabyte that stays. That is done in a thread of its own,
so that no call that runs at the time is cut late; the next connections find the context ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from pathlib import Path
from typing import NamedTuple, TypeAlias

from proxy.core.reasons import Reason
from proxy.net.errors import DialError

_Stamp: TypeAlias = tuple[int, int, int] | None


class _Made(NamedTuple):
    """A context, ready or being made, and the state of the CA file that it was made from."""

    stamp: _Stamp
    context: asyncio.Future[ssl.SSLContext]


class ClientContexts:
    """The contexts of upstream connections, for one event loop."""

    def __init__(self) -> None:
        """Make none yet."""
        self._made: dict[str | None, _Made] = {}

    async def get(self, ca: str | None) -> ssl.SSLContext:
        """Return the context that trusts the system's store and, beside it, the PEM file `ca`.

        A file that has changed (a Secret that was rotated) is read again. Raises DialError when it cannot be read;
        the next call tries again.
        """
        stamp = _stamp(ca)
        made = self._made.get(ca)
        if made is None or made.stamp != stamp:
            made = self._made[ca] = _Made(stamp, _in_own_thread(ca))
        try:
            return await asyncio.shield(made.context)
        except Exception:
            if self._made.get(ca) is made:
                del self._made[ca]
            raise


def client_context(ca: str | None) -> ssl.SSLContext:
    """Make a context: TLS 1.2 or newer, the host name checked, HTTP/1.1 and nothing else. Blocks. Raises DialError."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Python 3.13 began to insist on extensions that the CAs of many clusters leave out, and to take an intermediate
    # for an anchor. What is trusted must not depend on the Python of the image.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if ca is not None:
        try:
            context.load_verify_locations(cafile=ca)
        except (OSError, ValueError) as exc:  # an SSLError is an OSError
            raise _unreadable(ca, exc) from exc
    return context


def _unreadable(ca: str, exc: Exception) -> DialError:
    if isinstance(exc, ssl.SSLError):
        words = "it holds no certificate in PEM form"
    else:
        words = (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
    return DialError(
        Reason.TLS_CERTIFICATE_ERROR,
        f"The CA file {ca} cannot be used ({words}); correct the route's `ca`, or mount the file.",
    )


def _stamp(ca: str | None) -> _Stamp:
    if ca is None:
        return None
    try:
        status = Path(ca).stat()
    except (OSError, ValueError) as exc:
        raise _unreadable(ca, exc) from exc
    return status.st_mtime_ns, status.st_size, status.st_ino


def _in_own_thread(ca: str | None) -> asyncio.Future[ssl.SSLContext]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[ssl.SSLContext] = loop.create_future()

    def settle(context: ssl.SSLContext | None, error: Exception | None) -> None:
        if future.cancelled():
            return
        if context is not None:
            future.set_result(context)
        elif error is not None:
            future.set_exception(error)
            future.exception()  # when all who waited have left, nobody else looks at it

    def make() -> None:
        try:
            context, error = client_context(ca), None
        except Exception as exc:  # noqa: BLE001 - whatever it is, who waits for the context has to hear it
            context, error = None, exc
        with contextlib.suppress(RuntimeError):  # the loop has closed in the meantime
            loop.call_soon_threadsafe(settle, context, error)

    threading.Thread(target=make, name=f"CA {os.fspath(ca or '')}", daemon=True).start()
    return future
