"""Marks of the user on a dim, and the error that names the lines of the program that contradict one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

LARGEST_SIZE = (1 << 63) - 1


class ConstraintViolationError(ValueError):
    """The program, or the value of this call, contradicts a mark."""

    message: str
    hint: str | None
    causes: tuple[Any, ...] = ()  # the guards that together contradict the mark

    def __init__(self, message: str, hint: str, causes: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.message, self.hint, self.causes = message, hint, tuple(causes)

    def __str__(self) -> str:
        return f"{self.message}\n  Try: {self.hint}"


@dataclasses.dataclass(frozen=True)
class DimConstraint:
    """A mark: the dim is to stay symbolic, and, if bounds are given, the trace is to serve all values between them."""

    min: int | None = None
    max: int | None = None
    strict: bool = True  # whether a contradiction is an error: of mark_dynamic, but not of maybe_mark_dynamic
    shape_id: str | None = None  # of an unbacked size: it equals all others with this id
    hint: int | None = None  # the size that compilers are to take for the usual one

    def __post_init__(self) -> None:
        for name in ("min", "max"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise TypeError(f"{name} of a marked dim must be an int, got {type(value).__name__} {value!r}")
            if value is not None and not 0 <= value <= LARGEST_SIZE:
                raise ValueError(f"{name} of a marked dim must lie between 0 and {LARGEST_SIZE}, got {value}")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"contradictory mark: min={self.min} > max={self.max}, which no size can satisfy")

    @property
    def bounded(self) -> bool:
        return self.min is not None or self.max is not None

    def check_value(self, value: int, name: str) -> None:
        """Raises if the size of this call is outside of the mark's bounds."""
        low = self.min if self.min is not None else 0
        if value < low or (self.max is not None and value > self.max):
            raise ConstraintViolationError(
                f"{name} is {value}, but it was marked with {self.bounds_text()}.",
                "call with a size between these bounds, or change the bounds of the mark.",
            )

    def bounds_text(self) -> str:
        bounds = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return ", ".join(bounds) or "no bounds"


@dataclasses.dataclass(frozen=True)
class Violation:
    """A mark that does not hold, the condition that the program forces instead, and the guards that force it."""

    name: str
    constraint: DimConstraint
    forced: str  # "L['a'].size()[0] == 5"
    causes: tuple[Any, ...]  # ShapeGuards
    lines: tuple[str, ...]  # the causes as text over labels

    def text(self) -> str:
        marked = f"marked dynamic ({self.constraint.bounds_text()})" if self.constraint.bounded else "marked dynamic"
        paragraphs = [f"{self.name} was {marked}, but the program forces {self.forced}"]
        if self.lines:
            paragraphs[0] += ", by " + ("this line:" if len(self.lines) == 1 else f"these {len(self.lines)} lines together:")
            paragraphs += [f"  - {line}" for line in self.lines]
        else:
            paragraphs[0] += "."
        return "\n".join(paragraphs)


def violation_error(violations: Sequence[Violation]) -> ConstraintViolationError:
    text = "\n".join(violation.text() for violation in violations)
    causes = [cause for violation in violations for cause in violation.causes]
    hint = (
        "change the lines so that they hold for every size of the dim; or take the mark away, "
        "use maybe_mark_dynamic, or give the mark bounds (min, max) within which they hold."
    )
    return ConstraintViolationError(text, hint, causes)
