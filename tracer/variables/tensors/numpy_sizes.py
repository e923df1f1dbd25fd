"""Integers of NumPy: those computed from sizes that vary, such as `np.prod(x.shape)`, and those that say an index, a size or
a dim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.containers.ranges import SliceVariable
from tracer.variables.slots import COMPARE
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable, apply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tracer.protocol.tracer import Tracer, ValueCodegen

_EXACT = {"+": "__add__", "-": "__sub__", "*": "__mul__"}  # on integers they give one, and cannot fail


class NumpyNumberVariable(VariableTracker):
    """A number of NumPy that is computed from symbolic sizes. Each operation fixes its value by a guard, unless a subclass can do
    it without."""

    source = None

    def fixed(self, tx: Tracer) -> ConstantVariable:
        """The number in this call as a constant, with a guard on what it was computed from."""
        raise NotImplementedError

    def beside(self, tx: Tracer, tensor: VariableTracker, op: str) -> VariableTracker:
        return self.fixed(tx)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        return tx.binary(op, other, self.fixed(tx)) if reflected else tx.binary(op, self.fixed(tx), other)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return self.fixed(tx).compare(tx, op, other)

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return self.fixed(tx).unary(tx, op)

    def truth(self, tx: Tracer) -> bool:
        return self.fixed(tx).truth(tx)

    def hash_key(self, tx: Tracer) -> Any:
        return self.fixed(tx).hash_key(tx)

    def form(self, tx: Tracer) -> Any:
        return self.fixed(tx).value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return self.fixed(tx).get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        return self.fixed(tx).call_method(tx, name, args, kwargs)


class NumpySizeVariable(NumpyNumberVariable):
    """An `np.int64` with the value of a symbolic int. What needs more than its value fixes it, by a guard."""

    def __init__(self, number: SymNodeVariable) -> None:
        self.number = number

    def python_type(self) -> type:
        return np.int64

    def describe(self) -> str:
        return f"NumpySizeVariable({self.number.example})"

    def children(self) -> Sequence[VariableTracker]:
        return (self.number,)

    def graph_arg(self) -> Any:
        return self.number.graph_arg()

    def beside(self, tx: Tracer, tensor: VariableTracker, op: str) -> VariableTracker:
        """This number as an operand of a tensor's operator, which treats it as a Python number."""
        return self.number

    def fixed(self, tx: Tracer) -> ConstantVariable:
        """The value in this call as a constant, with a guard on it."""
        return ConstantVariable(np.int64(self.number.specialize(tx).value))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        operand = _integer(other)
        divides = op in ("//", "%") and not reflected and other.is_constant() and other.constant() != 0
        if operand is None or not (op in _EXACT or divides):
            return super().binary(tx, op, other, reflected)
        pair = (operand, self.number) if reflected else (self.number, operand)
        return numpy_size(tx.binary(op, *pair))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        operand = _integer(other)
        if operand is None:
            return super().compare(tx, op, other)
        return ConstantVariable(np.bool_(apply(tx, COMPARE[op], self.number, operand).truth(tx)))

    def truth(self, tx: Tracer) -> bool:
        return self.number.truth(tx)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("item", "__int__", "__index__") and not args and not kwargs:
            return self.number
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(np.int64, lambda: cg.load(self.number))


class RoundedSizeVariable(NumpyNumberVariable):
    """`np.ceil(x.shape[0] / 8)`, an `np.float64`. It is made an int without a guard; all else that needs its value fixes it."""

    def __init__(self, function: Callable[[Any], Any], rounding: Callable[[Any], int], given: SymNodeVariable) -> None:
        self.function = function
        self.rounding = rounding  # as Python has it
        self.given = given

    def python_type(self) -> type:
        return np.float64

    def describe(self) -> str:
        return f"RoundedSizeVariable({self.given.example})"

    def children(self) -> Sequence[VariableTracker]:
        return (self.given,)

    def whole(self, tx: Tracer) -> VariableTracker:
        """The number as an int of Python."""
        return apply(tx, self.rounding, self.given)

    def fixed(self, tx: Tracer) -> ConstantVariable:
        """The number in this call as a constant, with a guard on what was rounded."""
        return ConstantVariable(self.function(self.given.specialize(tx).value))

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__int__" and not args and not kwargs:
            return self.whole(tx)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.function, lambda: cg.load(self.given))


def rounded_size(function: Any, rounding: Callable[[Any], int], args: Sequence[VariableTracker]) -> VariableTracker | None:
    """What NumPy rounds a quotient of sizes to; None for other arguments."""
    if len(args) != 1 or not isinstance(args[0], SymNodeVariable) or args[0].depends_on_data():
        return None
    return RoundedSizeVariable(function, rounding, args[0]) if args[0].python_type() is float else None


def numpy_size(value: VariableTracker) -> VariableTracker:
    """The int of NumPy with the value of an int."""
    return NumpySizeVariable(value) if isinstance(value, SymNodeVariable) else ConstantVariable(np.int64(value.constant()))


def _integer(value: VariableTracker) -> VariableTracker | None:
    """A Python int, or an `np.int64`, as a Python int that is known or symbolic; None for anything else."""
    if isinstance(value, NumpySizeVariable):
        return value.number
    if isinstance(value, SymNodeVariable):
        return value if value.python_type() is int and not value.depends_on_data() else None
    if value.is_constant() and type(value.constant()) in (int, np.int64):
        return ConstantVariable(int(value.constant()))
    return None


def reduced_sizes(tx: Tracer, op: str, items: Sequence[VariableTracker]) -> VariableTracker | None:
    """The sum or product of ints of which some vary; None for anything else."""
    numbers = [_integer(item) for item in items]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers) or not any(isinstance(number, SymNodeVariable) for number in known):
        return None
    result = known[0]
    for number in known[1:]:
        result = tx.binary(op, result, number)
    return numpy_size(result)


# -- as an index, a size or a dim ---------------------------------------------------------------------------------------


def plain_index(tx: Tracer, key: VariableTracker) -> VariableTracker:
    """A subscript of an array, with Python's ints for integers of NumPy: those that are known, and arguments, whose value a guard
    fixes."""
    if type(key) is SliceVariable:
        start, stop, step = (plain_index(tx, part) for part in key.parts)
        return SliceVariable(start, stop, step)
    if type(key) in (TupleVariable, ListVariable):
        parts = [plain_index(tx, part) for part in key.unpack(tx)]
        return TupleVariable(parts) if type(key) is TupleVariable else ListVariable(parts)
    number: Any = key
    if not issubclass(_class_of(key), np.integer):
        return key
    if isinstance(key, NumpyNumberVariable):
        number = key.fixed(tx)
    elif not key.is_constant():
        known = number.known(tx)
        number = ConstantVariable(known) if known is not None else key if key.source is None else number.as_number(tx)
        number = number.specialize(tx)
    return ConstantVariable(int(number.constant())) if number.is_constant() else key


_TAKING_COUNTS = frozenset(("reshape", "transpose", "swapaxes", "squeeze", "repeat"))


def plain_arguments(tx: Tracer, method: str, args: list[VariableTracker]) -> list[VariableTracker]:
    """The arguments of an array's method, with Python's ints for those of NumPy that say a size or a dim."""
    return [plain_index(tx, arg) for arg in args] if method in _TAKING_COUNTS else args


def _class_of(value: VariableTracker) -> type:
    """The class of a number; object for what is none."""
    is_number = value.is_constant() or isinstance(value, NumpyNumberVariable) or getattr(value, "is_scalar", False)
    return value.python_type() if is_number else object
