"""The interface of the endings, and the one fault that their parts know."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol


class Unreadable(ValueError):
    """The stream says something that is not read here, or more than is kept: it has no end that would be known to be true."""


class Ending(Protocol):
    """Follows a stream as it passes to the client, and can end it at any time. Nothing here raises, whatever passes."""

    @property
    def dialect(self) -> str:
        """The name of what the stream speaks; `unknown` until it is known, and where it is not."""
        ...

    @property
    def over(self) -> bool:
        """Whether the stream's own last event has passed."""
        ...

    @property
    def failed(self) -> bool:
        """Whether the stream has said of itself that it failed."""
        ...

    @property
    def unfinished(self) -> bool:
        """Whether the stream is of a kind that has a last event, and that has not passed."""
        ...

    def feed(self, data: bytes) -> None:
        """Take what has passed to the client."""
        ...

    def close(self, mark: str) -> bytes | None:
        """Return the bytes that end the stream truthfully, with `mark` as the last of its text; it may be asked again.

        Nothing (`b""`) where it is over. None where there is no truthful end: it has failed, a call of a tool is open, an
        event has passed in part, or the dialect is unknown.
        """
        ...


class Dialect(Protocol):
    """What is known of a stream of JSON objects once its dialect is: which of its parts are open, and how they are closed."""

    name: ClassVar[str]
    over: bool
    failed: bool

    @classmethod
    def speaks(cls, value: dict[str, Any], path: str) -> bool:
        """Say whether a stream that begins with this object, asked for at this path, speaks the dialect."""
        ...

    def take(self, value: dict[str, Any]) -> None:
        """Take the next object. Raises Unreadable."""
        ...

    def close(self, mark: str) -> bytes | None:
        """Return what ends the stream; None where a call of a tool is open. Raises Unreadable."""
        ...
