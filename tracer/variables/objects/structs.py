"""`struct.Struct`: a format that was read once. Its methods are the functions of `struct`, with that format."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.iteration import SequenceIterator
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_FUNCTIONS = {name: getattr(struct, name) for name in ("pack", "unpack", "pack_into", "unpack_from", "iter_unpack")}


class StructVariable(VariableTracker):
    """`value` is a real one, of the same format. If the object existed before the frame ran, the format is guarded."""

    cls = struct.Struct

    def __init__(self, value: struct.Struct, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("format", "size"):
            return ConstantVariable(getattr(self.value, name))
        if name in _FUNCTIONS:
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name not in _FUNCTIONS:
            unsupported("unsupported-method", value=self.describe(), name=name)
        return CallableVariable(_FUNCTIONS[name]).call(tx, [ConstantVariable(self.value.format), *args], kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(struct.Struct, lambda: cg.load_const(self.value.format))


class UnpackIterator(SequenceIterator):
    """What `iter_unpack` gives. All of its items are known."""

    def __init__(self, tx: Tracer, items: TupleVariable) -> None:
        super().__init__(items)
        self._step = tx.break_step()

    def python_type(self) -> type:
        return type(_FUNCTIONS["iter_unpack"]("b", b""))

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", break_step=self._step, value="an iterator of struct.iter_unpack")

    def get_attr(self, tx: Tracer, name: str) -> Any:
        unsupported("unsupported-attribute", value="an iterator of struct.iter_unpack", name=name)
