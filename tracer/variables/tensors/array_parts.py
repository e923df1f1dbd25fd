"""Bound methods of NumPy's arrays, their iterators, and how output code makes arrays of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.protocol.variable import VariableTracker
from tracer.variables.iteration import IteratorVariable, set_state
from tracer.variables.values.constant import ConstantVariable, NamedMethodVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class ArrayMethodVariable(NamedMethodVariable):
    """A bound method of an array."""

    def python_type(self) -> type:
        return type(np.empty(()).sum)


class ArrayIterator(IteratorVariable):
    """iter(array). Each item is read only when the iterator reaches it."""

    cls = type(iter(np.empty(1)))

    def __init__(self, array: VariableTracker) -> None:
        self.array = array
        self.position = 0

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if not tx.binary_truth("<", ConstantVariable(self.position), self.array.length(tx)):
            return None
        self.position += 1
        return self.array.get_item(tx, ConstantVariable(self.position - 1))

    def children(self) -> Iterable[VariableTracker]:
        return (self.array,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load(self.array)
        cg.asm.emit("GET_ITER")
        if self.position:
            set_state(cg, lambda: cg.load_const(self.position))


def shared_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Called by output code: the array in the tensor's memory."""
    found: np.ndarray[Any, Any] = tensor.numpy()
    return found


def read_only_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Called by output code: the array in the tensor's memory, which the program made read-only."""
    array: np.ndarray[Any, Any] = tensor.numpy()
    array.flags.writeable = False
    return array


def scalar(tensor: torch.Tensor) -> Any:
    """Called by output code: the NumPy scalar with the value of a tensor of no dims."""
    return tensor.numpy()[()]
