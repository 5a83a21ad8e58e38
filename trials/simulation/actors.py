"""Those who act by a script: a generator that yields what it waits for, and is sent what came of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from trials.simulation.clock import Clock

Waits = Callable[[Callable[[Any], None]], object]
"""What a script waits for: a function that is given whom to tell."""
Script = Generator[Waits, Any, None]


def play(script: Script, over: Callable[[], None] | None = None) -> None:
    """Let a script run to its end; `over` is called then."""

    def step(value: Any) -> None:
        try:
            waits = script.send(value)
        except StopIteration:
            if over is not None:
                over()
            return
        waits(step)

    step(None)


def pause(clock: Clock, span: int) -> Waits:
    """Wait for a while (nanoseconds)."""

    def waits(tell: Callable[[Any], None]) -> None:
        clock.after(span, tell, None)

    return waits


def first_of(clock: Clock, span: int, other: Waits) -> Waits:
    """Wait for something, for a while at the most (nanoseconds): then None is sent."""

    def waits(tell: Callable[[Any], None]) -> None:
        told = False

        def once(value: Any) -> None:
            nonlocal told
            if not told:
                told = True
                timer.call_off()
                tell(value)

        timer = clock.after(span, once, None)
        other(once)

    return waits
