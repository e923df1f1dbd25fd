"""Symbols such as `s0`: kind, range and hint of each, and the labels at which its value is found at run time.

The names carry meaning for readers and for PyTorch: `s` sizes and ints of the inputs, `zf` floats of the inputs,
`u` ints and bools that depend on data, `zuf` floats that depend on data.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Protocol

import sympy

from shapes.ranges import INF, Range, show_range


class Label(Protocol):
    """The place of a value in a call, such as `L['a'].size()[0]`. This package uses only its name."""

    @property
    def name(self) -> str: ...


class Kind(enum.Enum):
    SIZE = "size"  # of a tensor given to the program: never negative
    INT = "int"  # a plain int, or an offset
    STRIDE = "stride"  # of a tensor given to the program, in elements: never negative
    FLOAT = "float"
    UNBACKED_INT = "unbacked int"
    UNBACKED_BOOL = "unbacked bool"  # 0 or 1
    UNBACKED_FLOAT = "unbacked float"

    @property
    def backed(self) -> bool:
        return self in (Kind.SIZE, Kind.STRIDE, Kind.INT, Kind.FLOAT)

    @property
    def is_float(self) -> bool:
        return self in (Kind.FLOAT, Kind.UNBACKED_FLOAT)


_PREFIX = {
    Kind.SIZE: "s",
    Kind.STRIDE: "s",
    Kind.INT: "s",
    Kind.FLOAT: "zf",
    Kind.UNBACKED_INT: "u",
    Kind.UNBACKED_BOOL: "u",
    Kind.UNBACKED_FLOAT: "zuf",
}


def symbol_name(kind: Kind, number: int) -> str:
    return f"{_PREFIX[kind]}{number}"


@dataclasses.dataclass(eq=False)
class Symbol:
    """One unknown of an env. `base` is its range before any decision of the program."""

    name: str
    kind: Kind
    order: int
    hint: Any  # int or float; None for unbacked symbols
    base: Range  # what is checked at the entry: 2 <= s0
    trusted: Range  # what needs no check: 0 <= s0 of a size
    labels: list[Label] = dataclasses.field(default_factory=list)
    expr: Any = None  # the expression that is this symbol

    def __post_init__(self) -> None:
        # No assumption such as positive: SymPy would decide conditions by it that have to be checked at the entry.
        self.sympy = sympy.Symbol(self.name) if self.kind.is_float else sympy.Symbol(self.name, integer=True)

    @property
    def backed(self) -> bool:
        return self.kind.backed

    @property
    def label(self) -> Label | None:
        """The first place of the value."""
        return self.labels[0] if self.labels else None

    def __repr__(self) -> str:
        return self.name

    def describe(self) -> str:
        """`s0 = 8 in [2, oo) for L['a'].size()[0], L['b'].size()[0]`"""
        places = ", ".join(label.name for label in self.labels)
        value = "data dependent" if self.hint is None else repr(self.hint)
        return f"{self.name} = {value} in {show_range(self.base)}" + (f" for {places}" if places else "")


UNBOUNDED: Range = (-INF, INF)
