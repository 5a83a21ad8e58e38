"""The log of a sidecar, read line by line: one file or several, rotated and compressed ones too, or a pipe.

A step's line is a JSON object with `record` and `step`; any other line is not looked at. What collectors put around lines is
taken off: a time or a name in front (`kubectl logs --timestamps`, `--prefix`, the files of a node), or an object whose `log`
holds the line. Nothing is held but one line.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from proxy.tuning.faults import Untunable
from proxy.tuning.jobs import Jobs
from proxy.tuning.seen import Seen, Unreadable, seen
from proxy.tuning.words import many

STDIN: Final = "-"
LONGEST: Final = 256 * 1024
"""How many bytes of a line are read; of a longer one the rest is passed over."""
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SIGN: Final = b'"record"'  # is in the line of every step

Progress = Callable[[int], None]
"""Is told how many bytes of the files have been read since it was told last."""


class Line(NamedTuple):
    """A step's line: the step, None for one that no budget was held to, and when it ended (Unix nanoseconds), if it says so."""

    step: Seen | None
    at: int | None


def read_logs(names: Iterable[str], jobs: Jobs, progress: Progress = lambda _: None) -> tuple[str, ...]:
    """Hand the steps of these logs on, and return what is to be said about them. Raises Untunable."""
    notes: list[str] = []
    for name in names:
        steps = unreadable = lines = 0
        try:
            for line in _lines(name, progress):
                lines += 1
                try:
                    found = step_of(line)
                except Unreadable:
                    unreadable += 1
                    continue
                if found is not None:
                    steps += 1
                    if found.step is not None:
                        jobs.add(found.step, found.at)
        except EOFError:
            notes.append(f"{_called(name)} ends within its compressed data; what comes before was read.")
        if not steps:
            raise _no_log(name, lines)
        if unreadable:
            notes.append(f"Of {lines} lines of {_called(name)}, {unreadable} could not be read.")
    return tuple(notes)


def step_of(line: bytes) -> Line | None:
    """Return the step that a line is of; None for any other line. Raises Unreadable."""
    if _SIGN not in line and b'\\"record\\"' not in line:
        return None
    document = _object(line)
    wrapped = document.get("log")
    if isinstance(wrapped, str):
        document = _object(wrapped.encode("utf-8", "surrogatepass"))
    if "event" in document or "step" not in document:
        return None
    return Line(seen(document), _time(document.get("time")))


def _object(line: bytes) -> dict[str, Any]:
    start = line.find(b"{")
    if start < 0:
        raise Unreadable("no object")
    try:
        document = json.loads(line[start:])
    except (ValueError, RecursionError):
        raise Unreadable("no JSON") from None
    if not isinstance(document, dict):
        raise Unreadable("no object")
    return document


def _time(value: Any) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return int(moment.timestamp() * 1_000_000) * 1000
    except (ValueError, OverflowError, OSError):
        return None


def _lines(name: str, progress: Progress) -> Iterator[bytes]:
    """Yield the lines of a log, each cut at `LONGEST`. Raises Untunable, and EOFError within compressed data."""
    try:
        if name == STDIN:
            yield from _split(sys.stdin.buffer, None, progress)
            return
        with Path(name).open("rb") as file:
            head = file.read(4)
            file.seek(0)
            if head.startswith(_ZSTD):
                raise Untunable(
                    f"{name} is compressed with zstd", "unpack it", f"zstd -dc {name} | waterclock tune -"
                )
            if head.startswith(_GZIP):
                with gzip.open(file) as unpacked:
                    yield from _split(unpacked, file, progress)
            else:
                yield from _split(file, file, progress)
    except (gzip.BadGzipFile, zlib.error):
        raise Untunable(f"{name} is damaged: its compressed data cannot be read", "leave it out") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise Untunable(
            f"{_called(name)} cannot be read: {why}", "check the path and its permissions"
        ) from None
    except ValueError:  # a NUL, or what no file system can encode
        raise Untunable("one of the logs is no path of a file", "correct the path") from None


def _split(stream: IO[bytes] | gzip.GzipFile, file: IO[bytes] | None, progress: Progress) -> Iterator[bytes]:
    told, number = 0, 0
    while line := stream.readline(LONGEST):
        rest = line
        while len(rest) == LONGEST and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST)
        yield line
        number += 1
        if file is not None and number % 1000 == 0:
            at = file.tell()
            progress(at - told)
            told = at


def _called(name: str) -> str:
    return "standard input" if name == STDIN else name


def _no_log(name: str, lines: int) -> Untunable:
    what = f"among {many(lines, 'line', 'lines')} there is no step" if lines else "it is empty"
    remedy = "the steps are on the standard output of `waterclock run`, a line of JSON each"
    command = "kubectl logs POD -c waterclock | waterclock tune -"
    return Untunable(f"{_called(name)} is not the log of a sidecar: {what}", remedy, command)
