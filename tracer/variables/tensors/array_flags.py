"""`array.flags`, as far as the layout and the kind of an array tell them. Who owns the memory is not known while tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.arrays import NdarrayVariable

_KEYS = {
    "C_CONTIGUOUS": "c_contiguous",
    "C": "c_contiguous",
    "CONTIGUOUS": "c_contiguous",
    "F_CONTIGUOUS": "f_contiguous",
    "F": "f_contiguous",
    "FORTRAN": "f_contiguous",
    "WRITEABLE": "writeable",
    "W": "writeable",
    "FORC": "forc",
    "FNC": "fnc",
}


class ArrayFlagsVariable(VariableTracker):
    cls = type(np.zeros(1).flags)

    def __init__(self, array: NdarrayVariable) -> None:
        self.array = array

    def children(self) -> tuple[VariableTracker, ...]:
        return (self.array,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if self.array.is_scalar or self.array.reversed_dims:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        fake = self.array.tensor.fake
        in_rows = fake.is_contiguous()
        in_columns = fake.permute(tuple(reversed(range(fake.dim())))).is_contiguous()
        known = {
            "c_contiguous": in_rows,
            "contiguous": in_rows,
            "f_contiguous": in_columns,
            "writeable": self.array.writeable,
            "forc": in_rows or in_columns,
            "fnc": in_columns and not in_rows,
        }
        if name not in known:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return boolean(known[name])

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        name = _KEYS.get(key.constant())
        if name is None:
            unsupported("unsupported-subscript", value=self.describe(), key=key.describe())
        return self.get_attr(tx, name)

    def reconstruct(self, cg: object) -> None:
        unsupported("cannot-reconstruct", value=self.describe())
