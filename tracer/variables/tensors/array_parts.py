"""Bound methods of NumPy's arrays, their iterators, and how output code makes arrays of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.graph_breaks import unsupported
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.ranges import as_int
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


class FlatIterator(IteratorVariable):
    """array.flat, which is read by a number as well. Items are those of the array at that moment, the last dim first."""

    cls = np.flatiter
    methods = Models("flatiter method")

    def __init__(self, tx: Tracer, array: VariableTracker) -> None:
        self.array = array
        self.shape = tuple([as_int(tx, size) or 0 for size in array.get_attr(tx, "shape").unpack(tx)])
        self.position = 0

    def python_type(self) -> type:
        return self.cls

    def children(self) -> Iterable[VariableTracker]:
        return (self.array,)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(math.prod(self.shape))

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.position >= math.prod(self.shape):
            return None
        self.position += 1
        return self.array.get_item(tx, tx.literal(self._coordinates(self.position - 1)))

    def _coordinates(self, position: int) -> tuple[int, ...]:
        """The index of an item; behind the last one, the first index is the size of the first dim."""
        found: list[int] = []
        for size in reversed(self.shape[1:]):
            position, index = divmod(position, size or 1)
            found.append(index)
        return (position, *reversed(found)) if self.shape else ()

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "coords":
            return tx.literal(self._coordinates(self.position))
        if name == "index":
            return ConstantVariable(self.position)
        return self.array if name == "base" else super().get_attr(tx, name)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        position = self._position_of(tx, key)
        if position is not None:
            return self.array.get_item(tx, tx.literal(self._coordinates(position)))
        return self.array.call_method(tx, "flatten", [], {}).get_item(tx, key)

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        position = self._position_of(tx, key)
        if position is None:  # NumPy repeats the values
            unsupported("unsupported-subscript", value="a flatiter that is written to", key=key.describe())
        self.array.set_item(tx, tx.literal(self._coordinates(position)), value)

    def _position_of(self, tx: Tracer, key: VariableTracker) -> int | None:
        """The position that an int means, counted from the start."""
        if self.position:  # NumPy sets it back
            unsupported("unsupported-subscript", value="a flatiter that has been advanced", key=key.describe())
        size = math.prod(self.shape)
        number = as_int(tx, key) if key.python_type() is int else None
        if number is None:
            return None
        if not -size <= number < size:
            tx.raise_error(IndexError, f"index {number} is out of bounds for size {size}")
        return number % size

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_advanced, lambda: _load_flat(cg, self.array), lambda: cg.load_const(self.position))


def _load_flat(cg: ValueCodegen, array: VariableTracker) -> None:
    cg.load(array)
    cg.load_attr("flat")


def _advanced(iterator: Any, count: int) -> Any:
    """Called by output code."""
    for _ in range(count):
        next(iterator)
    return iterator


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
