"""Scalars of NumPy that existed before the frame ran. NumPy's operations take one as an array without dims; those of Python and
PyTorch take the number in it, which is a constant or, once it has varied, symbolic, as a number of Python that was passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.graph_breaks import unsupported
from tracer.guards.arrays import ScalarMatch
from tracer.protocol.variable import VariableTracker
from tracer.sources.tensors import ScalarNumberSource
from tracer.variables.slots import COMPARE
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.values import symbolic
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source
    from tracer.variables.tensors.tensor import TensorVariable

_NUMBERS = (np.integer, np.floating)  # which Python and PyTorch compute with as with the number in them


class PassedScalarVariable(NdarrayVariable):
    source: Source

    @property
    def is_integer(self) -> bool:
        return issubclass(self.cls, np.integer)

    def as_number(self, tx: Tracer) -> VariableTracker:
        assert self.tensor.source is not None
        value = tx.output.inputs[self.tensor.source].real.numpy()[()]
        if issubclass(self.cls, _NUMBERS):
            return tx.wrap(value.item(), ScalarNumberSource(self.source))
        if self.cls is not np.bool_:
            unsupported("not-a-graph-argument", value=self.describe())  # PyTorch drops the imaginary part
        tx.guard(ScalarMatch(self.source, self.cls, value.tobytes()))
        return ConstantVariable(value)

    def beside(self, tx: Tracer, tensor: TensorVariable, op: str) -> VariableTracker:
        return self.as_number(tx)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        gives_number = self.is_integer if name == "__index__" else name in ("item", "tolist") and self.cls is not np.bool_
        if gives_number and not args and not kwargs:
            return self.as_number(tx)
        return super().call_method(tx, name, args, kwargs)

    def truth(self, tx: Tracer) -> bool:
        return self.as_number(tx).truth(tx)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        result = super().compare(tx, op, other)
        if isinstance(result, NdarrayVariable) and _compares_as_number(self.cls, other):
            return ComparedScalarVariable(result, self, op, other)
        return result


class ComparedScalarVariable(NdarrayVariable):
    """What a comparison of such a scalar with a number gives. A branch on it is decided as one on numbers of Python."""

    def __init__(self, result: NdarrayVariable, scalar: PassedScalarVariable, op: str, other: VariableTracker) -> None:
        super().__init__(result.tensor, result.cls)
        self.scalar, self.op, self.other = scalar, op, other

    def truth(self, tx: Tracer) -> bool:
        return symbolic.apply(tx, COMPARE[self.op], self.scalar.as_number(tx), self.other).truth(tx)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("item", "tolist") and not args and not kwargs:
            return ConstantVariable(self.truth(tx))
        return super().call_method(tx, name, args, kwargs)


def _compares_as_number(cls: type, other: VariableTracker) -> bool:
    """Whether NumPy compares a scalar of this class with a number as Python compares its number. NumPy takes a number of Python
    for one of the scalar's class, and an int64 beside a float for a float: where that rounds, the two may differ."""
    if isinstance(other, SymNodeVariable):
        return other.python_type() is int and issubclass(cls, np.integer)
    number: Any = other.constant() if other.is_constant() else None
    if type(number) is int and issubclass(cls, np.integer):
        return True
    if type(number) not in (int, float) or not issubclass(cls, np.floating):
        return False
    with np.errstate(over="ignore"):
        return bool(cls(number).item() == number)  # in Python: NumPy would round the number again


def number_in(tx: Tracer, value: VariableTracker) -> VariableTracker:
    """The number in such a scalar, unless it is a bool or complex; any other value itself."""
    if isinstance(value, PassedScalarVariable) and issubclass(value.cls, _NUMBERS):
        return value.as_number(tx)
    return value
