"""What a figure must reach: the least that is promised, the aim beyond it, and which of the two was reached.

A target is a value, and judging it a pure function, so that every part of the bench states its promises in the same
form: a name, a figure, and what stands on either side of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["more", "less"]
Reached = Literal["beyond aim", "met", "missed", "not measured"]


@dataclass(frozen=True)
class Target:
    """One line of what must be reached. `least` and `aim` are in the unit that `figure` names; which side of them is
    good says `better`: `more` for a rate, `less` for a time, a size or a cost.
    """

    figure: str
    least: float
    aim: float
    better: Better
    unit: str = ""

    def __post_init__(self) -> None:
        """An aim that asks for less than the least is a slip of the pen: ValueError."""
        if not _reaches(self.aim, self.least, self.better):
            raise ValueError(
                f"{self.figure}: the aim {self.aim:g} asks for less than the least {self.least:g}"
            )


@dataclass(frozen=True)
class Floor:
    """A promise that is kept or not, where no one figure says it all. `measured` is None when there was nothing to measure,
    which is a miss too: a claim needs its figure.
    """

    promise: str
    measured: str | None
    met: bool


@dataclass(frozen=True)
class Verdict:
    """A target beside what was measured. `measured` is None when there was nothing to measure, which is no success:
    a claim needs its figure. `note` says more of it in one short phrase, where there is more to say.
    """

    target: Target
    measured: float | None
    reached: Reached
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether at least the least was reached."""
        return self.reached in ("met", "beyond aim")


def judge(target: Target, measured: float | None, note: str = "") -> Verdict:
    """Both borders are inside: what equals the least meets it, and what equals the aim has reached that."""
    if measured is None:
        return Verdict(target, None, "not measured", note)
    if _reaches(measured, target.aim, target.better):
        return Verdict(target, measured, "beyond aim", note)
    reached: Reached = "met" if _reaches(measured, target.least, target.better) else "missed"
    return Verdict(target, measured, reached, note)


def _reaches(value: float, border: float, better: Better) -> bool:
    return value >= border if better == "more" else value <= border
