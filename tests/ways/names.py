"""A name server in a thread of its own, for sidecars whose tools have names."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType

from tests.net.hosts import NameServer
from tests.support.waiting import PATIENCE


class Names:
    """Answers for the names it was told, and with NXDOMAIN for all others."""

    def __init__(self) -> None:
        self.address = ""
        self._server = NameServer({}, set())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="names", daemon=True)
        self._listening = threading.Event()

    def know(self, *names: str, at: str = "127.0.0.1") -> None:
        """Answer for these names from now on."""
        self._server.names.update({name: [at] for name in names})

    @contextlib.contextmanager
    def slowly(self, seconds: float) -> Iterator[None]:
        """Take so long for each answer."""
        self._server.delay = seconds
        yield
        self._server.delay = 0.0

    @property
    def asked(self) -> set[str]:
        """The names that somebody wanted to know."""
        return {name for name, _ in self._server.asked}

    def __enter__(self) -> Names:
        self._thread.start()
        assert self._listening.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        transport, _ = loop.run_until_complete(
            loop.create_datagram_endpoint(lambda: self._server, local_addr=("127.0.0.1", 0))
        )
        self.address = "{}:{}".format(*transport.get_extra_info("sockname"))
        self._listening.set()
        loop.run_forever()
        transport.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
