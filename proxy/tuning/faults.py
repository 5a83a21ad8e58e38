"""What keeps tuning from its end, said so that it can be put right."""

from __future__ import annotations


class Untunable(Exception):
    """Something is not as it must be. The message says what, what helps, and perhaps the commands that do."""

    def __init__(self, problem: str, remedy: str, *commands: str) -> None:
        """Make two sentences of it; each command gets a line of its own."""
        shown = "".join(f"\n  {command}" for command in commands)
        super().__init__(f"{problem}.\n{remedy[:1].upper()}{remedy[1:]}{':' if commands else '.'}{shown}")
