"""What NumPy says of its dtypes: the dtypes themselves, and the limits of a dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.slots import COMPARE
from tracer.variables.tensors.known_arrays import SHARED_DTYPES
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


class NumpyDtypeVariable(ConstantVariable):
    """A dtype of NumPy that torch has, too. In the graph it is passed by name."""

    def constant(self) -> Any:
        return self.value

    def graph_arg(self) -> Any:
        if self.value.name not in SHARED_DTYPES:
            unsupported("not-a-graph-argument", value=self.describe())
        return self.value.name

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        part: Any = getattr(self.value, name, None)
        if isinstance(part, np.dtype):
            return NumpyDtypeVariable(part)
        return tx.class_variable(part) if name == "type" else super().get_attr(tx, name)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        value: Any = other.constant() if other.is_constant() else getattr(other, "value", None)
        if not isinstance(value, (np.dtype, type, str)):
            unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())
        try:
            return ConstantVariable(COMPARE[op](self.value, value))  # `<`: whether values can be cast to the other safely
        except TypeError:
            unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())


class NumpyLimitsVariable(ConstantVariable):
    """np.finfo(dtype) or np.iinfo(dtype)"""

    def graph_arg(self) -> None:
        unsupported("not-a-graph-argument", value=self.describe())

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        part = getattr(self.value, name, None)
        if isinstance(part, np.dtype):
            return NumpyDtypeVariable(part)
        return tx.literal(part) if isinstance(part, (np.generic, int, str)) else super().get_attr(tx, name)
