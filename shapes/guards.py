"""Shape guards: each with the reason for it, and as text, for people and for `check_fn`."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from shapes.conversion import as_asked
from shapes.relations import BoolExpr
from shapes.symbols import Label


class Why(enum.Enum):
    BRANCH = "decided in the program"
    SPECIALIZED = "used as a constant"
    BASE = "size 0 and 1 are traced on their own"
    DUCK = "equal in the traced call"
    LAYOUT = "a stride of the traced layout"
    MARK = "marked by the user"
    DECLARED = "declared by the user"
    BACKEND = "assumed by the backend"


@dataclasses.dataclass(frozen=True)
class ShapeGuard:
    """A boolean expression that the trace relies on, and the user's line that made it needed."""

    expr: BoolExpr
    why: Why
    where: Any = None  # a UserLocation or None
    decided: BoolExpr | None = None  # the condition that was decided, if `expr` is a simpler equivalent

    @property
    def sympy(self) -> Any:
        return self.expr.sympy

    @property
    def recorded(self) -> Any:
        """The condition as the program wrote it: `2*s0 >= 16`."""
        return as_asked(self.expr if self.decided is None else self.decided)

    def __str__(self) -> str:
        return f"{self.recorded}  # {self.why.value}" + (f", {self.where}" if self.where is not None else "")


@dataclasses.dataclass(frozen=True)
class RuntimeAssert:
    """An assumption about data-dependent values that the graph must check when it runs."""

    expr: BoolExpr
    message: str
    where: Any = None

    @property
    def sympy(self) -> Any:
        return self.expr.sympy


@dataclasses.dataclass(frozen=True)
class Fact:
    """A condition that the trace relies on, as a SymPy expression over symbols."""

    condition: Any
    why: Why
    where: Any = None
    recorded: Any = None


@dataclasses.dataclass(frozen=True)
class GuardText:
    """The texts of a guard: `readable` is for people, `executable` makes the code of `check_fn`."""

    readable: str
    executable: Callable[[Callable[[Label], str]], str]
    where: Any
    recorded: str
    condition: Any  # the SymPy condition, over symbols
    why: Why
