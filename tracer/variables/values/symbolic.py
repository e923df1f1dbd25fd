"""Ints, bools and floats that the graph computes at run time: sizes, arithmetic on them, and branches that depend on them."""

from __future__ import annotations

import enum
import math
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines
from tracer.protocol.variable import VariableTracker
from tracer.variables.slots import BINARY, COMPARE, UNARY
from tracer.variables.values.constant import ONE, ZERO, ConstantVariable, NamedMethodVariable, boolean, is_left_to, plain_value

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_PARTS = {"real": None, "imag": 0, "numerator": None, "denominator": 1}  # attributes; None: the number itself
_PYTHON_TYPE = {torch.SymInt: int, torch.SymBool: bool, torch.SymFloat: float}


class SymNodeVariable(VariableTracker):
    """A symbolic number: `example` is the torch.SymInt / SymBool / SymFloat, `node` its value in the graph."""

    def __init__(self, node: fx.Node, example: Any, source: Source | None = None) -> None:
        self.node = node
        self.example = example
        self.source = source

    def python_type(self) -> type:
        return _PYTHON_TYPE[type(self.example)]

    def depends_on_data(self) -> bool:
        """Whether the value is unknown until the graph runs."""
        return not self.example.node.has_hint()

    def graph_arg(self) -> Any:
        return self.node

    def identity(self) -> Any:
        return self

    def describe(self) -> str:
        return f"SymNodeVariable({self.example})"

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if is_left_to(other, self.python_type()(1), op, reflected):
            return None
        other = plain_value(other)
        if other.is_constant() and isinstance(other.constant(), (enum.Enum, str, bytes)):  # gives a member or a text, or raises
            return self.specialize(tx).binary(tx, op, other, reflected)
        if not is_number(other):
            return None
        pair = (other, self) if reflected else (self, other)
        _assume_defined(tx, op, *pair)
        if op == "^" and all(number.python_type() is bool for number in pair):
            return _xor_of_bools(tx, *pair)
        return apply(tx, BINARY[op], *pair)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if is_left_to(other, self.python_type()(1), op):
            return None
        other = plain_value(other)
        if is_number(other):
            return apply(tx, COMPARE[op], self, other)
        if not other.is_constant() or isinstance(other.constant(), enum.Enum):
            return None
        if isinstance(other.constant(), complex):
            return self.specialize(tx).compare(tx, op, other)
        return boolean(op == "!=") if op in ("==", "!=") else None

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        if op == "~" and self.python_type() is not float:
            return _inverted(tx, self)
        return apply(tx, UNARY[op], self)

    def truth(self, tx: Tracer) -> bool:
        try:
            return bool(self.example)
        except GuardOnDataDependentSymNode as error:
            unsupported("data-dependent-branch", value=str(error).partition("\n")[0], undecided=error.cond)

    def specialize(self, tx: Tracer) -> ConstantVariable:
        """The value in this call as a constant, with a guard on it."""
        cls = self.python_type()
        try:
            return ConstantVariable(cls(self.example) if cls is not float else self.example.node.guard_float("", 0))
        except GuardOnDataDependentSymNode as error:
            unsupported("data-dependent-value", value=str(error).partition("\n")[0])

    def iterate(self, tx: Tracer) -> VariableTracker:
        tx.raise_error(TypeError, f"{self.python_type().__name__!r} object is not iterable")

    def hash_key(self, tx: Tracer) -> Any:
        return self.specialize(tx).value

    def form(self, tx: Tracer) -> Any:
        """Formatting specialises the number to its value in this call."""
        return self.specialize(tx).value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        cls = self.python_type()
        if not defines(cls, name):
            tx.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
        if name in _PARTS and cls is bool:  # its parts are ints
            return self.specialize(tx).get_attr(tx, name)
        if name in _PARTS:
            return self if name in ("real", "numerator") else ConstantVariable(cls(_PARTS[name]))
        return NamedMethodVariable(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("__index__", "__int__") and self.python_type() is int:
            return self
        if name == "bit_length" and self.python_type() is int and not args and not kwargs and not self.depends_on_data():
            return self.bit_length()
        if name == "is_integer" and self.python_type() is float:
            return apply(tx, lambda x: x.is_integer(), self)
        return self.specialize(tx).call_method(tx, name, args, kwargs)

    def bit_length(self) -> VariableTracker:
        """bit_length() as a constant. The guard admits all ints of the same sign with as many bits."""
        seen = self.example.node.hint
        bits = int.bit_length(seen)
        low, high = (1 << bits) >> 1, (1 << bits) - 1  # bits <=> low <= abs(x) <= high
        self.stays_within(low, high) if seen >= 0 else self.stays_within(-high, -low)
        return ConstantVariable(bits)

    def integer_root(self) -> VariableTracker:
        """math.isqrt of an int that is not negative, as a constant. The guard admits all ints from its square up to the next."""
        root = math.isqrt(self.example.node.hint)
        self.stays_within(root * root, (root + 1) ** 2 - 1)
        return ConstantVariable(root)

    def stays_within(self, low: int, high: int) -> None:
        """Guards that an int lies within these bounds, as it does in this call."""
        bool(self.example >= low)
        bool(self.example <= high)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_graph_output(self)


def is_number(value: VariableTracker) -> bool:
    if isinstance(value, SymNodeVariable):
        return True
    return value.is_constant() and isinstance(value.constant(), (int, float))


def example_number(value: VariableTracker) -> Any:
    return value.example if isinstance(value, SymNodeVariable) else plain_number(value.constant())


def plain_number(value: Any) -> Any:
    """The plain number: that of an enum member which is an int or a float, otherwise the value itself."""
    if isinstance(value, enum.Enum):
        number: Any = value
        return int.__index__(number) if isinstance(value, int) else float.__float__(number)
    return value


def apply(tx: Tracer, function: Any, *values: VariableTracker, **kwargs: Any) -> VariableTracker:
    """`function` on symbolic numbers, recorded in the graph when its result is not a constant."""
    try:
        example = function(*map(example_number, values), **kwargs)
    except GuardOnDataDependentSymNode as error:
        unsupported("data-dependent-value", value=str(error).partition("\n")[0], undecided=error.cond)
    except (ZeroDivisionError, ValueError, TypeError, OverflowError) as error:
        if all(v.is_constant() for v in values):
            tx.raise_caught(error)
        unsupported("symbolic-arithmetic", error=f"{type(error).__name__}: {error}")
    return tx.output.symbolic_result(function, tuple(v.graph_arg() for v in values), kwargs, example)


# Compilers run a graph on torch's own symbolic numbers, which do not support `~`, nor `^` of bools.


def _inverted(tx: Tracer, number: SymNodeVariable) -> VariableTracker:
    """~x = -x - 1, also for a bool, since Python's bool is an int."""
    integer = apply(tx, torch.sym_ite, number, ONE, ZERO) if number.python_type() is bool else number
    return apply(tx, operator.sub, apply(tx, operator.neg, integer), ONE)


def _xor_of_bools(tx: Tracer, a: VariableTracker, b: VariableTracker) -> VariableTracker:
    """a ^ b of bools"""
    both = apply(tx, operator.and_, a, b)
    return apply(tx, operator.and_, apply(tx, operator.or_, a, b), apply(tx, torch.sym_not, both))


def assume(tx: Tracer, condition: SymNodeVariable) -> bool:
    """Assumes a data-dependent condition from here on; the graph checks it. Returns False if it is known not to hold."""
    if not condition.example.node.expect_true("", 0):
        return False
    tx.output.runtime_asserts.place_new(condition.node)
    return True


def _assume_defined(tx: Tracer, op: str, left: VariableTracker, right: VariableTracker) -> None:
    """Assumes that a data-dependent operand has a value for which Python does not raise."""
    if op in ("/", "//", "%"):
        _assume_of_data(tx, right, "!=")
    elif op in ("<<", ">>"):
        _assume_of_data(tx, right, ">=")
    elif op == "**" and not (right.is_constant() and right.constant() >= 0):
        _assume_of_data(tx, left, ">")


def _assume_of_data(tx: Tracer, number: VariableTracker, op: str) -> None:
    if not isinstance(number, SymNodeVariable) or not number.depends_on_data():
        return
    condition = apply(tx, COMPARE[op], number, ZERO)
    if not (assume(tx, condition) if isinstance(condition, SymNodeVariable) else condition.truth(tx)):
        unsupported("symbolic-arithmetic", error=f"an operand that is not {op} 0")
