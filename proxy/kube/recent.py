"""What was injected a moment ago: the API server asks once more about a pod that others have changed since.

It does so within the same request (`reinvocationPolicy: IfNeeded`), of most pods in fact, and then there is nothing to
tell anybody. A review says not which it is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from proxy.core.units import SECOND

SPAN: Final = 10 * SECOND
"""The longest that a webhook may take is 30 s, but what the API server does between two calls takes milliseconds."""
MOST: Final = 4096

Key = tuple[str, str, str]
"""A pod that may have no name yet: its namespace, and the name and uid of what its Events are about."""


class Recent:
    """When which pods were injected, within `SPAN`; replicas of one controller look the same, and at most `MOST` do not."""

    def __init__(self) -> None:
        """Nothing has been injected yet."""
        self._injected: OrderedDict[Key, deque[int]] = OrderedDict()

    def note(self, key: Key, now: int) -> None:
        """A pod was injected. `now`: monotonic nanoseconds."""
        times = self._within(key, now)
        times.append(now)
        self._injected[key] = times
        if len(self._injected) > MOST:
            _ = self._injected.popitem(last=False)

    def take(self, key: Key, now: int) -> bool:
        """Say whether one such pod was injected just now, and is asked about for the first time since."""
        times = self._within(key, now)
        if not times:
            return False
        _ = times.popleft()
        if times:
            self._injected[key] = times
        return True

    def _within(self, key: Key, now: int) -> deque[int]:
        """Take out the times of such pods, without those that are too long ago."""
        times = self._injected.pop(key, None) or deque[int]()
        while times and now - times[0] > SPAN:
            _ = times.popleft()
        return times
