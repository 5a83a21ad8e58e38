"""How a server treats one request: what it reads, whether it does the work, what it says, and where it goes wrong."""

from __future__ import annotations

from typing import Final, NamedTuple

from proxy.core.units import MILLISECOND, SECOND
from trials.simulation.draws import Draws


class Behaviour(NamedTuple):
    """One way to treat one request.

    `breaks`: where it goes no further (`head`, `body`, `commit`, `answer_head`, `answer_body`), and `how` (`stall`, `end`,
    `reset`). `think`, `after`: before the work is done, and between that and the answer (nanoseconds). `anyway`: the work is
    done even if whoever asked has gone. `lie`: about the length, or no HTTP at all. `pieces`, `gap`: how the answer's body
    comes. `idle`: how long the connection is then kept, None: until the other side has enough.
    """

    think: int = 0
    after: int = 0
    commits: bool = True
    anyway: bool = True
    early: bool = False
    interim: int = 0
    status: int = 200
    framing: str = "length"
    kind: str = "text/plain"
    size: int = 40
    pieces: int = 1
    gap: int = 0
    lie: str = ""
    breaks: str = ""
    how: str = ""
    idle: int | None = None


MOODS: Final[dict[str, dict[str, float]]] = {
    "well": {"good": 20, "slow": 1},
    "moody": {
        "good": 8,
        "slow": 3,
        "break": 3,
        "refuses work": 2,
        "commits and fails": 1,
        "drips": 1,
        "odd": 2,
    },
    "busy": {"good": 3, "slow": 4, "busy": 6, "break": 1, "commits and fails": 2},
    "broken": {"good": 1, "slow": 2, "break": 8, "lies": 3, "commits and fails": 3, "drips": 2, "odd": 1},
}
"""How often a server does what, by its mood."""
PLACES: Final = ("head", "body", "commit", "answer_head", "answer_body")
_SIZES: Final = (0, 40, 40, 40, 900, 20_000, 150_000)


def drawn(draws: Draws, mood: str) -> Behaviour:
    """Return how a server in this mood treats the next request."""
    what = draws.weighted(MOODS[mood])
    given = Behaviour(
        think=draws.span(MILLISECOND // 10, 10 * MILLISECOND),
        after=draws.span(MILLISECOND // 100, MILLISECOND),
        anyway=draws.happens(0.8),
        framing=draws.weighted({"length": 5.0, "chunked": 3.0, "close": 1.0}),
        kind=draws.weighted({"text/plain": 5.0, "application/json": 3.0, "text/event-stream": 1.0}),
        size=draws.one_of(_SIZES),
        pieces=draws.one_of((1, 1, 1, 3)),
        gap=draws.span(MILLISECOND // 10, 5 * MILLISECOND),
        idle=draws.span(MILLISECOND // 10, 2 * SECOND) if draws.happens(0.3) else None,
        interim=draws.one_of((100, 103)) if draws.happens(0.05) else 0,
    )
    return _varied(draws, given, what)


def _varied(draws: Draws, given: Behaviour, what: str) -> Behaviour:
    late = draws.span(10 * MILLISECOND, 15 * SECOND)
    if what == "slow":
        return given._replace(think=late) if draws.happens(0.5) else given._replace(after=late)
    if what == "busy":
        return given._replace(status=draws.one_of((503, 503, 429)), commits=False)
    if what == "refuses work":
        return given._replace(status=draws.one_of((400, 404, 409, 500)), commits=False)
    if what == "commits and fails":
        return given._replace(status=draws.one_of((500, 502, 503)), after=draws.one_of((given.after, late)))
    if what == "drips":
        return given._replace(pieces=draws.between(2, 12), gap=draws.span(MILLISECOND, SECOND), size=2_000)
    if what == "lies":
        return given._replace(lie=draws.one_of(("short", "long", "garbage", "garbage after")))
    if what == "odd":
        early = draws.happens(0.5)
        return given._replace(early=early, commits=not early, status=draws.one_of((200, 204, 413)))
    if what == "break":
        return given._replace(
            breaks=draws.one_of(PLACES),
            how=draws.one_of(("stall", "end", "reset")),
            think=draws.one_of((given.think, late)),
        )
    return given
