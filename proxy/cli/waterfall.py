"""A job as a waterfall: a row for each step, from what its record and the timeline of its admission say.

    step call              took 0                        9  10
       1 GET /v1/search       4 ███████████               ···│ completed
       2 POST /orders     3.998       ░░░█████████████████···│ deadline_exceeded ?
       3 POST /v1/chat      0.7 █                         ···│ completed ↓ minimal (time)

A row begins when the step arrived and ends when it ended, or now. Only text is made here; nobody is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from rich.text import Text

from proxy.cli.less_text import ASCII_MARK, UNICODE_MARK, rung_and_why
from proxy.cli.output import one_line, seconds

Document = dict[str, Any]

UNDER_WAY: Final = "under way"
WAITING: Final = "waiting"

_COLOURS: Final = {
    "completed": "green",
    "deadline_exceeded": "yellow",
    UNDER_WAY: "cyan",
    WAITING: "cyan",
}
_WAIT_ENDS: Final = frozenset({"granted", "expired", "released"})
_STEP_ENDS: Final = frozenset({"expired", "completed", "released", "dead_lettered"})
_NARROWEST_BAR: Final = 7
_COMFORTABLE_BAR: Final = 20
_SHORTEST_CALL: Final = 16
_LONGEST_CALL: Final = 36


class Marks(NamedTuple):
    """What is drawn with."""

    running: str = "█"
    waiting: str = "░"
    broken: str = "×"
    reserve: str = "·"
    now: str = "┊"
    end: str = "│"
    more: str = "…"
    less: str = UNICODE_MARK


UNICODE: Final = Marks()
ASCII: Final = Marks("#", ".", "x", "-", "!", "|", "~", ASCII_MARK)


class Bar(NamedTuple):
    """The row of one step. Times are milliseconds since the budget's opening; `ended` None: it has not.

    `waits`: when it stood in a queue. `ran`: it was started. `less`: the rung that answered it with less than it asked for,
    and why.
    """

    step: int
    call: str
    began: float
    ended: float | None
    waits: tuple[tuple[float, float], ...]
    outcome: str
    ran: bool = True
    uncertain: bool = False
    less: tuple[str, str] | None = None


class Scale(NamedTuple):
    """How times become columns: `width` of them for `whole` milliseconds.

    The budget ends after `due` columns, which may be more than there are; its reserve begins after `reserve`, and `now`
    is the present one, if that is shown.
    """

    whole: float
    width: int
    reserve: int
    due: int
    now: int | None

    def column(self, at: float) -> int:
        """Return how many columns lie before a time."""
        return max(0, round(at * self.width / self.whole))


# -- what there is to draw ---------------------------------------------------------------------------------------------


def bars_of(record: Document, timeline: Document) -> list[Bar]:
    """Return the rows of a job, in the order in which its steps arrived."""
    events: defaultdict[str, list[Document]] = defaultdict(list)
    for event in timeline["events"]:
        events[event["record"]].append(event)
    now: float = timeline["now_ms"]
    bars = [_ended(step, events.pop(step["record"], [])) for step in record["steps"]]
    if record["in_flight"]:
        bars += [_in_flight(noted, now) for noted in events.values() if noted[-1]["event"] not in _STEP_ENDS]
    return sorted(bars, key=lambda bar: (bar.began, bar.step))


def _ended(step: Document, events: list[Document]) -> Bar:
    began, ended = step["started_ms"], step["started_ms"] + step["elapsed_ms"]
    waits = tuple(_waits(events, ended))
    if not waits and step["queued_ms"]:
        waits = ((began, began + step["queued_ms"]),)
    return Bar(
        step["step"],
        f"{step['method']} {_place(step['target'])}",
        began,
        ended,
        waits,
        step["outcome"],
        ran=step["tries"] > 0 or step["phase"] != "not_sent" or step["outcome"] == "completed",
        uncertain=step["effect"] == "uncertain",
        less=rung_and_why(step["degraded"]) if step["degraded"] is not None else None,
    )


def _in_flight(events: list[Document], now: float) -> Bar:
    """Return the row of a step that has no record yet: what it calls is not known before its end."""
    waiting = events[-1]["event"] == "enqueued"
    return Bar(
        events[0]["step"],
        "-",
        events[0]["at_ms"],
        None,
        tuple(_waits(events, now)),
        WAITING if waiting else UNDER_WAY,
    )


def _waits(events: Iterable[Document], until: float) -> Iterator[tuple[float, float]]:
    since: float | None = None
    for event in events:
        if event["event"] == "enqueued":
            since = event["at_ms"]
        elif since is not None and event["event"] in _WAIT_ENDS:
            yield since, event["at_ms"]
            since = None
    if since is not None:
        yield since, until


def _place(target: str) -> str:
    """Return what tells a target from others in little room: its path, or its host where it has none."""
    bare = one_line(target).partition("?")[0]
    _, absolute, rest = bare.partition("://")
    host, slash, path = rest.partition("/")
    return bare if not absolute else slash + path if path else host


# -- drawing -----------------------------------------------------------------------------------------------------------


def waterfall(
    record: Document, timeline: Document, *, width: int = 80, marks: Marks = UNICODE, fit: bool = False
) -> list[Text]:
    """Return the lines of a job's waterfall. `fit`: scaled to what was used, not to the whole budget."""
    bars = bars_of(record, timeline)
    if not bars:
        return [Text("No step has begun." if not record["steps_dropped"] else _dropped(record))]
    call = min(
        max(len(bar.call) for bar in bars),
        max(_SHORTEST_CALL, min(_LONGEST_CALL, width - 80 + _SHORTEST_CALL)),
    )
    call = max(4, call)
    taken = len(_heading("step", "call", call, "took", marks)) + len(marks.end) + 1
    said = [_said(bar, marks, width - taken - _COMFORTABLE_BAR) for bar in bars]
    taken += max(map(len, said))
    scale = _scale(record, timeline, bars, max(_NARROWEST_BAR, width - taken), fit=fit)
    lines = [_axis(call, scale, record, marks)]
    lines += [
        _row(bar, call, scale, timeline["now_ms"], marks, says) for bar, says in zip(bars, said, strict=True)
    ]
    if record["steps_dropped"]:
        lines.append(Text(_dropped(record)))
    lines += [Text(line, "dim") for line in _legend(bars, scale, timeline, marks, width)]
    for line in lines:
        line.rstrip()
        line.no_wrap = True
    return lines


def _scale(record: Document, timeline: Document, bars: list[Bar], width: int, *, fit: bool) -> Scale:
    now: float = timeline["now_ms"]
    deadline: float = timeline["deadline_ms"]
    used = max(now if bar.ended is None else bar.ended for bar in bars)
    is_open = record["state"] == "open"
    if not fit:
        used = max(used, deadline)
    elif is_open:
        used = max(used, now)
    scale = Scale(max(used, 0.001), width, 0, 0, None)
    return scale._replace(
        reserve=scale.column(deadline - timeline["reserve_ms"]),
        due=scale.column(deadline),
        now=min(width - 1, scale.column(now)) if is_open else None,
    )


def _row(bar: Bar, call: int, scale: Scale, now: float, marks: Marks, said: str) -> Text:
    ended = now if bar.ended is None else bar.ended
    line = Text(_heading(str(bar.step), bar.call, call, seconds(ended - bar.began), marks))
    line.append_text(_drawn(bar, ended, scale, marks))
    line.append(" ")
    word, less, why = said.partition(f" {marks.less}") if bar.less is not None else (said, "", "")
    line.append(word, _COLOURS.get(bar.outcome, "magenta"))
    line.append(less + why, "yellow")
    return line


def _drawn(bar: Bar, ended: float, scale: Scale, marks: Marks) -> Text:
    """Return the bar itself, with the line of the budget's end in it."""
    cells = [(" ", "")] * scale.width
    for column in range(scale.reserve, min(scale.due, scale.width)):
        cells[column] = (marks.reserve, "dim")
    if scale.now is not None:
        cells[scale.now] = (marks.now, "bold cyan")
    first = min(scale.column(bar.began), scale.width - 1)
    last = max(min(scale.column(ended), scale.width), first + 1)  # something is seen of the shortest step
    if bar.ran and bar.outcome != WAITING:
        colour = _COLOURS.get(bar.outcome, "magenta")
        cells[first:last] = [(marks.running, colour)] * (last - first)
    for since, until in bar.waits:
        begin, end = min(max(first, scale.column(since)), last - 1), min(last, scale.column(until))
        if bar.outcome == WAITING or not bar.ran:
            end = max(end, begin + 1)
        cells[begin:end] = [(marks.waiting, "")] * (end - begin)
    if bar.ended is not None and bar.outcome != "completed":
        cells[last - 1] = (marks.broken, "bold red")
    cells.insert(scale.due, (marks.end if scale.due <= scale.width else " ", "bold"))
    return Text.assemble(*cells)


def _axis(call: int, scale: Scale, record: Document, marks: Marks) -> Text:
    """Return the heading, with the times of the beginning, of the reserve and of the end of the budget."""
    cells = [" "] * (scale.width + 1)
    deadline: float = record["deadline_ms"]
    labels = [(scale.width + (scale.due < scale.width), scale.whole)]
    if scale.due < scale.width:
        labels.append((scale.due, deadline))
    if scale.reserve < min(scale.due, scale.width):
        labels.append((scale.reserve, deadline - record["reserve_ms"]))
    free = scale.width + 2
    for end, at in labels:  # right to left, as far as there is room
        text = seconds(at)
        begin = end - len(text)
        if begin > 1 and end < free:
            cells[begin:end] = text
            free = begin
    cells[0] = "0"
    return Text(_heading("step", "call", call, "took", marks) + "".join(cells), "bold")


def _heading(step: str, what: str, width: int, took: str, marks: Marks) -> str:
    if len(what) > width:
        method, _, path = what.partition(" ")
        kept = width - len(method) - 1 - len(marks.more)
        what = f"{method} {marks.more}{path[-kept:]}" if kept > 0 else what[:width]
    return f"{step:>4} {what:<{width}} {took:>7} "


def _said(bar: Bar, marks: Marks, room: int) -> str:
    """Return how a step ended; that it was answered with less in any case, the rest of that as far as there is room."""
    outcome = f"{bar.outcome} ?" if bar.uncertain else bar.outcome
    if bar.less is None:
        return outcome
    mark = f"{outcome} {marks.less}"
    rung, why = bar.less
    return next((text for text in (f"{mark} {rung} {why}", f"{mark} {rung}") if len(text) <= room), mark)


def _dropped(record: Document) -> str:
    return f"Of {record['steps_dropped']} further steps only the counts are kept."


def _legend(bars: list[Bar], scale: Scale, timeline: Document, marks: Marks, width: int) -> list[str]:
    """Return what the signs mean, of those that are there, in as many lines as it takes."""
    said = ["All in seconds.", f"{marks.running} under way"]
    if any(bar.waits for bar in bars):
        said.append(f"{marks.waiting} waiting for its turn")
    if any(bar.ended is not None and bar.outcome != "completed" for bar in bars):
        said.append(f"{marks.broken} cut, failed or not started")
    if any(bar.uncertain for bar in bars):
        said.append("? effect uncertain")
    if any(bar.less is not None for bar in bars):
        said.append(f"{marks.less} answered with less than asked")
    if scale.reserve < min(scale.due, scale.width):
        said.append(f"{marks.reserve} reserve for cleanup")
    if scale.now is not None:
        said.append(f"{marks.now} now ({seconds(timeline['now_ms'])})")
    if scale.due <= scale.width:
        said.append(f"{marks.end} end of the budget")
    lines = [said[0]]
    for item in said[1:]:
        if len(lines[-1]) + 2 + len(item) <= width:
            lines[-1] += f"  {item}"
        else:
            lines.append(item)
    return lines
