"""Where entries are kept outside this process, as the cache knows such a place: it is asked, within a time, or told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from proxy.core.degrading import CacheUse
from proxy.degrade.cache.asked import Asked
from proxy.degrade.cache.entry import Entry

Brought: TypeAlias = tuple[Entry, int] | None
"""An entry, and for how long it has been kept there (nanoseconds). None: nothing was found, or nobody could be asked."""


class Remote(Protocol):
    """Such a place. Nothing here waits or raises: a place that is slow or gone has nothing."""

    def find(
        self, asked: Asked, use: CacheUse, within: int, done: Callable[[Brought], None]
    ) -> Callable[[], None]:
        """Look for an answer, for `within` at most (nanoseconds).

        `done` is called once, from the loop, after this has returned. What is returned withdraws the question, and is
        safe to call at any time: `done` is not called after it.
        """

    def keep(self, asked: Asked, entry: Entry) -> None:
        """Keep an answer, some time soon. One for which there is no room in the queue is not kept."""

    def close(self) -> None:
        """Break off what is going on, and let go of all connections. Questions bring nothing from now on."""


class SharedStore(Remote, Protocol):
    """A place that keeps entries under the keys of their requests."""

    def forget(self, keys: Iterable[str]) -> None:
        """Keep the answers to these requests no longer, some time soon."""
